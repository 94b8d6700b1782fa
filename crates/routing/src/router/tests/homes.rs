//! Homes that survive a restart, and what operators do to them.

use super::fleet::*;
use crate::{HomeChange, HomeRecord, Reason, Route, Settings, Steering};

fn records(changes: &[HomeChange]) -> Vec<HomeRecord> {
    let set = changes.iter().filter_map(|change| match change {
        HomeChange::Set(record) => Some(*record),
        HomeChange::Forget(_) => None,
    });
    set.collect()
}

fn forgotten(changes: &[HomeChange]) -> usize {
    changes.len() - records(changes).len()
}

#[test]
fn a_conversation_is_exported_once_however_often_it_speaks() {
    let mut fleet = Fleet::ranks(2);
    for session in [1, 2, 1, 1] {
        fleet.pass(1);
        fleet.turn(session);
    }
    let changes = fleet.router.take_changes();
    let [two, one] = records(&changes)[..] else {
        panic!("two conversations changed: {changes:?}");
    };
    assert_eq!((one.identity, one.turns), (identity(1), 3));
    assert_eq!((two.identity, two.turns), (identity(2), 1));
    assert_eq!(one.last_active, fleet.now);
    assert_eq!(fleet.router.take_changes(), []);
}

#[test]
fn a_touch_is_exported_so_that_a_restart_knows_the_order() {
    let mut fleet = Fleet::ranks(2);
    let first = fleet.begin(1);
    fleet.router.take_changes();
    fleet.pass(5);
    fleet.finish(&first);
    let changes = records(&fleet.router.take_changes());
    assert_eq!(changes[0].last_active, fleet.now);
}

#[test]
fn a_forgotten_conversation_is_exported_only_if_it_had_been_written() {
    let mut fleet = Fleet::ranks(2);
    fleet.turn(1);
    fleet.router.forget(identity(1).conversation);
    assert_eq!(fleet.router.take_changes(), []);
    fleet.turn(1);
    fleet.router.take_changes();
    fleet.router.forget(identity(1).conversation);
    let key = identity(1).conversation;
    assert_eq!(fleet.router.take_changes(), [HomeChange::Forget(key)]);
}

#[test]
fn a_conversation_that_is_forgotten_and_back_is_one_change() {
    let mut fleet = Fleet::ranks(2);
    fleet.turn(1);
    fleet.router.take_changes();
    for _ in 0..3 {
        fleet.router.forget(identity(1).conversation);
        fleet.turn(1);
    }
    let changes = fleet.router.take_changes();
    assert_eq!((records(&changes).len(), forgotten(&changes)), (1, 0));
}

#[test]
fn changes_are_bounded_by_the_table_though_nobody_takes_them() {
    let small = Settings {
        conversations_max: 8,
        ..settings(Steering::Ranks)
    };
    let mut fleet = Fleet::with(small, 2, None);
    for session in 0..4 {
        fleet.turn(session);
    }
    fleet.router.take_changes();
    for session in 100..1000 {
        fleet.turn(session);
    }
    let changes = fleet.router.take_changes();
    assert_eq!((records(&changes).len(), forgotten(&changes)), (4, 4));
}

#[test]
fn a_restarted_router_knows_homes_sizes_and_turns() {
    let mut before = Fleet::with(settings(Steering::Ranks), 4, Some(50_000));
    for session in 1..=6 {
        before.pass(1);
        before.turn(session);
    }
    let exported = records(&before.router.take_changes());
    let mut after = Fleet::with(settings(Steering::Ranks), 4, Some(50_000));
    after.now = before.now;
    after.router.restore(after.now, exported.iter().copied());
    assert_eq!(
        after
            .router
            .snapshot(after.now)
            .replicas
            .iter()
            .map(|r| (r.conversations, r.committed_tokens))
            .collect::<Vec<_>>(),
        before
            .router
            .snapshot(before.now)
            .replicas
            .iter()
            .map(|r| (r.conversations, r.committed_tokens))
            .collect::<Vec<_>>(),
    );
    assert_eq!(after.router.take_changes(), [], "nothing to write yet");
    for session in 1..=6 {
        let decision = after.turn(session);
        assert_eq!((decision.route, decision.turn), (Route::Sticky, 2));
        assert_eq!(decision.replica, before.home(session));
    }
}

#[test]
fn restoring_drops_what_is_idle_over_the_bounds_or_homeless() {
    let mut before = Fleet::ranks(4);
    before.turn(1);
    before.pass(3000);
    for session in 2..=5 {
        before.turn(session);
    }
    let exported = records(&before.router.take_changes());
    let small = Settings {
        conversations_max: 4,
        ..settings(Steering::Ranks)
    };
    let mut after = Fleet::with(small, 1, None);
    after.now = before.now;
    after.pass(601);
    after.router.restore(after.now, exported.iter().copied());
    // 1 was idle for over an hour; 2 to 4 lived on replicas that are gone.
    let kept: Vec<_> = (1..=5).filter(|s| after.home(*s).is_some()).collect();
    assert_eq!(kept, [5]);
    assert_eq!(forgotten(&after.router.take_changes()), 4);
}

#[test]
fn an_operators_move_holds_from_the_next_request() {
    let mut fleet = Fleet::ranks(3);
    fleet.turn(1);
    let key = identity(1).conversation;
    fleet.router.take_changes();
    assert!(fleet.router.move_conversation(fleet.now, key, r(2)));
    assert_eq!(records(&fleet.router.take_changes())[0].home, r(2));
    let moved = fleet.turn(1);
    assert_eq!(said(&moved), (Route::Moved, Some(2)));
    assert_eq!(moved.reason, Reason::MovedByOperator);
    assert_eq!(said(&fleet.turn(1)), (Route::Sticky, Some(2)));
}

#[test]
fn a_move_of_an_unknown_conversation_or_to_no_replica_is_refused() {
    let mut fleet = Fleet::ranks(3);
    fleet.turn(1);
    let (now, router) = (fleet.now, &mut fleet.router);
    assert!(!router.move_conversation(now, identity(1).conversation, r(3)));
    assert!(!router.move_conversation(now, identity(2).conversation, r(1)));
    assert_eq!(fleet.home(1), Some(r(0)));
}

#[test]
fn a_move_takes_the_conversations_weight_along() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 2, Some(50_000));
    fleet.turn(1);
    fleet
        .router
        .move_conversation(fleet.now, identity(1).conversation, r(1));
    let replicas = fleet.router.snapshot(fleet.now).replicas;
    assert_eq!(
        (replicas[0].conversations, replicas[0].committed_tokens),
        (0, 0)
    );
    assert_eq!(
        (replicas[1].conversations, replicas[1].committed_tokens),
        (1, 1000)
    );
}
