//! Faults that were seen or reported in other routers, each as the case that would show it here.

use super::fleet::*;
use crate::{Event, OwnerId, Request, Route, Settings, Steering};

/// How many of these requests went to each of two replicas.
fn spread(replicas: impl IntoIterator<Item = Option<crate::ReplicaIndex>>) -> [usize; 2] {
    let mut counts = [0; 2];
    for replica in replicas {
        counts[usize::from(replica.expect("it was placed").0)] += 1;
    }
    counts
}

/// Fewest sessions first: conversations on the replica where nothing finishes are never more than
/// elsewhere, so it drew 84 % of all requests.
#[test]
fn a_replica_where_nothing_finishes_is_no_black_hole() {
    let mut fleet = Fleet::urls(2);
    let placed = (0..100).map(|session| {
        let decision = fleet.begin(session);
        if decision.replica == Some(r(1)) {
            fleet.finish(&decision);
        }
        decision.replica
    });
    let [hung, healthy] = spread(placed.collect::<Vec<_>>());
    assert!(
        hung <= 1 && healthy >= 99,
        "{hung} to the replica that hangs"
    );
}

/// Gauges of a dead rank read zero.
#[test]
fn a_replica_whose_gauges_read_zero_draws_nothing_by_it() {
    let mut fleet = Fleet::ranks(2);
    fleet.load(0, 4);
    fleet.load(1, 3);
    fleet.observe(Event::Scraped(r(0), gauges(0, 0)));
    fleet.observe(Event::Scraped(r(1), gauges(3, 9)));
    assert_eq!(fleet.begin(1).replica, Some(r(1)));
}

/// All ties went to the first replica.
#[test]
fn a_quiet_fleet_fills_evenly() {
    let mut fleet = Fleet::urls(2);
    let placed: Vec<_> = (0..100)
        .map(|session| fleet.turn(session).replica)
        .collect();
    assert_eq!(spread(placed), [50, 50]);
}

/// An imbalance anywhere switched affinity off for everybody.
#[test]
fn one_hot_replica_leaves_the_conversations_of_others_alone() {
    let mut fleet = Fleet::ranks(4);
    for session in 0..8 {
        fleet.turn(session);
    }
    fleet.load(0, 30);
    for session in 0..8 {
        let decision = fleet.turn(session);
        let expected = match session % 4 {
            0 => Route::Spilled,
            _ => Route::Sticky,
        };
        assert_eq!(decision.route, expected, "conversation {session}");
    }
}

/// Ids of strangers filled the table, and then everything got 503.
#[test]
fn a_flood_of_ids_is_no_error_and_takes_nobody_elses_place() {
    let settings = Settings {
        conversations_max: 100,
        ..settings(Steering::Ranks)
    };
    let mut fleet = Fleet::with(settings, 4, None);
    let honest = |session| Request {
        owner: OwnerId(1),
        ..request(session)
    };
    for session in 0..40 {
        let decision = fleet.route(&honest(session));
        fleet.finish(&decision);
    }
    for session in 1000..20_000 {
        let decision = fleet.route(&Request {
            owner: OwnerId(2),
            ..request(session)
        });
        fleet.finish(&decision);
    }
    assert_eq!(fleet.router.snapshot(fleet.now).conversations, 90);
    for session in 0..40 {
        assert_eq!(fleet.route(&honest(session)).route, Route::Sticky);
    }
}

/// Pins that never move, or move with every spike.
#[test]
fn a_spike_spills_and_the_conversation_is_back_after_it() {
    let mut fleet = Fleet::ranks(2);
    fleet.turn(1);
    for _ in 0..3 {
        let spike = fleet.load(0, 12);
        assert_eq!(said(&fleet.turn(1)), (Route::Spilled, Some(1)));
        for decision in &spike {
            fleet.observe(Event::Aborted(decision.ticket));
        }
        assert_eq!(said(&fleet.turn(1)), (Route::Sticky, Some(0)));
    }
    assert_eq!(fleet.home(1), Some(r(0)));
}

/// A pod that came back drew the whole backlog at once.
#[test]
fn a_replica_that_came_back_is_not_flooded() {
    let mut fleet = Fleet::urls(2);
    fleet.load(1, 20);
    fleet.observe(Event::ConnectFailed(r(0)));
    fleet.observe(Event::ProbeSucceeded(r(0)));
    let placed: Vec<_> = (0..20)
        .map(|session| fleet.begin(session).replica)
        .collect();
    assert_eq!(spread(placed), [10, 10]);
}

/// Gauges 18 s old decided.
#[test]
fn stale_gauges_degrade_to_own_counts_and_stop_nothing() {
    let mut fleet = Fleet::ranks(2);
    fleet.observe(Event::Scraped(r(0), gauges(50, 1)));
    fleet.pass(18);
    fleet.load(1, 1);
    assert_eq!(fleet.begin(1).replica, Some(r(0)));
}

/// Counts leaked, and an event that came twice made them wrong for good.
#[test]
fn an_event_that_comes_twice_or_late_counts_once() {
    let mut fleet = Fleet::ranks(2);
    let decision = fleet.begin(1);
    for _ in 0..2 {
        fleet.finish(&decision);
        fleet.observe(Event::Aborted(decision.ticket));
        fleet.observe(Event::FirstByte(decision.ticket));
    }
    assert_eq!(fleet.in_flight(), [0, 0]);
    assert_eq!(fleet.router.snapshot(fleet.now).in_flight, 0);
}
