//! What to do about one engine process, as a pure function (state, event) -> (state, effects).
//!
//! One owner applies the events in order and carries out the effects; nothing here touches a
//! process, a socket or a clock. The rules: an engine that dies is started again with a growing
//! pause, a few times, and then stays `Failed` until somebody starts it by hand; whatever its exit
//! code, an exit that nobody asked for is a death (vLLM leaves with 0 when an engine core is
//! killed). A stop first lets the gateway drain, then sends SIGTERM, then SIGKILL, each wait bounded.

use std::time::Duration;

use routing::Time;
use vllm::serve::Phase;

/// Bounds of every wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From spawn to serving. Large models on slow disks need many minutes.
    pub start_max: Duration,
    /// For requests in flight, before SIGTERM.
    pub drain_max: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate_max: Duration,
    /// Deaths in a row after which the engine stays failed.
    pub deaths_max: u32,
    /// First pause before a restart; doubles with each death in a row.
    pub pause_min: Duration,
    /// Longest pause.
    pub pause_max: Duration,
    /// Serving for this long ends a row of deaths.
    pub settled_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start_max: Duration::from_secs(30 * 60),
            // A reply of 10,000 tokens takes minutes on a busy card.
            drain_max: Duration::from_secs(5 * 60),
            terminate_max: Duration::from_secs(20),
            deaths_max: 5,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
            settled_after: Duration::from_secs(10 * 60),
        }
    }
}

impl Limits {
    /// The pause before the start that follows the `deaths`-th death in a row (1 or more).
    fn pause(&self, deaths: u32) -> Duration {
        let doublings = deaths.saturating_sub(1).min(16);
        self.pause_min
            .saturating_mul(1 << doublings)
            .min(self.pause_max)
    }
}

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

fn spawn(now: Time, deaths: u32) -> (State, Vec<Effect>) {
    (
        State::Starting {
            since: now,
            phase: Phase::Starting,
            deaths,
        },
        vec![Effect::Spawn],
    )
}

fn terminate(now: Time, then: Then, deaths: u32) -> (State, Vec<Effect>) {
    (
        State::Terminating {
            since: now,
            killed: false,
            then,
            deaths,
        },
        vec![Effect::Exclude, Effect::Terminate],
    )
}

fn start(state: State, now: Time) -> (State, Vec<Effect>) {
    match state {
        // By hand means: forget the row of deaths.
        State::Stopped | State::Pausing { .. } | State::Failed { .. } => spawn(now, 0),
        State::Draining { since, .. } => (
            State::Draining {
                since,
                then: Then::Start,
            },
            Vec::new(),
        ),
        State::Terminating {
            since,
            killed,
            then: Then::Stop,
            deaths,
        } => (
            State::Terminating {
                since,
                killed,
                then: Then::Start,
                deaths,
            },
            Vec::new(),
        ),
        other => (other, Vec::new()),
    }
}

fn stop(state: &State, now: Time, then: Then) -> (State, Vec<Effect>) {
    match *state {
        State::Serving { .. } => (State::Draining { since: now, then }, vec![Effect::Drain]),
        // Nothing is in flight on an engine that does not serve yet.
        State::Starting { .. } => terminate(now, then, 0),
        State::Draining { since, .. } => (State::Draining { since, then }, Vec::new()),
        State::Terminating {
            since,
            killed,
            deaths,
            ..
        } => (
            State::Terminating {
                since,
                killed,
                then,
                deaths,
            },
            Vec::new(),
        ),
        State::Stopped | State::Pausing { .. } | State::Failed { .. } => match then {
            Then::Start => spawn(now, 0),
            Then::Stop | Then::Bury => (State::Stopped, Vec::new()),
        },
    }
}

fn announce(state: State, announced: Phase) -> State {
    match state {
        // Ranks log in any order; a start only moves forward.
        State::Starting {
            since,
            phase,
            deaths,
        } => State::Starting {
            since,
            phase: phase.max(announced),
            deaths,
        },
        other => other,
    }
}

fn healthy(state: State, now: Time) -> (State, Vec<Effect>) {
    match state {
        State::Starting { deaths, .. } => {
            (State::Serving { since: now, deaths }, vec![Effect::Admit])
        }
        other => (other, Vec::new()),
    }
}

fn unresponsive(state: State, now: Time, limits: &Limits) -> (State, Vec<Effect>) {
    match state {
        State::Serving { since, deaths } => {
            let row = row_of_deaths(since, deaths, now, limits);
            terminate(now, Then::Bury, row)
        }
        other => (other, Vec::new()),
    }
}

/// Deaths in a row, the one at `now` included, of an engine that served since `since`.
fn row_of_deaths(since: Time, before: u32, now: Time, limits: &Limits) -> u32 {
    if now.since(since) >= limits.settled_after {
        1
    } else {
        before.saturating_add(1)
    }
}

fn bury(now: Time, deaths: u32, death: Death, limits: &Limits) -> State {
    if deaths >= limits.deaths_max {
        State::Failed { death }
    } else {
        State::Pausing {
            until: now.plus(limits.pause(deaths)),
            deaths,
            death,
        }
    }
}

fn gone(state: State, now: Time, death: &Death, limits: &Limits) -> (State, Vec<Effect>) {
    match state {
        State::Starting { deaths, .. } => (
            bury(now, deaths.saturating_add(1), death.clone(), limits),
            vec![Effect::Exclude],
        ),
        State::Serving { since, deaths } => {
            let row = row_of_deaths(since, deaths, now, limits);
            (bury(now, row, death.clone(), limits), vec![Effect::Exclude])
        }
        State::Draining { then, .. } => {
            let (next, mut effects) = after(then, now, 0, death, limits);
            effects.insert(0, Effect::Exclude);
            (next, effects)
        }
        State::Terminating { then, deaths, .. } => after(then, now, deaths, death, limits),
        other => (other, Vec::new()),
    }
}

fn after(
    then: Then,
    now: Time,
    deaths: u32,
    death: &Death,
    limits: &Limits,
) -> (State, Vec<Effect>) {
    match then {
        Then::Stop => (State::Stopped, Vec::new()),
        Then::Start => spawn(now, 0),
        Then::Bury => (bury(now, deaths, death.clone(), limits), Vec::new()),
    }
}

fn tick(state: State, now: Time, limits: &Limits) -> (State, Vec<Effect>) {
    match state {
        State::Starting { since, deaths, .. } if now.since(since) >= limits.start_max => {
            terminate(now, Then::Bury, deaths.saturating_add(1))
        }
        State::Draining { since, then } if now.since(since) >= limits.drain_max => {
            terminate(now, then, 0)
        }
        State::Terminating {
            since,
            killed: false,
            then,
            deaths,
        } if now.since(since) >= limits.terminate_max => (
            State::Terminating {
                since: now,
                killed: true,
                then,
                deaths,
            },
            vec![Effect::Kill],
        ),
        State::Pausing { until, deaths, .. } if now >= until => spawn(now, deaths),
        other => (other, Vec::new()),
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
