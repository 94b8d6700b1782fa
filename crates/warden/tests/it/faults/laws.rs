//! What holds after every run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::Ordering,
    time::Duration,
};

use api::RequestEnd;
use tokio::time::sleep;
use warden::{clock, telemetry::Filter};

use super::{Run, client::Seen, engine::Attempt, reply::ERROR_EVENT};
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
