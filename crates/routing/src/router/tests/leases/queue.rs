//! Who is let in, where, and what ends a lease.

use super::super::fleet::*;
use super::hall::*;
use crate::{
    Event, Hold, LeaseRule, LeaseSettings, Reason, Refusal, Request, RequestClass, Route, Usage,
};

/// What a held turn finds: all that its conversation left.
const ALL_TOKENS: u64 = OWN_TOKENS + SHARED_TOKENS;

#[test]
fn who_finds_no_room_waits_and_is_let_in_by_age() {
    let (mut hall, holders) = Hall::full();
    let first = hall.waits(&turn_of(200)).ticket;
    let second = hall.waits(&turn_of(201)).ticket;
    assert_eq!(hall.leases().waiting, 2);
    hall.observe(Event::Aborted(holders[0].ticket));
    // The holder's lease is idle, and held no longer than its hold.
    assert_eq!(hall.granted.len(), 0);
    hall.pass_ms(2000);
    let decision = hall.granted[&first].clone().unwrap();
    assert_eq!(decision.replica, holders[0].replica);
    assert!(matches!(decision.reason, Reason::LeaseGranted { waited } if waited.as_secs() == 2));
    assert!(!hall.granted.contains_key(&second));
}

#[test]
fn a_holder_keeps_its_place_while_others_wait() {
    let (mut hall, holders) = Hall::full();
    let waiting = hall.waits(&turn_of(200)).ticket;
    hall.waits(&turn_of(201));
    hall.finish_now(holders[0].ticket, SHARED_TOKENS);
    hall.pass_ms(100);
    let next = hall.goes(&turn_of(100));
    assert_eq!(next.replica, holders[0].replica);
    assert_eq!(
        (next.route, next.reason),
        (Route::Sticky, Reason::LeaseHeld)
    );
    assert!(!hall.granted.contains_key(&waiting));
}

#[test]
fn a_lease_ends_once_others_waited_for_its_quantum_of_turns() {
    let (mut hall, holders) = Hall::full_with(LeaseSettings {
        turns: Some(2),
        ..LeaseSettings::default()
    });
    let waiting: Vec<_> = (200..208).map(|s| hall.waits(&turn_of(s)).ticket).collect();
    // One waits per lease, and a turn takes a second: two seconds are two turns.
    hall.pass_ms(1500);
    hall.finish_now(holders[0].ticket, SHARED_TOKENS);
    assert_eq!(hall.granted.len(), 0);
    let holder = hall.goes(&turn_of(100));
    hall.pass_ms(2000);
    hall.finish_now(holder.ticket, ALL_TOKENS);
    assert_eq!(hall.leases().counters.released_quantum, 1);
    assert!(hall.granted[&waiting[0]].is_ok());
}

#[test]
fn the_more_wait_the_more_turns_a_lease_lasts() {
    let (mut hall, holders) = Hall::full_with(LeaseSettings {
        turns: Some(2),
        ..LeaseSettings::default()
    });
    // Two wait per lease: past its first turn a lease lasts for two more.
    let waiting: Vec<_> = (200..216).map(|s| hall.waits(&turn_of(s)).ticket).collect();
    hall.pass_ms(10_000);
    let mut ticket = holders[0].ticket;
    for _ in 0..2 {
        hall.finish_now(ticket, ALL_TOKENS);
        ticket = hall.goes(&turn_of(100)).ticket;
        assert_eq!(hall.leases().counters.released_quantum, 0);
    }
    hall.finish_now(ticket, ALL_TOKENS);
    assert_eq!(hall.leases().counters.released_quantum, 1);
    assert!(hall.granted[&waiting[0]].is_ok());
}

#[test]
fn who_has_waited_less_makes_room_where_more_is_leased_than_fits() {
    let (mut hall, holders) = Hall::full_with(LeaseSettings {
        turns: Some(100),
        ..LeaseSettings::default()
    });
    let patient = hall.waits(&turn_of(200)).ticket;
    let others = [201, 202].map(|session| hall.waits(&turn_of(session)).ticket);
    hall.observe(Event::Aborted(holders[0].ticket));
    hall.pass_ms(2000);
    let let_in = hall.granted[&patient].clone().unwrap();
    let neighbour = holders[1..]
        .iter()
        .find(|holder| holder.replica == let_in.replica)
        .unwrap();
    let grown = Usage {
        prompt_tokens: 2 * ALL_TOKENS,
        cached_tokens: Some(SHARED_TOKENS),
        completion_tokens: OUTPUT_TOKENS,
    };
    hall.observe(Event::Finished(let_in.ticket, Some(grown)));
    assert_eq!(hall.leases().counters.released_overflow, 0);
    hall.finish_now(neighbour.ticket, SHARED_TOKENS);
    assert_eq!(hall.leases().counters.released_overflow, 1);
    assert_eq!(hall.goes(&turn_of(200)).reason, Reason::LeaseHeld);
    assert!(
        others
            .iter()
            .all(|ticket| !hall.granted.contains_key(ticket))
    );
}

#[test]
fn an_idle_lease_is_kept_where_nobody_waits() {
    let (mut hall, holders) = Hall::full();
    for holder in &holders {
        hall.finish_now(holder.ticket, SHARED_TOKENS);
    }
    hall.pass_ms(5_000);
    assert_eq!(hall.leases().holding, 8);
    hall.waits_or_goes(200);
    assert!(hall.leases().holding < 8, "all were silent for too long");
}

#[test]
fn a_hold_of_nothing_gives_the_place_to_whoever_waits() {
    let rule = LeaseRule {
        hold: Hold::Zero,
        ..LeaseRule::default()
    };
    let (mut hall, holders) = Hall::full_with(LeaseSettings {
        rule,
        ..LeaseSettings::default()
    });
    let waiting = hall.waits(&turn_of(200)).ticket;
    hall.finish_now(holders[0].ticket, SHARED_TOKENS);
    assert!(hall.granted[&waiting].is_ok());
}

#[test]
fn a_small_one_may_pass_a_large_one_but_not_for_ever() {
    let (mut hall, holders) = Hall::full();
    let large = Request {
        prompt_bytes: 4 * 30_000,
        ..turn_of(200)
    };
    let large = hall.waits(&large).ticket;
    let small = hall.waits(&turn_of(201)).ticket;
    hall.observe(Event::Aborted(holders[0].ticket));
    hall.pass_ms(2000);
    assert!(hall.granted[&small].is_ok());
    hall.pass_ms(60_000);
    let late = hall.waits(&turn_of(202)).ticket;
    hall.observe(Event::Aborted(holders[1].ticket));
    hall.pass_ms(2000);
    assert!(
        !hall.granted.contains_key(&late),
        "the large one waited for 60 s"
    );
    for holder in &holders[2..] {
        hall.observe(Event::Aborted(holder.ticket));
    }
    hall.pass_ms(2000);
    assert!(hall.granted[&large].is_ok());
}

#[test]
fn a_conversation_larger_than_any_cache_gets_a_replica_to_itself() {
    let mut hall = Hall::contended();
    let huge = Request {
        prompt_bytes: 4 * 60_000,
        ..turn_of(200)
    };
    assert!(hall.goes(&huge).replica.is_some());
}

#[test]
fn parallel_requests_of_one_conversation_count_once_and_are_let_in_together() {
    let (mut hall, holders) = Hall::full();
    let one = hall.waits(&turn_of(200)).ticket;
    let other = hall.waits(&turn_of(200)).ticket;
    hall.observe(Event::Aborted(holders[0].ticket));
    hall.pass_ms(2000);
    let [one, other] = [one, other].map(|ticket| hall.granted[&ticket].clone().unwrap());
    assert_eq!(one.replica, other.replica);
    assert_eq!(hall.leases().holding, 8);
}

#[test]
fn a_side_request_goes_to_its_holder_and_takes_no_turn() {
    let (mut hall, holders) = Hall::full();
    hall.waits(&turn_of(200));
    let side = Request {
        class: RequestClass::Side,
        lineage: 77,
        ..turn_of(100)
    };
    let title = hall.goes(&side);
    assert_eq!(title.replica, holders[0].replica);
    let before = hall.leases().replicas;
    hall.finish_now(title.ticket, 0);
    assert_eq!(hall.leases().replicas, before);
}

#[test]
fn no_more_leases_than_sequences_on_a_replica() {
    let mut settings = crowded(LeaseSettings::default());
    settings.max_num_seqs = 2;
    let mut hall = Hall::contended_of(settings);
    for session in 100..104 {
        hall.goes(&turn_of(session));
    }
    hall.waits(&turn_of(104));
    assert_eq!(hall.fleet.in_flight(), [2, 2]);
}

#[test]
fn a_prompt_that_the_engine_will_refuse_does_not_wait() {
    let (mut hall, _) = Hall::full_with(LeaseSettings {
        model_tokens_max: Some(20_000),
        ..LeaseSettings::default()
    });
    hall.waits(&turn_of(200));
    let long = Request {
        prompt_bytes: 4 * 21_000,
        ..turn_of(201)
    };
    hall.goes(&long);
    assert_eq!(hall.leases().holding, 8);
}

#[test]
fn a_pin_waits_for_room_on_its_replica() {
    let (mut hall, holders) = Hall::full();
    let pinned = Request {
        pin: Some(1),
        identity: None,
        ..turn_of(0)
    };
    let pinned = hall.waits(&pinned).ticket;
    let elsewhere = holders.iter().find(|h| h.replica == Some(r(0))).unwrap();
    hall.observe(Event::Aborted(elsewhere.ticket));
    hall.pass_ms(2000);
    assert!(!hall.granted.contains_key(&pinned));
    let there = holders.iter().find(|h| h.replica == Some(r(1))).unwrap();
    hall.observe(Event::Aborted(there.ticket));
    hall.pass_ms(2000);
    let decision = hall.granted[&pinned].clone().unwrap();
    assert_eq!(
        (decision.route, decision.replica),
        (Route::Pinned, Some(r(1)))
    );
}

#[test]
fn requests_without_a_conversation_have_a_reserve_of_their_demand() {
    let (mut hall, _) = Hall::full();
    let nameless = Request {
        identity: None,
        prompt_bytes: 4 * 4000,
        ..turn_of(0)
    };
    // Nothing is reserved before there was any demand.
    hall.waits(&nameless);
    let mut hall = Hall::contended();
    let running: Vec<_> = (0..4).map(|_| hall.goes(&nameless)).collect();
    for session in 100..120 {
        hall.ask(&turn_of(session));
    }
    hall.pass_ms(60_000);
    for decision in running {
        hall.observe(Event::Aborted(decision.ticket));
    }
    assert!(hall.leases().waiting > 0);
    let decision = hall.goes(&nameless);
    assert_eq!(decision.reason, Reason::Reserved);

    let pinned = hall.goes(&Request {
        pin: Some(1),
        ..nameless
    });
    assert_eq!(
        (pinned.route, pinned.replica, pinned.reason),
        (Route::Pinned, Some(r(1)), Reason::Reserved)
    );
    // So it is not sent elsewhere, whatever becomes of it there.
    let now = hall.fleet.now;
    let again = hall.fleet.router.readmit(now, pinned.ticket, r(1));
    assert_eq!(again, Err(Refusal::RetriesSpent));
}

#[test]
fn an_idle_lease_is_bet_on_by_a_newcomer_that_waits_alone() {
    let (mut hall, holders) = Hall::full();
    hall.finish_now(holders[0].ticket, SHARED_TOKENS);
    let newcomer = hall.goes(&turn_of(200));
    assert_eq!(newcomer.replica, holders[0].replica);
    // Two conversations too many on one replica: the next finish there ends its lease.
    let returned = hall.goes(&turn_of(100));
    hall.waits(&turn_of(201));
    hall.finish_now(returned.ticket, ALL_TOKENS);
    assert_eq!(hall.leases().counters.released_overflow, 1);
}

impl Hall {
    fn waits_or_goes(&mut self, session: u32) {
        self.ask(&turn_of(session));
    }
}
