//! What happens to those who wait when replicas or settings change.

use super::super::fleet::*;
use super::hall::*;
use crate::{Admission, Event, LeaseMode, Refusal, Route};

#[test]
fn switched_off_leases_let_all_go_at_once() {
    for affinity in [true, false] {
        let (mut hall, _) = Hall::full();
        let waiting: Vec<_> = (200..210).map(|s| hall.waits(&turn_of(s)).ticket).collect();
        hall.fleet.configure(|settings| {
            settings.affinity = affinity;
            if affinity {
                settings.leases.mode = LeaseMode::Off;
            }
        });
        assert_eq!(
            hall.fleet.router.next_wakeup(hall.fleet.now),
            Some(hall.fleet.now)
        );
        hall.advance();
        for ticket in waiting {
            let decision = hall.granted[&ticket].clone().unwrap();
            let route = if affinity {
                Route::New
            } else {
                Route::Balanced
            };
            assert_eq!(decision.route, route);
        }
        assert_eq!(hall.leases().holding, 0);
    }
}

#[test]
fn a_dead_replica_voids_its_leases_and_its_unanswered_go_before_all_others() {
    let (mut hall, holders) = Hall::full();
    let waiting = hall.waits(&turn_of(200)).ticket;
    hall.observe(Event::ConnectFailed(r(0)));
    assert_eq!(hall.leases().holding, 4);
    let failed: Vec<_> = holders.iter().filter(|h| h.replica == Some(r(0))).collect();
    let now = hall.fleet.now;
    for holder in &failed {
        let again = hall.fleet.router.readmit(now, holder.ticket, r(0));
        assert!(matches!(again, Ok(Admission::Wait(wait)) if wait.ticket == holder.ticket));
    }
    hall.advance();
    let survivor = holders.iter().find(|h| h.replica == Some(r(1))).unwrap();
    hall.observe(Event::Aborted(survivor.ticket));
    hall.pass_ms(2000);
    let first = hall.granted[&failed[0].ticket].clone().unwrap();
    assert_eq!(first.replica, Some(r(1)));
    assert!(!hall.granted.contains_key(&waiting));
    // Its one other attempt is used.
    let spent = hall
        .fleet
        .router
        .readmit(hall.fleet.now, first.ticket, r(1));
    assert_eq!(spent, Err(Refusal::RetriesSpent));
}

#[test]
fn where_all_are_out_nobody_waits() {
    let (mut hall, _) = Hall::full();
    let waiting = hall.waits(&turn_of(200)).ticket;
    hall.observe(Event::ConnectFailed(r(0)));
    hall.observe(Event::ConnectFailed(r(1)));
    assert_eq!(hall.granted[&waiting], Err(Refusal::NoReplica));
    assert_eq!(hall.ask(&turn_of(201)), Came::Refused(Refusal::NoReplica));
}

#[test]
fn a_pin_whose_replica_goes_out_is_told_at_once() {
    let (mut hall, _) = Hall::full();
    let pinned = crate::Request {
        pin: Some(1),
        ..turn_of(200)
    };
    let pinned = hall.waits(&pinned).ticket;
    hall.observe(Event::ConnectFailed(r(1)));
    let refusal = Refusal::PinnedReplicaOut { replica: r(1) };
    assert_eq!(hall.granted[&pinned], Err(refusal));
}

#[test]
fn a_drained_replicas_holders_move_when_they_next_speak() {
    let (mut hall, holders) = Hall::full();
    let drained = holders[0].replica.unwrap();
    hall.observe(Event::Drain(drained));
    hall.finish_now(holders[0].ticket, SHARED_TOKENS);
    hall.waits(&turn_of(100));
    hall.observe(Event::Undrain(drained));
    assert_eq!(hall.granted.len(), 1, "the leases there are void");
}

#[test]
fn a_moved_conversation_takes_its_lease_along() {
    let (mut hall, holders) = Hall::full();
    let from = holders[0].replica.unwrap();
    let to = r(1 - from.0);
    let key = identity(100).conversation;
    hall.fleet.router.move_conversation(hall.fleet.now, key, to);
    hall.finish_now(holders[0].ticket, SHARED_TOKENS);
    assert_eq!(hall.goes(&turn_of(100)).replica, Some(to));
    assert_eq!(hall.leases().replicas[usize::from(to.0)].holding, 5);
}

#[test]
fn a_forgotten_conversation_holds_nothing() {
    let (mut hall, _) = Hall::full();
    let waiting = hall.waits(&turn_of(200)).ticket;
    hall.fleet.router.forget(identity(100).conversation);
    hall.advance();
    assert!(hall.granted[&waiting].is_ok());
}

/// Found by the fuzz with seed 7: such a request was counted out by a refusal that promised to leave
/// it where it was.
#[test]
fn the_ticket_of_a_refused_retry_is_spent() {
    let (mut hall, holders) = Hall::full();
    let holder = holders.iter().find(|h| h.replica == Some(r(0))).unwrap();
    hall.observe(Event::ConnectFailed(r(1)));
    let in_flight = hall.fleet.router.snapshot(hall.fleet.now).in_flight;
    // Past its age nobody waits, and the only other replica is out.
    hall.pass_ms(500_000);
    let now = hall.fleet.now;
    let refused = hall.fleet.router.readmit(now, holder.ticket, r(0));
    assert_eq!(refused, Err(Refusal::RetriesSpent));
    for _ in 0..2 {
        let snapshot = hall.fleet.router.snapshot(now);
        assert_eq!(snapshot.in_flight, in_flight - 1);
        hall.observe(Event::Aborted(holder.ticket));
    }
}

/// Found by the fuzz with seed 24.
#[test]
fn a_resent_request_does_not_follow_its_conversation_to_where_it_failed() {
    let (mut hall, holders) = Hall::full();
    let holder = holders.iter().find(|h| h.replica == Some(r(0))).unwrap();
    let session = 100 + holders.iter().position(|h| h == holder).unwrap() as u32;
    let now = hall.fleet.now;
    let again = hall.fleet.router.readmit(now, holder.ticket, r(0));
    assert!(matches!(again, Ok(Admission::Wait(_))));
    // The next turn finds the room that the first one left.
    assert_eq!(hall.goes(&turn_of(session)).replica, Some(r(0)));
    assert!(!hall.granted.contains_key(&holder.ticket));
}

/// Found by the fuzz with seed 25.
#[test]
fn a_holders_pinned_request_is_never_sent_elsewhere() {
    let (mut hall, holders) = Hall::full();
    let holder = holders.iter().find(|h| h.replica == Some(r(0))).unwrap();
    let session = 100 + holders.iter().position(|h| h == holder).unwrap() as u32;
    let pinned = hall.goes(&crate::Request {
        pin: Some(0),
        ..turn_of(session)
    });
    assert_eq!(pinned.route, Route::Pinned);
    let now = hall.fleet.now;
    let again = hall.fleet.router.readmit(now, pinned.ticket, r(0));
    assert_eq!(again, Err(Refusal::RetriesSpent));
}
