//! The wait is bounded and told, and its age outlives refusals and disconnections.

use std::time::Duration;

use super::hall::*;
use crate::{Event, LeaseSettings, Reason, Refusal, Request};

fn plain(session: u32) -> Request {
    Request {
        streams: false,
        ..turn_of(session)
    }
}

fn impatient() -> LeaseSettings {
    LeaseSettings {
        queue_wait_max: Duration::from_secs(6),
        ..LeaseSettings::default()
    }
}

#[test]
fn the_answer_tells_how_long_and_how_many() {
    let (mut hall, _) = Hall::full();
    let first = hall.waits(&turn_of(200));
    let second = hall.waits(&turn_of(201));
    assert_eq!((first.ahead, second.ahead), (0, 1));
    assert!(second.predicted > first.predicted);
    let view = hall.leases();
    assert_eq!(view.waiters.len(), 2);
    assert_eq!(view.waiters[0].ticket, first.ticket);
    assert_eq!(view.oldest, Some(hall.fleet.now));
}

#[test]
fn too_long_a_predicted_wait_is_refused_and_streams_are_given_twice_the_time() {
    let (mut hall, _) = Hall::full_with(impatient());
    let mut refused = None;
    for session in 200..300 {
        if let Came::Refused(refusal) = hall.ask(&plain(session)) {
            refused = Some((session, refusal));
            break;
        }
    }
    let (session, refusal) = refused.expect("the queue grows too long");
    let Refusal::QueueTooLong {
        predicted,
        retry_after,
    } = refusal
    else {
        panic!("{refusal:?}");
    };
    assert!(predicted > Duration::from_secs(5), "{predicted:?}");
    assert!((1..=60).contains(&retry_after.as_secs()));
    assert_eq!(hall.leases().counters.refused, 1);
    hall.waits(&turn_of(session));
}

/// Where sticky routing thrashes, a turn stands in its engine's queue for minutes; under leases it does
/// not. Taken for the length of turns to come, that would send hundreds away for nothing.
#[test]
fn what_turns_took_in_the_engines_queues_says_nothing_about_a_wait() {
    let mut hall = Hall::new();
    let requests: Vec<Request> = (0..20).map(turn_of).collect();
    let slow_begin = |hall: &mut Hall| {
        let decisions = requests.iter().map(|request| hall.goes(request));
        let decisions: Vec<_> = decisions.collect();
        hall.pass_ms(120_000);
        for decision in &decisions {
            hall.observe(Event::FirstByte(decision.ticket));
        }
        hall.pass_ms(500);
        decisions
    };
    for decision in slow_begin(&mut hall) {
        hall.finish_now(decision.ticket, SHARED_TOKENS);
    }
    let mut decisions = slow_begin(&mut hall).into_iter();
    while !hall.is_contended() {
        hall.finish_now(decisions.next().unwrap().ticket, SHARED_TOKENS);
    }
    // Nor what was sent before they began and ends after.
    let late: Vec<_> = decisions.collect();
    assert!(late.len() > 4, "{}", late.len());
    hall.pass_ms(60_000);
    for decision in late {
        hall.finish_now(decision.ticket, SHARED_TOKENS);
    }
    let mut waiting = 0;
    for session in 300..330 {
        match hall.ask(&plain(session)) {
            Came::Went(_) => {}
            Came::Waits(wait) => {
                waiting += 1;
                assert!(wait.predicted < Duration::from_secs(30), "{wait:?}");
            }
            Came::Refused(refusal) => panic!("{refusal:?}"),
        }
    }
    assert!(waiting >= 20, "{waiting}");
}

/// Clients give up after a few attempts: told to come back in a second, hundreds would fail in three.
#[test]
fn the_more_are_sent_away_the_later_they_are_told_to_come_back() {
    let (mut hall, _) = Hall::full_with(LeaseSettings {
        queue_wait_max: Duration::from_secs(40),
        ..LeaseSettings::default()
    });
    let told: Vec<u64> = (200..1000)
        .filter_map(|session| match hall.ask(&plain(session)) {
            Came::Refused(Refusal::QueueTooLong { retry_after, .. }) => Some(retry_after.as_secs()),
            _ => None,
        })
        .collect();
    assert!(told.len() > 100, "{}", told.len());
    assert!(told.is_sorted(), "{told:?}");
    assert_eq!((told[0], told[told.len() - 1]), (1, 20));
}

#[test]
fn a_refused_conversation_keeps_its_age() {
    let (mut hall, holders) = Hall::full_with(impatient());
    let queue: Vec<_> = (200..260)
        .map(|session| (session, hall.ask(&plain(session))))
        .collect();
    let refused = queue
        .iter()
        .find(|(_, came)| matches!(came, Came::Refused(_)))
        .expect("the queue grows too long");
    hall.pass_ms(1000);
    let late = hall.waits(&turn_of(300)).ticket;
    // It asks again as a stream, after the other, and is served before it.
    let again = hall.waits(&turn_of(refused.0)).ticket;
    for (_, came) in &queue {
        if let Came::Waits(wait) = came {
            hall.observe(Event::Aborted(wait.ticket));
        }
    }
    hall.observe(Event::Aborted(holders[0].ticket));
    hall.pass_ms(2000);
    assert!(hall.granted.contains_key(&again));
    assert!(!hall.granted.contains_key(&late));
}

#[test]
fn a_client_that_left_is_gone_at_once_and_its_age_is_kept_for_a_while() {
    let (mut hall, holders) = Hall::full();
    let first = hall.waits(&turn_of(200)).ticket;
    hall.pass_ms(1000);
    let second = hall.waits(&turn_of(201)).ticket;
    hall.observe(Event::Aborted(first));
    assert_eq!(hall.leases().waiting, 1);
    let again = hall.waits(&turn_of(200)).ticket;
    hall.observe(Event::Aborted(holders[0].ticket));
    hall.pass_ms(2000);
    assert!(hall.granted.contains_key(&again) && !hall.granted.contains_key(&second));

    let (mut hall, _) = Hall::full();
    let gone = hall.waits(&turn_of(200)).ticket;
    hall.observe(Event::Aborted(gone));
    for session in 201..204 {
        hall.waits(&turn_of(session));
    }
    let before = hall.fleet.now;
    hall.pass_ms(181_000);
    hall.waits(&turn_of(200));
    let waiters = hall.leases().waiters;
    let since: Vec<_> = waiters.iter().map(|waiter| waiter.since).collect();
    assert_eq!(since, [before, before, before, hall.fleet.now]);
}

#[test]
fn past_an_age_a_request_goes_to_a_full_replica() {
    let (mut hall, _) = Hall::full();
    let ticket = hall.waits(&plain(200)).ticket;
    let stream = hall.waits(&turn_of(201)).ticket;
    hall.pass_ms(199_000);
    assert_eq!(hall.granted.len(), 0);
    let wakeup = hall.fleet.router.next_wakeup(hall.fleet.now);
    assert_eq!(wakeup, Some(hall.fleet.now.plus(Duration::from_secs(1))));
    hall.pass_ms(1000);
    let decision = hall.granted[&ticket].clone().unwrap();
    assert!(matches!(decision.reason, Reason::WaitedTooLong { waited } if waited.as_secs() == 200));
    hall.pass_ms(199_000);
    assert!(!hall.granted.contains_key(&stream));
    hall.pass_ms(1000);
    assert!(hall.granted[&stream].is_ok());
}

#[test]
fn a_caller_that_cannot_wait_goes_to_a_full_replica() {
    let (mut hall, _) = Hall::full();
    hall.fleet.route(&turn_of(200));
    hall.advance();
    assert_eq!(hall.leases().holding, 9);
}
