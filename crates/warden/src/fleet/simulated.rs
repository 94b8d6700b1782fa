//! Simulated engines: child processes of this very binary, one per model, started again when they
//! die. The warden knows them only over HTTP, as it knows vLLM.
//!
//! A child ends when its standard input closes, so it ends with the warden however that ends. Its
//! cache dies with it, so each new process is told to the router as a restarted engine. An operator
//! may stop and start it.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use routing::Event;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::Instant,
};

use super::{
    Model,
    health::Process,
    model::rank_targets,
    switch::{self, Wanted},
};
use crate::{clock, config, telemetry::Telemetry};

/// How long a child may take to tell its port.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before a start that follows a death, doubled with each one up to the last.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];
/// A child that lived this long starts with the first pause again.
const SETTLED: Duration = Duration::from_secs(30);
/// Longest line of a child that is read.
const LINE_BYTES_MAX: u64 = 4096;
/// The exit code of wrong arguments: to start it again with the same ones would be vain.
const EXIT_USAGE: i32 = 2;

/// Which program to start, and as what.
#[derive(Debug, Clone)]
pub struct Simulator {
    /// This binary.
    pub program: PathBuf,
    /// The settings.
    pub engine: config::Simulated,
}

/// Keeps a model's simulated engine running, until it is dropped (which ends the engine) or the
/// engine refuses its settings.
pub async fn run(simulator: Simulator, model: Arc<Model>, telemetry: Arc<Telemetry>) {
    let mut pause = BACK_OFF[0];
    loop {
        let wanted = switch::on(&model, &telemetry).await;
        let began = Instant::now();
        let death = live(&simulator, &model, &telemetry, wanted).await;
        let lived = began.elapsed();
        model.observe_all(clock::now(), model.replicas(), Event::ConnectFailed);
        match death {
            Death::Asked => {
                model.observe_all(clock::now(), model.replicas(), Event::Undrain);
                tracing::info!(model = %model.name, "the simulated engine has stopped");
                continue;
            }
            Death::Refused(why) => {
                tracing::warn!(model = %model.name, why, "the simulated engine does not start");
                switch::tell(&model, &telemetry, &Process::Failed(why));
                return;
            }
            Death::Died(why) => {
                tracing::warn!(model = %model.name, why, "the simulated engine is gone");
                let process = Process::Starting(format!("{why}; starting it again"));
                switch::tell(&model, &telemetry, &process);
            }
        }
        pause = if lived >= SETTLED { BACK_OFF[0] } else { pause };
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACK_OFF[1]);
    }
}

/// How a child's life ended.
#[derive(Debug)]
enum Death {
    /// An operator wanted it to end.
    Asked,
    /// It does not run with these settings.
    Refused(String),
    /// Otherwise.
    Died(String),
}

async fn live(
    simulator: &Simulator,
    model: &Model,
    telemetry: &Telemetry,
    wanted: Wanted,
) -> Death {
    let mut child = match start(simulator, &model.name) {
        Ok(child) => child,
        Err(error) => {
            return Death::Died(format!("the simulated engine cannot be started ({error})"));
        }
    };
    // Held here, since waiting for the child would close it, which is what ends the child.
    let lifeline = child.stdin.take();
    let complaints = child.stderr.take().map(|stderr| {
        let model = model.name.clone();
        tokio::spawn(follow(model, BufReader::new(stderr)))
    });
    let mut stdout = child.stdout.take().map(BufReader::new);
    let ready = match &mut stdout {
        Some(stdout) => tokio::time::timeout(START_TIMEOUT, ready(stdout)).await,
        None => Ok(None),
    };
    let trouble = match ready {
        Ok(Some(url)) => {
            serve(model, telemetry, &url);
            None
        }
        Ok(None) => None, // it died, and its exit code says why
        Err(_) => Some(format!(
            "the simulated engine told no port within {} s",
            START_TIMEOUT.as_secs()
        )),
    };
    if trouble.is_some() {
        // The wait below tells if it could not be killed.
        let _ = child.start_kill();
    }
    let status = tokio::select! {
        status = child.wait() => status,
        () = switch::off(model, telemetry, wanted) => {
            let _ = child.kill().await;
            return Death::Asked;
        }
    };
    drop(lifeline);
    let last = match complaints {
        Some(complaints) => complaints.await.ok().flatten(),
        None => None,
    };
    let code = status
        .as_ref()
        .ok()
        .and_then(std::process::ExitStatus::code);
    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    let last = last.map_or_else(String::new, |line| format!(": {line}"));
    if code == Some(EXIT_USAGE) {
        return Death::Refused(format!("the simulated engine refuses its settings{last}"));
    }
    Death::Died(trouble.unwrap_or(format!("the simulated engine ended ({how}){last}")))
}

fn start(simulator: &Simulator, name: &str) -> std::io::Result<Child> {
    let engine = &simulator.engine;
    Command::new(&simulator.program)
        .arg("engine")
        .args(["--host", "127.0.0.1", "--port", "0", "--exit-with-stdin"])
        .arg(format!("--served-model-name={name}"))
        .arg(format!(
            "--data-parallel-size={}",
            engine.data_parallel_size
        ))
        .arg(format!("--max-num-seqs={}", engine.max_num_seqs))
        .arg(format!("--profile={}", engine.profile))
        .arg(format!("--speed={}", engine.speed))
        // Meant for the vLLM that somebody else runs.
        .env_remove("VLLM_API_KEY")
        // A Ctrl-C at the terminal goes to the whole group: the engine must outlive the drain.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// The address in the child's first line.
async fn ready(stdout: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    #[derive(Deserialize)]
    struct Ready {
        listening: String,
    }
    let line = line(stdout).await?;
    serde_json::from_str::<Ready>(&line)
        .ok()
        .map(|ready| ready.listening)
}

/// A new process serves there.
fn serve(model: &Model, telemetry: &Telemetry, url: &str) {
    model.set_targets(rank_targets(
        url.trim_end_matches('/'),
        model.replica_ids.len(),
    ));
    // It was told so on its command line.
    model.set_served(model.name.clone(), None);
    let now = clock::now();
    model.observe_all(now, model.replicas(), Event::EngineRestarted);
    model.observe_all(now, model.replicas(), Event::ProbeSucceeded);
    for replica in 0..model.replica_ids.len() {
        model.answered(replica, Ok(()));
    }
    tracing::info!(model = %model.name, %url, "the simulated engine serves");
    switch::tell(model, telemetry, &Process::Running);
}

/// Passes a child's lines on to the log; gives back the one that tells most: its last error, or its
/// last line.
async fn follow(model: String, mut stderr: impl AsyncBufRead + Unpin) -> Option<String> {
    let (mut error, mut last) = (None, None);
    while let Some(line) = line(&mut stderr).await {
        tracing::debug!(%model, engine = %line);
        if let Some(what) = line.strip_prefix("error: ") {
            error = Some(what.to_owned());
        }
        last = Some(line);
    }
    error.or(last)
}

/// The next line that says something, cut off at its bound.
async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    loop {
        let mut bytes = Vec::new();
        let mut bounded = reader.take(LINE_BYTES_MAX);
        if bounded.read_until(b'\n', &mut bytes).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&bytes).trim().to_owned();
        if !line.is_empty() {
            return Some(line);
        }
    }
}
