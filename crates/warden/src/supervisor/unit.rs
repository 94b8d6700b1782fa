//! One vLLM server and its owner: a task that feeds the state machine with what happens and carries
//! out what it says. Nobody else starts, signals or adopts this process.
//!
//! Events come from five sides: commands, the process's end, its log, its health, and time. Those of
//! an earlier process that arrive late are known by their generation and dropped.

use std::{ops::Range, path::PathBuf, sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use routing::{Event as RouterEvent, ReplicaIndex};
use tokio::{
    process::Child,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::MissedTickBehavior,
};
use vllm::serve::FailureCause;

use super::{
    health,
    launch::{self, Launch},
    log_file::{self, Tail},
    machine::{Death, Effect, Event, Limits, State, step},
    process::{Identity, signal_group},
    record::{self, Record},
    words,
};
use crate::{
    clock,
    config::Vllm,
    fleet::{Model, Process, ReplicaTarget},
    telemetry::Telemetry,
};

/// How often the log is read and the bounds of the waits are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Commands that wait, at most.
const COMMANDS_MAX: usize = 16;
/// How much of an adopted engine's log is read back.
const ADOPTED_LOG_BYTES: u64 = 64 << 10;
/// Lines in the reason of a failure.
const LAST_LINES: usize = 8;

/// What somebody wants of the server.
#[derive(Debug)]
pub(super) enum Command {
    /// Run.
    Start,
    /// End, after a drain; an operator's word.
    Stop,
    /// End, after a drain, until the next request.
    Rest,
    /// End now: the warden goes, and nothing is in flight.
    StopNow,
    /// End after a drain, and start again.
    Restart,
    /// Use these settings from the next start on.
    Configure(Box<Vllm>),
    /// Let the process run and end this task.
    Leave,
}

/// What a unit is made of.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) model: Arc<Model>,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) engine: Vllm,
    /// Which of the model's servers.
    pub(super) server: u16,
    /// The model's directory for logs and records.
    pub(super) directory: PathBuf,
    pub(super) limits: Limits,
    /// Whether it starts by itself.
    pub(super) always: bool,
}

/// How others reach a unit.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) state: watch::Receiver<State>,
    pub(super) task: JoinHandle<()>,
    /// Whether it has a process that runs since before.
    pub(super) is_adopted: bool,
}

/// A process that is being watched.
#[derive(Debug)]
enum Running {
    Child(Child),
    Adopted(Identity),
}

impl Running {
    /// Returns once it has ended.
    async fn ended(process: &mut Option<Self>) -> Death {
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

    fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.id(),
            Self::Adopted(identity) => Some(identity.pid),
        }
    }
}

/// The owner.
#[derive(Debug)]
struct Unit {
    plan: Plan,
    state: State,
    process: Option<Running>,
    record: Option<Record>,
    tail: Option<Tail>,
    /// Why the process may have died, by its log.
    cause: Option<FailureCause>,
    /// Whether the next admission is of an engine whose cache is empty.
    is_cold: bool,
    /// Whether the router was told to drain the replicas.
    drains: bool,
    /// Whether a request starts it where it is stopped.
    rests: bool,
    /// Counts the processes.
    generation: u64,
    events: mpsc::Sender<(u64, Event)>,
    health: Option<JoinHandle<()>>,
    published: watch::Sender<State>,
}

/// Starts the owner: it adopts what runs already, or starts what has to run.
pub(super) fn start(plan: Plan) -> Handle {
    let (commands, received) = mpsc::channel(COMMANDS_MAX);
    let (events, happened) = mpsc::channel(COMMANDS_MAX);
    let (published, state) = watch::channel(State::Stopped);
    let mut unit = Unit {
        rests: !plan.always,
        plan,
        state: State::Stopped,
        process: None,
        record: None,
        tail: None,
        cause: None,
        is_cold: false,
        drains: false,
        generation: 0,
        events,
        health: None,
        published,
    };
    unit.begin();
    Handle {
        commands,
        state,
        is_adopted: matches!(unit.process, Some(Running::Adopted(_))),
        task: tokio::spawn(unit.run(received, happened)),
    }
}

impl Unit {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut happened: mpsc::Receiver<(u64, Event)>,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                death = Running::ended(&mut self.process) => self.bury(death).await,
                command = commands.recv() => match command {
                    None | Some(Command::Leave) => return self.leave(),
                    Some(command) => self.command(command),
                },
                Some((generation, event)) = happened.recv() => {
                    if generation == self.generation {
                        self.apply(event);
                    }
                }
                _ = ticks.tick() => self.tick(),
            }
        }
    }

    /// Finds out what an earlier warden left.
    fn begin(&mut self) {
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

    fn command(&mut self, command: Command) {
        match command {
            Command::Start => self.apply(Event::Start),
            Command::Stop | Command::Rest => {
                self.rests = matches!(command, Command::Rest);
                self.apply(Event::Stop);
            }
            Command::Restart => self.apply(Event::Restart),
            Command::StopNow => {
                self.apply(Event::Stop);
                self.apply(Event::Drained);
            }
            Command::Configure(engine) => {
                self.plan.limits.start_max = engine.start_max;
                self.plan.engine = *engine;
            }
            Command::Leave => {} // ends the loop
        }
    }

    fn tick(&mut self) {
        self.read_log();
        if matches!(self.state, State::Draining { .. }) && self.in_flight() == 0 {
            self.apply(Event::Drained);
        }
        self.apply(Event::Tick);
    }

    fn read_log(&mut self) {
        let Some(tail) = &mut self.tail else { return };
        // The file may be unreadable for a moment, or gone by an operator's hand; the engine
        // does not depend on it.
        let lines = tail.lines().unwrap_or_default();
        for line in lines {
            self.plan.model.logs.push(self.plan.server, &line);
            self.cause = vllm::serve::failure_cause(&line).or(self.cause);
            if let Some(phase) = vllm::serve::phase_of_line(&line) {
                self.apply(Event::Phase(phase));
            }
        }
    }

    /// The server's process is gone: what it leaves behind is ended too, so that the next start
    /// finds the cards and the port free.
    async fn bury(&mut self, death: Death) {
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

    fn apply(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let state = std::mem::replace(&mut self.state, State::Stopped);
            let (state, effects) = step(state, clock::now(), &event, &self.plan.limits);
            self.state = state;
            for effect in effects {
                if let Err(error) = self.carry_out(effect) {
                    next = Some(Event::Gone(Death::NotSpawned(error)));
                }
            }
        }
        self.publish();
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Spawn => {
                let spawned = self.spawn();
                if spawned.is_err() {
                    record::remove(&self.record_path());
                }
                return spawned;
            }
            Effect::Drain => {
                self.drains = true;
                self.observe(RouterEvent::Drain);
            }
            Effect::Admit => self.admit(),
            Effect::Exclude => self.exclude(),
            Effect::Terminate => self.signal(Signal::SIGTERM),
            Effect::Kill => self.signal(Signal::SIGKILL),
        }
        Ok(())
    }

    fn spawn(&mut self) -> Result<(), String> {
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
        super::put_targets(&self.plan.model, self.replicas(), |replica| ReplicaTarget {
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

    fn rank(&self, replica: ReplicaIndex) -> Option<u32> {
        match self.plan.engine.layout {
            crate::config::Layout::Ranks => Some(u32::from(replica.0)),
            crate::config::Layout::Servers => None,
        }
    }

    fn admit(&mut self) {
        if std::mem::take(&mut self.is_cold) {
            self.observe(RouterEvent::EngineRestarted);
        }
        self.undrain();
        self.observe(RouterEvent::ProbeSucceeded);
        for replica in self.replicas() {
            self.plan.model.answered(usize::from(replica), Ok(()));
        }
        tracing::info!(model = %self.plan.model.name, server = self.plan.server, "vLLM serves");
    }

    fn exclude(&mut self) {
        self.observe(RouterEvent::ConnectFailed);
        self.undrain();
    }

    fn undrain(&mut self) {
        if std::mem::take(&mut self.drains) {
            self.observe(RouterEvent::Undrain);
        }
    }

    fn observe(&self, event: fn(ReplicaIndex) -> RouterEvent) {
        let replicas = self.replicas().map(ReplicaIndex);
        self.plan.model.observe_all(clock::now(), replicas, event);
    }

    /// The replicas of this server.
    fn replicas(&self) -> Range<u16> {
        let ranks = self.plan.engine.ranks_per_server();
        self.plan.server * ranks..(self.plan.server + 1) * ranks
    }

    /// Requests on this server; where it is the only one, those that vLLM placed count too.
    fn in_flight(&self) -> u32 {
        let snapshot = self.plan.model.router.lock().snapshot(clock::now());
        if self.plan.engine.servers() == 1 {
            return snapshot.in_flight;
        }
        let replicas = self.replicas().map(usize::from);
        replicas
            .filter_map(|replica| snapshot.replicas.get(replica))
            .map(|view| view.in_flight)
            .sum()
    }

    fn signal(&self, signal: Signal) {
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

    fn publish(&mut self) {
        let process = self.process_state();
        let replicas = self.replicas().map(ReplicaIndex);
        let model = &self.plan.model;
        if model.process(clock::now(), replicas, &process) {
            self.plan.telemetry.changes().model(&model.name);
        }
        self.published.send_if_modified(|published| {
            let changed = *published != self.state;
            published.clone_from(&self.state);
            changed
        });
    }

    fn process_state(&self) -> Process {
        let why = |death: &Death| {
            let last = self.plan.model.logs.last_of(self.plan.server, LAST_LINES);
            words::death(death, self.cause, &last)
        };
        match &self.state {
            State::Stopped if self.rests => Process::Asleep,
            State::Stopped => Process::Stopped,
            State::Starting { phase, .. } => Process::Starting(words::phase(*phase)),
            State::Serving { .. } => Process::Running,
            State::Draining { then, .. } => {
                Process::Starting(words::ending("finishing what is in flight", *then))
            }
            State::Terminating { then, .. } => Process::Starting(words::ending("stopping", *then)),
            State::Pausing { deaths, death, .. } => {
                let max = self.plan.limits.deaths_max;
                Process::Starting(format!(
                    "{}; it is started again (death {deaths} of {max})",
                    words::short(death, self.cause)
                ))
            }
            State::Failed { death } => Process::Failed(why(death)),
        }
    }

    /// Ends without touching the process.
    fn leave(mut self) {
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

    fn record_path(&self) -> PathBuf {
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
