//! A unit's process: adopted or spawned, watched, read, signalled, buried, left.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use tokio::process::Child;

use super::{
    super::{
        health,
        launch::{self, Launch},
        log_file::{self, Tail},
        machine::{Death, Event},
        process::{Identity, signal_group},
        put_targets,
        record::{self, Record},
    },
    Unit,
};
use crate::fleet::ReplicaTarget;

/// How much of an adopted engine's log is read back.
const ADOPTED_LOG_BYTES: u64 = 64 << 10;

/// A process that is being watched.
#[derive(Debug)]
pub(super) enum Running {
    Child(Child),
    Adopted(Identity),
}

impl Running {
    /// Returns once it has ended.
    pub(super) async fn ended(process: &mut Option<Self>) -> Death {
        match process {
            None => std::future::pending().await,
            Some(Self::Child(child)) => Death::Exited {
                code: child.wait().await.ok().and_then(|status| status.code()),
            },
            Some(Self::Adopted(identity)) => {
                identity.gone().await;
                Death::Exited { code: None }
            }
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.id(),
            Self::Adopted(identity) => Some(identity.pid),
        }
    }
}

impl Unit {
    /// Finds out what an earlier warden left.
    pub(super) fn begin(&mut self) {
        let record = Record::read(&self.record_path());
        let identity = record.as_ref().and_then(Record::alive).cloned();
        match (record, identity) {
            (Some(record), Some(identity)) => self.adopt(record, identity),
            (record, _) => {
                if let Some(record) = record {
                    self.sweep(&record);
                    record::remove(&self.record_path());
                }
                if self.plan.always {
                    self.apply(Event::Start);
                } else {
                    self.publish();
                }
            }
        }
    }

    fn adopt(&mut self, record: Record, identity: Identity) {
        let (engine, server) = (&self.plan.engine, self.plan.server);
        let wanted = Launch::new(&self.plan.model.name, engine, server, record.port).hash();
        let unchanged = wanted == record.command
            && engine
                .port
                .is_none_or(|first| first + server == record.port);
        tracing::info!(
            model = %self.plan.model.name, server, pid = identity.pid, port = record.port, unchanged,
            "a running vLLM is adopted"
        );
        // What it said at its start is at the log's beginning, unless that was put aside.
        for line in Tail::from_start(&self.log_path())
            .lines()
            .unwrap_or_default()
        {
            self.read_kv_size(&line, vllm::serve::phase_of_line(&line));
        }
        self.tail = Some(Tail::from_end(&self.log_path(), ADOPTED_LOG_BYTES));
        let port = record.port;
        self.record = Some(record);
        self.watched(Running::Adopted(identity), port);
        self.apply(Event::Adopted);
        if !unchanged {
            tracing::info!(model = %self.plan.model.name, server, "its settings have changed: it is restarted");
            self.apply(if self.plan.always {
                Event::Restart
            } else {
                Event::Stop
            });
        }
    }

    pub(super) fn spawn(&mut self) -> Result<(), String> {
        let (model, server) = (&self.plan.model.name, self.plan.server);
        let port = launch::port(&self.plan.engine, server)
            .map_err(|error| format!("no free port ({error})"))?;
        let launch = Launch::new(model, &self.plan.engine, server, port);
        let mark = mark().map_err(|error| format!("no random numbers ({error})"))?;
        let mut record = Record {
            model: model.clone(),
            mark,
            process: None,
            port,
            command: launch.hash(),
        };
        let (log_path, record_path) = (self.log_path(), self.record_path());
        let wrote = |error| format!("the data directory cannot be written ({error})");
        let log = log_file::begin(&log_path).map_err(wrote)?;
        // Before the process, so that one that is started just as the warden dies is found.
        record.write(&record_path).map_err(wrote)?;
        let program = self.plan.engine.executable.display();
        let child = launch.spawn(log, &record.mark);
        let child = child.map_err(|error| format!("{program} cannot be started ({error})"))?;
        record.process = child.id().and_then(Identity::of);
        tracing::info!(%model, server, pid = child.id(), port, log = %log_path.display(), "vLLM starts");
        if let Err(error) = record.write(&record_path) {
            tracing::error!(%error, "an engine's record cannot be written: a restart of lm-warden would end it");
        }
        self.record = Some(record);
        self.tail = Some(Tail::from_start(&log_path));
        self.cause = None;
        self.is_cold = true;
        self.watched(Running::Child(child), port);
        Ok(())
    }

    /// From here on the process's end and its health are looked at.
    fn watched(&mut self, process: Running, port: u16) {
        self.generation += 1;
        self.process = Some(process);
        let url = format!("http://127.0.0.1:{port}");
        put_targets(&self.plan.model, self.replicas(), |replica| ReplicaTarget {
            url: url.clone(),
            rank: self.rank(replica),
        });
        let watch = health::watch(
            url,
            self.plan.model.name.clone(),
            self.plan.model.engine_key.clone(),
            (self.generation, self.events.clone()),
        );
        self.health = Some(tokio::spawn(watch));
    }

    pub(super) fn read_log(&mut self) {
        let Some(tail) = &mut self.tail else { return };
        // The file may be unreadable for a moment, or gone by an operator's hand; the engine
        // does not depend on it.
        let lines = tail.lines().unwrap_or_default();
        for line in lines {
            self.plan.model.logs.push(self.plan.server, &line);
            let phase = vllm::serve::phase_of_line(&line);
            self.read_kv_size(&line, phase);
            self.cause = vllm::serve::failure_cause(&line).or(self.cause);
            if let Some(phase) = phase {
                self.apply(Event::Phase(phase));
            }
        }
    }

    /// The server's process is gone: what it leaves behind is ended too, so that the next start
    /// finds the cards and the port free.
    pub(super) async fn bury(&mut self, death: Death) {
        self.generation += 1;
        self.process = None;
        if let Some(health) = self.health.take() {
            health.abort();
        }
        self.exclude();
        self.read_log();
        tracing::warn!(
            model = %self.plan.model.name, server = self.plan.server, ?death, cause = ?self.cause,
            "vLLM has ended"
        );
        if let Some(record) = self.record.take() {
            let swept = tokio::task::spawn_blocking(move || record.sweep()).await;
            if let Ok(left @ 1..) = swept {
                tracing::error!(left, "processes of a dead vLLM cannot be killed");
            }
        }
        record::remove(&self.record_path());
        self.apply(Event::Gone(death));
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.process.as_ref().and_then(Running::pid) {
            signal_group(pid, signal);
        }
    }

    fn sweep(&self, record: &Record) {
        let left = record.sweep();
        if left > 0 {
            tracing::error!(model = %self.plan.model.name, left, "processes of an earlier vLLM cannot be killed");
        }
    }

    /// Ends without touching the process.
    pub(super) fn leave(mut self) {
        if let Some(health) = self.health.take() {
            health.abort();
        }
        let pid = self.process.as_ref().and_then(Running::pid);
        if let Some(pid) = pid {
            tracing::info!(model = %self.plan.model.name, server = self.plan.server, pid, "vLLM goes on");
        }
    }

    fn log_path(&self) -> PathBuf {
        self.plan
            .directory
            .join(format!("server-{}.log", self.plan.server))
    }

    pub(super) fn record_path(&self) -> PathBuf {
        self.plan
            .directory
            .join(format!("server-{}.json", self.plan.server))
    }
}

fn mark() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
