//! What an operator wants of a simulated engine: that it runs, that it does not, or a new one.
//!
//! The owner of the child process follows. It ends the child only after a drain, as the supervisor
//! does with vLLM, so that nothing that was begun is cut off.

use std::time::Duration;

use routing::Event;
use tokio::{
    sync::watch,
    time::{Instant, interval},
};

use super::{Model, Process};
use crate::{clock, telemetry::Telemetry};

/// How long replies may go on before an engine ends, simulated or not: one of 10,000 tokens takes
/// minutes on a busy card.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5 * 60);
/// How often it is looked whether they have ended.
const TICK: Duration = Duration::from_millis(100);

/// An operator's wish, which the engine's owner follows.
#[derive(Debug)]
pub(crate) struct Switch(watch::Sender<Wanted>);

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Whether the engine is to run.
    pub(super) runs: bool,
    /// Another number asks for another process.
    restarts: u64,
}

impl Switch {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Wanted {
            runs: true,
            restarts: 0,
        }))
    }

    /// It is to run.
    pub(crate) fn start(&self) {
        self.0.send_modify(|wanted| wanted.runs = true);
    }

    /// It is to end, after a drain.
    pub(crate) fn stop(&self) {
        self.0.send_modify(|wanted| wanted.runs = false);
    }

    /// It is to end, after a drain, and another to run.
    pub(crate) fn restart(&self) {
        self.0.send_modify(|wanted| {
            wanted.runs = true;
            wanted.restarts += 1;
        });
    }

    pub(super) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.0.subscribe()
    }
}

/// Waits until an engine is wanted; meanwhile the model is stopped.
pub(super) async fn on(model: &Model, telemetry: &Telemetry) -> Wanted {
    let mut wanted = model.switch.wanted();
    let now = *wanted.borrow_and_update();
    if now.runs {
        return now;
    }
    tell(model, telemetry, &Process::Stopped);
    // The model holds the sender: it cannot be gone.
    let next = wanted.wait_for(|wanted| wanted.runs).await;
    next.map_or(now, |next| *next)
}

/// Returns once this engine is no longer wanted and has nothing in flight.
pub(super) async fn off(model: &Model, telemetry: &Telemetry, started_for: Wanted) {
    let mut wanted = model.switch.wanted();
    let _ = wanted.wait_for(|wanted| *wanted != started_for).await;
    model.observe_all(clock::now(), model.replicas(), Event::Drain);
    let what = "finishing what is in flight before it stops";
    tell(model, telemetry, &Process::Starting(what.to_owned()));
    let (began, mut ticks) = (Instant::now(), interval(TICK));
    while began.elapsed() < DRAIN_MAX {
        ticks.tick().await;
        if model.router.lock().snapshot(clock::now()).in_flight == 0 {
            return;
        }
    }
}

/// The process's state, for everybody who looks at the model.
pub(super) fn tell(model: &Model, telemetry: &Telemetry, process: &Process) {
    if model.process(clock::now(), model.replicas(), process) {
        telemetry.changes().model(&model.name);
    }
}
