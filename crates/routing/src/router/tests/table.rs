//! The bounded table: who is forgotten, and when.

use super::fleet::*;
use crate::{Event, OwnerId, Request, Route, Settings, Steering};

fn fleet(conversations_max: usize) -> Fleet {
    let settings = Settings {
        conversations_max,
        ..settings(Steering::Ranks)
    };
    Fleet::with(settings, 2, None)
}

fn turn_of(fleet: &mut Fleet, owner: u32, session: u32) -> Route {
    let decision = fleet.route(&Request {
        owner: OwnerId(owner),
        ..request(session)
    });
    fleet.finish(&decision);
    decision.route
}

fn known(fleet: &Fleet, sessions: std::ops::Range<u32>) -> Vec<u32> {
    sessions.filter(|s| fleet.home(*s).is_some()).collect()
}

#[test]
fn a_full_table_forgets_the_least_recently_used() {
    let mut fleet = fleet(4);
    for session in 0..4 {
        turn_of(&mut fleet, session, session);
    }
    turn_of(&mut fleet, 0, 0);
    turn_of(&mut fleet, 9, 9);
    assert_eq!(known(&fleet, 0..10), [0, 2, 3, 9]);
    assert_eq!(turn_of(&mut fleet, 1, 1), Route::New);
}

#[test]
fn one_owner_holds_half_of_the_table_at_most_and_loses_its_own_first() {
    let mut fleet = fleet(6);
    turn_of(&mut fleet, 1, 0);
    for session in 1..10 {
        turn_of(&mut fleet, 2, session);
    }
    assert_eq!(known(&fleet, 0..10), [0, 7, 8, 9]);
}

#[test]
fn a_conversation_is_forgotten_after_its_idle_time() {
    let mut fleet = fleet(100);
    turn_of(&mut fleet, 1, 0);
    fleet.pass(3600);
    assert_eq!(turn_of(&mut fleet, 1, 0), Route::Sticky);
    fleet.pass(3601);
    assert_eq!(known(&fleet, 0..1), [0u32; 0]);
    assert_eq!(fleet.router.conversations(fleet.now, 10), []);
    assert_eq!(turn_of(&mut fleet, 1, 0), Route::New);
}

#[test]
fn idle_conversations_leave_the_table_though_nobody_speaks() {
    let mut fleet = fleet(200);
    for session in 0..100 {
        turn_of(&mut fleet, session % 2, session);
    }
    fleet.pass(3601);
    for _ in 0..20 {
        fleet.observe(Event::ProbeSucceeded(r(0)));
    }
    let snapshot = fleet.router.snapshot(fleet.now);
    assert_eq!(snapshot.conversations, 0);
    assert!(snapshot.replicas.iter().all(|r| r.conversations == 0));
}

#[test]
fn a_request_of_a_forgotten_conversation_still_counts_on_its_replica() {
    let mut fleet = fleet(100);
    let decision = fleet.begin(1);
    assert!(fleet.router.forget(identity(1).conversation));
    assert!(!fleet.router.forget(identity(1).conversation));
    let replica = decision.replica.expect("it was placed").0;
    assert_eq!(fleet.in_flight()[usize::from(replica)], 1);
    // The same conversation anew, in the same slot: the old request is none of its.
    let again = fleet.begin(1);
    fleet.finish(&decision);
    let view = fleet
        .router
        .conversation(fleet.now, identity(1).conversation);
    assert_eq!(view.expect("it is known").in_flight, 1);
    fleet.finish(&again);
    assert_eq!(fleet.in_flight(), [0, 0]);
}

#[test]
fn a_smaller_table_forgets_at_once() {
    let mut fleet = fleet(100);
    for session in 0..20 {
        turn_of(&mut fleet, session, session);
    }
    fleet.configure(|settings| settings.conversations_max = 3);
    assert_eq!(known(&fleet, 0..20), [17, 18, 19]);
}

#[test]
fn a_table_without_room_still_routes() {
    let mut fleet = fleet(0);
    for session in 0..5 {
        assert_eq!(fleet.begin(session).route, Route::New);
    }
    assert_eq!(fleet.router.snapshot(fleet.now).conversations, 1);
}

#[test]
fn conversations_are_listed_most_recently_active_first() {
    let mut fleet = fleet(100);
    for session in [0, 1, 2, 0] {
        fleet.pass(1);
        turn_of(&mut fleet, 1, session);
    }
    let listed = fleet.router.conversations(fleet.now, 2);
    let keys: Vec<_> = listed
        .iter()
        .map(|v| v.record.identity.conversation)
        .collect();
    assert_eq!(keys, [0, 2].map(|session| identity(session).conversation));
    assert_eq!(listed[0].last_route, Route::Sticky);
}

#[test]
fn a_conversation_costs_at_most_300_bytes() {
    let mut fleet = fleet(40_000);
    let empty = fleet.router.memory_bytes();
    for session in 0..40_000 {
        turn_of(&mut fleet, session % 4, session);
    }
    fleet.router.take_changes();
    for session in 0..40_000 {
        turn_of(&mut fleet, session % 4, session);
    }
    let each = fleet.router.memory_bytes() / fleet.router.snapshot(fleet.now).conversations;
    assert!(
        each <= 300,
        "{each} bytes, {empty} of them in all before the first"
    );
}
