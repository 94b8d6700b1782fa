//! The second attempts of requests that failed before a byte of their reply.

use super::fleet::*;
use crate::{Event, Reason, Refusal, Request, Route};

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
