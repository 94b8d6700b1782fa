//! One function for each kind of event: what it makes of every state. What is not named stays as it
//! is.

use routing::Time;
use vllm::serve::Phase;

use super::{Death, Effect, Limits, State, Then};

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

pub(super) fn terminate(now: Time, then: Then, deaths: u32) -> (State, Vec<Effect>) {
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

pub(super) fn start(state: State, now: Time) -> (State, Vec<Effect>) {
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

pub(super) fn stop(state: &State, now: Time, then: Then) -> (State, Vec<Effect>) {
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

pub(super) fn announce(state: State, announced: Phase) -> State {
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

pub(super) fn healthy(state: State, now: Time) -> (State, Vec<Effect>) {
    match state {
        State::Starting { deaths, .. } => {
            (State::Serving { since: now, deaths }, vec![Effect::Admit])
        }
        other => (other, Vec::new()),
    }
}

pub(super) fn unresponsive(state: State, now: Time, limits: &Limits) -> (State, Vec<Effect>) {
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

pub(super) fn gone(
    state: State,
    now: Time,
    death: &Death,
    limits: &Limits,
) -> (State, Vec<Effect>) {
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

pub(super) fn tick(state: State, now: Time, limits: &Limits) -> (State, Vec<Effect>) {
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
