//! What holds after every run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use api::RequestEnd;
use tokio::time::sleep;
use warden::{
    clock,
    fleet::Fleet,
    gateway::Gateway,
    telemetry::{Filter, Telemetry},
};

use super::{
    Run,
    client::Seen,
    disk::Kept,
    engine::{Attempt, Engine},
    reply::ERROR_EVENT,
};
use crate::support::Ended;

/// By then everything that has a bound has reached it.
const SETTLED: Duration = Duration::from_secs(300);

pub(super) async fn hold(run: &Run) {
    sleep(SETTLED).await;
    nothing_is_left(run);
    let requests = run.telemetry.requests(&Filter {
        limit: usize::MAX,
        ..Filter::default()
    });
    every_request_has_one_outcome(run, &requests);
    counters_agree(run, &requests);
    let attempts = attempts(run);
    for (marker, attempts) in &attempts {
        nothing_is_sent_twice(marker, attempts);
    }
    let seen = run.seen.lock().unwrap();
    for seen in seen.iter() {
        let attempts = attempts.get(&seen.marker).map_or(&[][..], Vec::as_slice);
        what_is_clean_is_whole(seen, attempts);
    }
    completions_agree(&seen, &requests);
    homes_are_somewhere(run);
    drop(seen);
    let disk = run.disk.lock().unwrap().take();
    let kept = disk.expect("a run ends once").stop();
    kept.homes_survive(&run.fleet);
    history_agrees(&kept, &requests);
}

/// Read in real time, of which the run's runtime has none.
fn history_agrees(kept: &Kept, requests: &[api::Request]) {
    let now = clock::now();
    std::thread::scope(|threads| {
        let read = threads.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(kept.agrees(requests, now));
        });
        read.join().expect("the history agrees with what was told");
    });
}

/// What only a cycle or a task that never ends would keep: a run's memory.
pub(super) struct Remains {
    gateway: Weak<Gateway>,
    fleet: Weak<Fleet>,
    telemetry: Weak<Telemetry>,
    engines: Vec<Weak<Engine>>,
}

impl Remains {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            gateway: Arc::downgrade(&run.gateway),
            fleet: Arc::downgrade(&run.fleet),
            telemetry: Arc::downgrade(&run.telemetry),
            engines: run.engines.iter().map(Arc::downgrade).collect(),
        }
    }

    /// Once the run's runtime is gone.
    pub(super) fn are_none(&self) {
        assert_eq!(self.gateway.strong_count(), 0, "the gateway is held");
        assert_eq!(self.fleet.strong_count(), 0, "the fleet is held");
        assert_eq!(self.telemetry.strong_count(), 0, "telemetry is held");
        for engine in &self.engines {
            assert_eq!(engine.strong_count(), 0, "a connection is held");
        }
    }
}

fn nothing_is_left(run: &Run) {
    assert_eq!(run.gateway.in_flight(), 0, "requests in flight");
    assert_eq!(run.gateway.buffered_bytes(), 0, "bytes held");
    let snapshot = run.fleet.models[0].router.lock().snapshot(clock::now());
    assert_eq!(snapshot.in_flight, 0, "routed");
    for (number, replica) in snapshot.replicas.iter().enumerate() {
        assert_eq!(replica.in_flight, 0, "on replica {number}");
    }
    for (number, engine) in run.engines.iter().enumerate() {
        let open = engine.open.load(Ordering::Relaxed);
        assert_eq!(open, 0, "connections to engine {number}");
    }
    // The pool's sweeper lives as long as the gateway.
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert!(tasks <= 1, "{tasks} tasks");
}

fn every_request_has_one_outcome(run: &Run, requests: &[api::Request]) {
    let arrived = run.arrived.load(Ordering::Relaxed);
    assert_eq!(requests.len(), arrived, "requests told and arrived");
    for request in requests {
        assert!(
            request.end.is_some() && request.status.is_some(),
            "{request:?}"
        );
        assert_ne!(request.end, Some(RequestEnd::Internal), "{request:?}");
    }
}

fn counters_agree(run: &Run, requests: &[api::Request]) {
    let mut by_status = BTreeMap::<u16, u64>::new();
    for request in requests {
        *by_status.entry(request.status.unwrap()).or_default() += 1;
    }
    let mut counted = BTreeMap::<u16, u64>::new();
    for (_, totals) in run.telemetry.totals() {
        for (outcome, count) in totals.requests {
            *counted.entry(outcome.status).or_default() += count;
        }
    }
    assert_eq!(counted, by_status);
}

fn attempts(run: &Run) -> HashMap<String, Vec<Attempt>> {
    let mut attempts = HashMap::<String, Vec<Attempt>>::new();
    for attempt in run.log.lock().unwrap().iter() {
        attempts
            .entry(attempt.marker.clone())
            .or_default()
            .push(attempt.clone());
    }
    attempts
}

fn nothing_is_sent_twice(marker: &str, attempts: &[Attempt]) {
    // Once on a fresh connection after a stale one, and once to another replica.
    assert!(attempts.len() <= 3, "{marker}: {attempts:#?}");
    let (_last, earlier) = attempts.split_last().unwrap();
    for attempt in earlier {
        assert_eq!(
            attempt.body_bytes, 0,
            "{marker} was sent again after a byte: {attempts:#?}"
        );
    }
}

fn what_is_clean_is_whole(seen: &Seen, attempts: &[Attempt]) {
    let Some((status, ended, body)) = &seen.outcome else {
        return;
    };
    let whole = attempts.last().and_then(|attempt| attempt.whole.as_ref());
    if *status == 200 && *ended == Ended::Cleanly {
        let whole = whole.unwrap_or_else(|| {
            panic!(
                "clean, but not whole: {} {attempts:#?}",
                String::from_utf8_lossy(body)
            )
        });
        assert!(
            whole == &(200, body.clone()),
            "{}: {}",
            seen.marker,
            String::from_utf8_lossy(body)
        );
    }
    assert!(
        *status == 200 || *ended == Ended::Cleanly || *status == 0,
        "an error is told whole: {seen:?}"
    );
}

/// Whoever saw a reply to its clean end was counted as served, and nobody else.
fn completions_agree(seen: &[Seen], requests: &[api::Request]) {
    let complete = requests
        .iter()
        .filter(|request| request.end == Some(RequestEnd::Complete))
        .count();
    let error = ERROR_EVENT.as_bytes();
    let served = seen.iter().filter(|seen| match &seen.outcome {
        Some((200, Ended::Cleanly, body)) => !body.ends_with(error),
        _ => false,
    });
    let left = seen.iter().filter(|seen| seen.outcome.is_none()).count();
    let served = served.count();
    assert!(
        (served..=served + left).contains(&complete),
        "{complete} counted as complete, {served} served, {left} left"
    );
}

fn homes_are_somewhere(run: &Run) {
    let now = clock::now();
    let conversations = run.fleet.models[0]
        .router
        .lock()
        .conversations(now, usize::MAX);
    for conversation in conversations {
        let home = usize::from(conversation.record.home.0);
        assert!(home < run.engines.len());
        assert_eq!(conversation.in_flight, 0);
    }
}
