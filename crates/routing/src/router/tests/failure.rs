//! Replicas that fail, come back, hang, and the second attempts of their requests.

use super::fleet::*;
use super::story::check;
use crate::{Event, Reason, Refusal, Request, Route};

#[test]
fn a_failed_connect_takes_a_replica_out_at_once_even_the_last() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        down 0
        ask a = moved 1
        down 1
        ask a = no replica is available
        ask b nameless = no replica is available
        affinity off
        ask a = no replica is available
        ",
    );
}

#[test]
fn ranks_share_their_server_and_fail_and_return_together() {
    check(
        &mut Fleet::ranks(4),
        "
        ask a = new 0
        down 3
        ask a = no replica is available
        ask a unsteerable = no replica is available
        good 1
        ask a = sticky 0
        ",
    );
}

#[test]
fn failed_probes_take_a_replica_out_from_the_second_in_a_row() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        fail 0
        ask a = sticky 0
        good 0
        fail 0
        ask a = sticky 0
        fail 0
        ask a = moved 1
        ",
    );
}

#[test]
fn probes_alone_never_empty_the_set() {
    check(
        &mut Fleet::urls(2),
        "
        fail 0
        fail 0
        fail 1
        fail 1
        fail 1
        ask a = new 1
        good 0
        fail 1
        ask a = moved 0
        ",
    );
    check(
        &mut Fleet::ranks(2),
        "
        fail 0
        fail 0
        fail 1
        fail 1
        ask a = new 0
        ",
    );
}

#[test]
fn a_drained_replica_does_not_count_among_those_that_a_probe_leaves() {
    check(
        &mut Fleet::urls(2),
        "
        drain 0
        fail 1
        fail 1
        ask a = new 1
        ",
    );
}

#[test]
fn one_good_probe_brings_a_replica_back_and_conversations_stay_where_they_spoke() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        ask b = new 1
        down 0
        ask a = moved 1
        good 0
        ask a = sticky 1
        ask b = sticky 1
        ",
    );
}

#[test]
fn a_silent_conversation_finds_its_home_again_after_a_short_outage() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        down 0
        wait 2
        good 0
        ask a = sticky 0
        ",
    );
}

#[test]
fn a_replica_that_came_back_takes_every_other_new_conversation_for_ten_seconds() {
    check(
        &mut Fleet::urls(2),
        "
        load 1 5
        down 0
        good 0
        ask a nameless = new 0
        ask a nameless = new 1
        ask a nameless = new 0
        ask a nameless = new 1
        wait 10
        ask a nameless = new 0
        ask a nameless = new 0
        ",
    );
}

#[test]
fn a_ramping_replica_that_is_alone_takes_everything() {
    check(
        &mut Fleet::urls(2),
        "
        down 0
        down 1
        good 0
        ask a nameless = new 0
        ask a nameless = new 0
        ask a nameless = new 0
        ",
    );
}

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

#[test]
fn a_request_that_failed_before_a_byte_is_tried_once_elsewhere() {
    let mut fleet = Fleet::urls(3);
    let first = fleet.begin(1);
    fleet.observe(Event::ConnectFailed(r(0)));
    let second = fleet
        .router
        .reroute(fleet.now, first.ticket, r(0))
        .expect("two others are up");
    assert_eq!(second.ticket, first.ticket);
    assert_eq!(said(&second), (Route::New, Some(1)));
    assert_eq!(second.reason, Reason::Retry { failed: r(0) });
    assert_eq!(fleet.in_flight(), [0, 1, 0]);
    assert_eq!(fleet.home(1), Some(r(1)));
    let third = fleet.router.reroute(fleet.now, first.ticket, r(1));
    assert_eq!(third, Err(Refusal::RetriesSpent));
    fleet.finish(&first);
    assert_eq!(fleet.in_flight(), [0, 0, 0]);
    assert_eq!(fleet.turn(1).turn, 2, "the retried turn counts once");
}

#[test]
fn a_second_attempt_moves_the_home_only_where_that_is_out() {
    let mut fleet = Fleet::urls(2);
    fleet.turn(1);
    let broken = fleet.begin(1);
    let retry = fleet.router.reroute(fleet.now, broken.ticket, r(0));
    assert_eq!(said(&retry.expect("1 is up")), (Route::Spilled, Some(1)));
    assert_eq!(fleet.home(1), Some(r(0)));
    let refused = fleet.begin(1);
    fleet.observe(Event::ConnectFailed(r(0)));
    let retry = fleet.router.reroute(fleet.now, refused.ticket, r(0));
    assert_eq!(said(&retry.expect("1 is up")), (Route::Moved, Some(1)));
    assert_eq!(fleet.home(1), Some(r(1)));
}

#[test]
fn a_spilled_request_that_failed_goes_home() {
    let mut fleet = Fleet::urls(2);
    fleet.turn(1);
    fleet.load(0, 9);
    let spilled = fleet.begin(1);
    assert_eq!(said(&spilled), (Route::Spilled, Some(1)));
    let retry = fleet.router.reroute(fleet.now, spilled.ticket, r(1));
    assert_eq!(said(&retry.expect("0 is up")), (Route::Sticky, Some(0)));
}

#[test]
fn a_moved_request_that_failed_moves_on() {
    let mut fleet = Fleet::urls(3);
    fleet.turn(1);
    fleet.observe(Event::ConnectFailed(r(0)));
    let moved = fleet.begin(1);
    assert_eq!(said(&moved), (Route::Moved, Some(1)));
    let retry = fleet.router.reroute(fleet.now, moved.ticket, r(1));
    assert_eq!(said(&retry.expect("2 is up")), (Route::Moved, Some(2)));
    assert_eq!(fleet.home(1), Some(r(2)));
}

#[test]
fn a_pinned_request_is_tried_nowhere_else() {
    let mut fleet = Fleet::urls(3);
    let pinned = fleet.route(&Request {
        pin: Some(1),
        ..request(1)
    });
    let retry = fleet.router.reroute(fleet.now, pinned.ticket, r(1));
    assert_eq!(retry, Err(Refusal::RetriesSpent));
    assert_eq!(fleet.in_flight(), [0, 1, 0], "until it is aborted");
}

#[test]
fn a_balanced_request_is_tried_again_by_the_same_rule() {
    let mut fleet = Fleet::urls(2);
    fleet.configure(|settings| settings.affinity = false);
    let first = fleet.begin(1);
    let retry = fleet.router.reroute(fleet.now, first.ticket, r(0));
    assert_eq!(said(&retry.expect("1 is up")), (Route::Balanced, Some(1)));
    assert_eq!(fleet.in_flight(), [0, 1]);
}

#[test]
fn no_second_attempt_where_nothing_else_is_up() {
    let mut fleet = Fleet::urls(1);
    let only = fleet.begin(1);
    let retry = fleet.router.reroute(fleet.now, only.ticket, r(0));
    assert_eq!(retry, Err(Refusal::RetriesSpent));
    fleet.observe(Event::ConnectFailed(r(0)));
    let retry = fleet.router.reroute(fleet.now, only.ticket, r(0));
    assert_eq!(retry, Err(Refusal::NoReplica));
}

#[test]
fn a_home_that_a_second_attempt_gave_is_exported() {
    let mut fleet = Fleet::urls(2);
    let first = fleet.begin(1);
    fleet.router.take_changes();
    let retry = fleet.router.reroute(fleet.now, first.ticket, r(0));
    assert_eq!(retry.expect("1 is up").route, Route::New);
    let [crate::HomeChange::Set(record)] = fleet.router.take_changes()[..] else {
        panic!("one conversation changed");
    };
    assert_eq!(record.home, r(1));
}
