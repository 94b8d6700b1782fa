//! What to do about one engine process, as a pure function (state, event) -> (state, effects).
//!
//! One owner applies the events in order and carries out the effects; nothing here touches a
//! process, a socket or a clock. The rules: an engine that dies is started again with a growing
//! pause, a few times, and then stays `Failed` until somebody starts it by hand; whatever its exit
//! code, an exit that nobody asked for is a death (vLLM leaves with 0 when an engine core is
//! killed). A stop first lets the gateway drain, then sends SIGTERM, then SIGKILL, each wait bounded.

mod limits;
mod rules;
#[cfg(test)]
mod tests;

use routing::Time;
use vllm::serve::Phase;

pub use self::limits::Limits;
use self::rules::{announce, gone, healthy, start, stop, terminate, tick, unresponsive};

/// Why the process is gone, or never came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// It left by itself, whatever the code.
    Exited {
        /// Exit code; `None` where a signal ended it.
        code: Option<i32>,
    },
    /// It could not be spawned.
    NotSpawned(String),
    /// It did not serve within [`Limits::start_max`].
    StartTimedOut,
    /// It served and then stopped answering.
    Unresponsive,
}

/// What follows a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Stay stopped.
    Stop,
    /// Start again at once.
    Start,
    /// It was a death: pause, start again or give up.
    Bury,
}

/// Where an engine stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not running and not wanted.
    Stopped,
    /// Spawned, not yet serving.
    Starting {
        /// Since when.
        since: Time,
        /// How far it has come, from its log.
        phase: Phase,
        /// Deaths in a row before this start.
        deaths: u32,
    },
    /// Serving.
    Serving {
        /// Since when.
        since: Time,
        /// Deaths in a row before this start.
        deaths: u32,
    },
    /// Still serving what is in flight; nothing new goes there.
    Draining {
        /// Since when.
        since: Time,
        /// What follows.
        then: Then,
    },
    /// SIGTERM was sent, or SIGKILL.
    Terminating {
        /// Since when (of the last signal).
        since: Time,
        /// Whether SIGKILL was sent.
        killed: bool,
        /// What follows.
        then: Then,
        /// Deaths in a row, this one included where it is one.
        deaths: u32,
    },
    /// Dead; started again at a set time.
    Pausing {
        /// When the next start is due.
        until: Time,
        /// Deaths in a row.
        deaths: u32,
        /// The last one.
        death: Death,
    },
    /// Dead too often: waits for somebody to start it.
    Failed {
        /// The last death.
        death: Death,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants it running (an operator, a request for an on-demand model, the start).
    Start,
    /// Somebody wants it stopped.
    Stop,
    /// Somebody wants it stopped and started.
    Restart,
    /// A process of ours from before was found alive and is watched from now on.
    Adopted,
    /// The log announced a phase.
    Phase(Phase),
    /// `/health` answers and the model is served.
    Healthy,
    /// It answers nothing any more, though the process lives.
    Unresponsive,
    /// Nothing is in flight any more.
    Drained,
    /// The process is gone (or could not be spawned).
    Gone(Death),
    /// Time passed.
    Tick,
}

/// What has to be done about it, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Start the process.
    Spawn,
    /// Let requests in flight end; send nothing new; report `Drained`.
    Drain,
    /// Route to it.
    Admit,
    /// Take it out at once.
    Exclude,
    /// SIGTERM to the process group.
    Terminate,
    /// SIGKILL to the process group.
    Kill,
}

/// The rules.
pub fn step(state: State, now: Time, event: &Event, limits: &Limits) -> (State, Vec<Effect>) {
    match event {
        Event::Start => start(state, now),
        Event::Stop => stop(&state, now, Then::Stop),
        Event::Restart => stop(&state, now, Then::Start),
        Event::Adopted => (
            State::Starting {
                since: now,
                phase: Phase::Starting,
                deaths: 0,
            },
            Vec::new(),
        ),
        Event::Phase(phase) => (announce(state, *phase), Vec::new()),
        Event::Healthy => healthy(state, now),
        Event::Unresponsive => unresponsive(state, now, limits),
        Event::Drained => match state {
            State::Draining { then, .. } => terminate(now, then, 0),
            other => (other, Vec::new()),
        },
        Event::Gone(death) => gone(state, now, death, limits),
        Event::Tick => tick(state, now, limits),
    }
}
