//! The owner of a model on demand: starts it when somebody asks, once its cards are free, and stops
//! it when nobody has for a while, or when somebody else waits for its cards.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    cards::{Cards, Held},
    control::Controlled,
    machine::State,
    unit::Command,
};
use crate::clock;

/// How often a running model is looked at.
const INTERVAL: Duration = Duration::from_millis(500);
/// A model that has just begun to serve keeps its cards this long, however many wait: a start costs
/// minutes, and two models that took turns by the request would do nothing but start.
const TENURE_MIN: Duration = Duration::from_secs(60);

/// Runs until it is dropped.
pub(super) async fn run(
    controlled: Arc<Controlled>,
    (cards, numbers): (Arc<Cards>, Vec<u32>),
    idle_stop: Duration,
) {
    loop {
        // What was adopted holds its cards already, and asks for nothing.
        if controlled.all(|state| *state == State::Stopped) {
            controlled.model.demand.asked().await;
            if controlled.is_held.load(Ordering::Acquire) {
                continue;
            }
        }
        let held = cards.take(&numbers).await;
        if controlled.all(|state| *state == State::Stopped) {
            controlled.tell(|| Command::Start);
        }
        while !is_done(&controlled, &held, idle_stop) {
            tokio::time::sleep(INTERVAL).await;
        }
        if !controlled.is_held.load(Ordering::Acquire) {
            controlled.tell(|| Command::Rest);
        }
        while !controlled.all(is_over) {
            tokio::time::sleep(INTERVAL).await;
        }
        drop(held);
    }
}

fn is_over(state: &State) -> bool {
    matches!(state, State::Stopped | State::Failed { .. })
}

/// Whether it has served its time, or cannot.
fn is_done(controlled: &Controlled, held: &Held, idle_stop: Duration) -> bool {
    if controlled.is_held.load(Ordering::Acquire) {
        return true;
    }
    if controlled.all(|state| matches!(state, State::Failed { .. })) {
        return held.is_wanted();
    }
    let now = clock::now();
    let last = controlled.model.demand.last();
    let serving = controlled.units.iter().map(|unit| match unit.state() {
        State::Serving { since, .. } => Some(now.since(since)),
        _ => None,
    });
    // Until all serve, it is on its way.
    let Some(served) = serving
        .collect::<Option<Vec<_>>>()
        .and_then(|times| times.into_iter().min())
    else {
        return false;
    };
    let in_flight = controlled.model.router.lock().snapshot(now).in_flight;
    let is_idle = in_flight == 0 && now.since(last).min(served) >= idle_stop;
    is_idle || (held.is_wanted() && served >= TENURE_MIN)
}
