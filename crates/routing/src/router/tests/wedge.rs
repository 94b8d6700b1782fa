//! Replicas that hang: when they count as wedged, and what becomes of their conversations.

use super::fleet::*;
use crate::{Event, Reason, Route};

/// One scrape a second of an engine that moves nothing.
fn freeze(fleet: &mut Fleet, replica: u16, seconds: u64) {
    for _ in 0..seconds {
        fleet.observe(Event::Scraped(r(replica), gauges(1, 100)));
        fleet.pass(1);
    }
    fleet.observe(Event::Scraped(r(replica), gauges(1, 100)));
}

#[test]
fn a_wedged_replica_takes_nothing_new_and_its_conversations_spill_until_it_moves() {
    let mut fleet = Fleet::ranks(3);
    fleet.turn(1);
    let stuck = fleet.begin(1);
    freeze(&mut fleet, 0, 9);
    assert_eq!(fleet.turn(1).route, Route::Sticky);
    freeze(&mut fleet, 0, 10);
    let spilled = fleet.turn(1);
    assert_eq!(spilled.route, Route::Spilled);
    assert_eq!(spilled.reason, Reason::HomeWedged { home: r(0) });
    assert!(!spilled.scores[0].available);
    for session in 10..20 {
        assert_ne!(fleet.begin(session).replica, Some(r(0)));
    }
    fleet.observe(Event::Progress(stuck.ticket));
    assert_eq!(said(&fleet.turn(1)), (Route::Sticky, Some(0)));
}

#[test]
fn any_change_of_the_gauges_is_progress() {
    let still = gauges(1, 100);
    let moved = [
        crate::Gauges {
            tokens_total: 101,
            ..still
        },
        crate::Gauges {
            running: 2,
            ..still
        },
        crate::Gauges {
            waiting: 1,
            ..still
        },
        crate::Gauges {
            kv_cache_usage: 0.51,
            ..still
        },
    ];
    for moved in moved {
        let mut fleet = Fleet::ranks(2);
        fleet.begin(1);
        freeze(&mut fleet, 0, 9);
        fleet.observe(Event::Scraped(r(0), moved));
        fleet.pass(5);
        fleet.observe(Event::Scraped(r(0), moved));
        assert!(!fleet.router.snapshot(fleet.now).replicas[0].wedged);
    }
}

#[test]
fn a_replica_without_requests_in_flight_is_never_wedged() {
    let mut fleet = Fleet::ranks(2);
    freeze(&mut fleet, 0, 60);
    let decision = fleet.begin(1);
    assert_eq!(
        decision.replica,
        Some(r(1)),
        "the engine says that one runs on 0"
    );
    assert!(decision.scores[0].available);
}

#[test]
fn a_wedge_ends_with_the_last_request_in_flight() {
    let mut fleet = Fleet::ranks(1);
    let stuck = fleet.begin(1);
    freeze(&mut fleet, 0, 10);
    assert!(fleet.router.snapshot(fleet.now).replicas[0].wedged);
    fleet.observe(Event::Aborted(stuck.ticket));
    assert!(!fleet.router.snapshot(fleet.now).replicas[0].wedged);
}

#[test]
fn a_failing_scrape_is_no_proof_of_a_wedge() {
    let mut fleet = Fleet::ranks(2);
    fleet.begin(1);
    freeze(&mut fleet, 0, 5);
    fleet.pass(600);
    assert!(!fleet.router.snapshot(fleet.now).replicas[0].wedged);
}

#[test]
fn slow_steps_are_given_three_times_their_length() {
    let mut fleet = Fleet::ranks(2);
    fleet.begin(1);
    // An engine that shows something new every six seconds.
    for step in 0..20 {
        fleet.observe(Event::Scraped(r(0), gauges(1, step)));
        fleet.pass(6);
    }
    let frozen = Event::Scraped(r(0), gauges(1, 19));
    fleet.pass(11);
    fleet.observe(frozen);
    assert!(!fleet.router.snapshot(fleet.now).replicas[0].wedged);
    fleet.pass(1);
    fleet.observe(frozen);
    assert!(fleet.router.snapshot(fleet.now).replicas[0].wedged);
}

#[test]
fn when_all_are_wedged_routing_goes_on_as_if_none_were() {
    let mut fleet = Fleet::ranks(2);
    fleet.begin(1);
    fleet.begin(2);
    for _ in 0..11 {
        for replica in 0..2 {
            fleet.observe(Event::Scraped(r(replica), gauges(1, 100)));
        }
        fleet.pass(1);
    }
    let views = fleet.router.snapshot(fleet.now).replicas;
    assert!(views.iter().all(|replica| replica.wedged));
    assert_eq!(fleet.begin(3).route, Route::New);
    assert_eq!(said(&fleet.begin(1)), (Route::Sticky, Some(0)));
}

/// One of the events that name a request.
type OfTicket = fn(crate::Ticket) -> Event;

#[test]
fn a_reply_that_moves_or_ends_well_is_progress_and_an_aborted_one_is_not() {
    let cases: [(OfTicket, bool); 4] = [
        (Event::FirstByte, false),
        (Event::Progress, false),
        (|ticket| Event::Finished(ticket, None), false),
        (Event::Aborted, true),
    ];
    for (event, wedged) in cases {
        let mut fleet = Fleet::ranks(1);
        fleet.begin(1);
        let other = fleet.begin(2);
        freeze(&mut fleet, 0, 9);
        fleet.observe(event(other.ticket));
        freeze(&mut fleet, 0, 5);
        let view = fleet.router.snapshot(fleet.now).replicas[0];
        assert_eq!(view.wedged, wedged, "{:?}", event(other.ticket));
    }
}

#[test]
fn a_request_after_a_silence_without_scrapes_is_given_its_time() {
    let mut fleet = Fleet::ranks(1);
    freeze(&mut fleet, 0, 1);
    fleet.pass(100);
    fleet.begin(1);
    freeze(&mut fleet, 0, 9);
    assert!(!fleet.router.snapshot(fleet.now).replicas[0].wedged);
    freeze(&mut fleet, 0, 1);
    assert!(fleet.router.snapshot(fleet.now).replicas[0].wedged);
}

#[test]
fn one_long_wedge_does_not_hide_the_next() {
    let mut fleet = Fleet::ranks(1);
    fleet.begin(1);
    for tokens in 0..20 {
        fleet.observe(Event::Scraped(r(0), gauges(1, tokens)));
        fleet.pass(1);
    }
    fleet.pass(3600);
    for _ in 0..2 {
        fleet.observe(Event::Scraped(r(0), gauges(1, 100)));
        fleet.pass(45);
    }
    fleet.observe(Event::Scraped(r(0), gauges(1, 100)));
    assert!(fleet.router.snapshot(fleet.now).replicas[0].wedged);
}

#[test]
fn a_conversation_whose_home_stays_wedged_moves_with_the_second_spill() {
    let mut fleet = Fleet::ranks(3);
    fleet.begin(1);
    freeze(&mut fleet, 0, 10);
    let first = fleet.turn(1);
    let second = fleet.turn(1);
    assert_eq!(second.replica, first.replica);
    assert_eq!(second.reason, Reason::SpilledTwice { home: r(0) });
    assert_eq!(fleet.home(1), first.replica);
}
