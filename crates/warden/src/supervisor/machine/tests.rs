//! Every rule of the engine's state machine, and that there is one process at a time.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    start_max: Duration::from_secs(100),
    drain_max: Duration::from_secs(10),
    terminate_max: Duration::from_secs(5),
    deaths_max: 3,
    pause_min: Duration::from_secs(1),
    pause_max: Duration::from_secs(60),
    settled_after: Duration::from_secs(600),
};

fn at(s: u64) -> Time {
    Time(s * 1_000_000)
}

/// Applies events at their seconds and returns the last state with all effects.
fn run(events: &[(u64, Event)]) -> (State, Vec<Effect>) {
    let mut state = State::Stopped;
    let mut effects = Vec::new();
    for (s, event) in events {
        let (next, new) = step(state, at(*s), event, &LIMITS);
        state = next;
        effects.extend(new);
    }
    (state, effects)
}

fn exit() -> Event {
    Event::Gone(Death::Exited { code: Some(0) })
}

#[test]
fn a_start_passes_through_its_phases_to_serving() {
    let (state, effects) = run(&[
        (0, Event::Start),
        (1, Event::Phase(Phase::KvCache { tokens: 9 })),
        (2, Event::Phase(Phase::LoadingWeights)),
    ]);
    let phase = Phase::KvCache { tokens: 9 };
    assert_eq!(
        state,
        State::Starting {
            since: at(0),
            phase,
            deaths: 0
        }
    );
    assert_eq!(effects, [Effect::Spawn]);
    let (state, effects) = run(&[(0, Event::Start), (3, Event::Healthy)]);
    assert_eq!(
        state,
        State::Serving {
            since: at(3),
            deaths: 0
        }
    );
    assert_eq!(effects, [Effect::Spawn, Effect::Admit]);
}

#[test]
fn exit_code_zero_is_a_death_too() {
    let (state, effects) = run(&[(0, Event::Start), (3, Event::Healthy), (4, exit())]);
    let death = Death::Exited { code: Some(0) };
    assert_eq!(
        state,
        State::Pausing {
            until: at(5),
            deaths: 1,
            death
        }
    );
    assert_eq!(effects.last(), Some(&Effect::Exclude));
}

#[test]
fn deaths_in_a_row_pause_longer_and_then_fail() {
    let mut events = vec![(0, Event::Start), (1, exit()), (1, Event::Tick)];
    let death = Death::Exited { code: Some(0) };
    assert_eq!(
        run(&events).0,
        State::Pausing {
            until: at(2),
            deaths: 1,
            death: death.clone()
        }
    );
    events.extend([(2, Event::Tick), (3, exit())]);
    assert_eq!(
        run(&events).0,
        State::Pausing {
            until: at(5),
            deaths: 2,
            death: death.clone()
        }
    );
    events.extend([(5, Event::Tick), (6, exit()), (1000, Event::Tick)]);
    assert_eq!(run(&events).0, State::Failed { death });
    events.push((1001, Event::Start));
    let (state, _) = run(&events);
    let phase = Phase::Starting;
    assert_eq!(
        state,
        State::Starting {
            since: at(1001),
            phase,
            deaths: 0
        }
    );
}

#[test]
fn serving_for_long_ends_a_row_of_deaths() {
    let (state, _) = run(&[
        (0, Event::Start),
        (1, exit()),
        (2, Event::Tick),
        (3, Event::Healthy),
        (700, exit()),
    ]);
    assert!(
        matches!(state, State::Pausing { deaths: 1, .. }),
        "{state:?}"
    );
}

#[test]
fn a_stop_drains_then_terminates_then_kills() {
    let serving = [(0, Event::Start), (1, Event::Healthy), (2, Event::Stop)];
    let (state, effects) = run(&serving);
    assert_eq!(
        state,
        State::Draining {
            since: at(2),
            then: Then::Stop
        }
    );
    assert_eq!(effects.last(), Some(&Effect::Drain));

    let mut drained = serving.to_vec();
    drained.extend([(3, Event::Drained), (4, exit())]);
    let (state, effects) = run(&drained);
    assert_eq!(state, State::Stopped);
    assert!(!effects.contains(&Effect::Kill));

    let mut stubborn = serving.to_vec();
    stubborn.extend([
        (12, Event::Tick),
        (16, Event::Tick),
        (17, Event::Tick),
        (18, Event::Tick),
    ]);
    let (state, effects) = run(&stubborn);
    assert!(
        matches!(state, State::Terminating { killed: true, .. }),
        "{state:?}"
    );
    assert_eq!(effects.iter().filter(|e| **e == Effect::Kill).count(), 1);
    stubborn.push((19, exit()));
    assert_eq!(run(&stubborn).0, State::Stopped);
}

#[test]
fn a_restart_spawns_once_the_old_process_is_gone() {
    let (state, effects) = run(&[
        (0, Event::Start),
        (1, Event::Healthy),
        (2, Event::Restart),
        (3, Event::Drained),
        (4, exit()),
    ]);
    assert!(matches!(state, State::Starting { deaths: 0, .. }));
    assert_eq!(effects.iter().filter(|e| **e == Effect::Spawn).count(), 2);
}

#[test]
fn a_start_that_hangs_is_ended_and_counts_as_a_death() {
    let (state, effects) = run(&[(0, Event::Start), (100, Event::Tick)]);
    assert!(
        matches!(
            state,
            State::Terminating {
                then: Then::Bury,
                deaths: 1,
                ..
            }
        ),
        "{state:?}"
    );
    assert_eq!(effects.last(), Some(&Effect::Terminate));
}

#[test]
fn an_adopted_engine_is_admitted_without_a_spawn() {
    let (state, effects) = run(&[(0, Event::Adopted), (1, Event::Healthy)]);
    assert_eq!(
        state,
        State::Serving {
            since: at(1),
            deaths: 0
        }
    );
    assert_eq!(effects, [Effect::Admit]);
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Start),
        Just(Event::Stop),
        Just(Event::Restart),
        Just(Event::Phase(Phase::LoadingWeights)),
        Just(Event::Healthy),
        Just(Event::Unresponsive),
        Just(Event::Drained),
        Just(exit()),
        Just(Event::Tick),
    ]
}

proptest! {
    /// Whatever happens in whatever order: never two processes at once, nothing is routed to a
    /// process that is gone, and a stopped engine stays stopped.
    #[test]
    fn one_process_at_a_time(events in prop::collection::vec((0_u64..200, any_event()), 0..60)) {
        let (mut state, mut now, mut alive, mut admitted) = (State::Stopped, 0, false, false);
        for (gap, event) in events {
            now += gap;
            // A process that does not exist cannot exit.
            if matches!(event, Event::Gone(_)) {
                if !alive { continue; }
                alive = false;
            }
            let (next, effects) = step(state, at(now), &event, &LIMITS);
            for effect in effects {
                match effect {
                    Effect::Spawn => { prop_assert!(!alive); alive = true; }
                    Effect::Admit => { prop_assert!(alive); admitted = true; }
                    Effect::Exclude => admitted = false,
                    Effect::Drain | Effect::Terminate | Effect::Kill => prop_assert!(alive),
                }
            }
            prop_assert!(alive || !admitted);
            let wants_process = matches!(
                next,
                State::Starting { .. } | State::Serving { .. } | State::Draining { .. } | State::Terminating { .. }
            );
            prop_assert_eq!(wants_process, alive);
            state = next;
        }
    }
}
