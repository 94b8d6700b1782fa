//! When leases begin, and when they end.

use super::super::fleet::*;
use super::hall::*;
use crate::{
    Event, LeaseMode, LeaseRule, LeaseSettings, LeaseState, Reason, Request, Route, Usage,
};

fn twelve() -> Vec<Request> {
    (0..12).map(turn_of).collect()
}

/// Ends of so many turns that miss everything, and whether leases have begun.
fn begun_after(finishes: usize) -> bool {
    let mut hall = Hall::new();
    hall.round(&twelve(), SHARED_TOKENS);
    for decision in &hall.begin_all(&twelve())[..finishes] {
        hall.finish_now(decision.ticket, SHARED_TOKENS);
    }
    hall.is_contended()
}

#[test]
fn eight_finishes_that_miss_everything_begin_leases() {
    assert!(!begun_after(7));
    assert!(begun_after(8));
}

#[test]
fn turns_that_find_half_of_what_they_left_never_begin_leases() {
    let mut hall = Hall::new();
    for _ in 0..20 {
        hall.round(&twelve(), SHARED_TOKENS + OWN_TOKENS / 2);
    }
    assert!(!hall.is_contended());
    let ratio = hall.leases().miss_ratio;
    assert!((0.4..0.6).contains(&ratio), "{ratio}");
}

#[test]
fn two_thirds_missed_begin_leases_after_48_finishes() {
    let mut hall = Hall::new();
    for _ in 0..4 {
        hall.round(&twelve(), SHARED_TOKENS + OWN_TOKENS / 3);
    }
    assert!(!hall.is_contended());
    let decisions = hall.begin_all(&twelve());
    for decision in &decisions[..11] {
        hall.finish_now(decision.ticket, SHARED_TOKENS + OWN_TOKENS / 3);
    }
    assert!(!hall.is_contended(), "after 47");
    hall.finish_now(decisions[11].ticket, SHARED_TOKENS + OWN_TOKENS / 3);
    assert!(hall.is_contended(), "after 48");
}

#[test]
fn a_miss_after_a_gap_that_no_lease_outlasts_counts_for_nothing() {
    let mut hall = Hall::new();
    for _ in 0..5 {
        hall.round(&twelve(), SHARED_TOKENS);
        hall.pass_ms(120_000);
    }
    assert!(!hall.is_contended());
    assert!(hall.leases().miss_ratio < 0.01);
}

#[test]
fn a_prefix_that_the_client_broke_and_a_restarted_engine_are_no_evictions() {
    let mut hall = Hall::new();
    for round in 0..4 {
        let broken: Vec<_> = twelve()
            .into_iter()
            .map(|request| Request {
                front: 1 + round,
                ..request
            })
            .collect();
        hall.round(&broken, SHARED_TOKENS);
    }
    assert!(!hall.is_contended());
    let mut hall = Hall::new();
    for _ in 0..4 {
        hall.round(&twelve(), SHARED_TOKENS);
        hall.observe(Event::EngineRestarted(r(0)));
        hall.observe(Event::EngineRestarted(r(1)));
    }
    assert!(!hall.is_contended());
}

#[test]
fn while_sticky_admit_is_route_and_nothing_waits() {
    let mut hall = Hall::new();
    for session in 0..200 {
        hall.goes(&turn_of(session));
    }
    let view = hall.leases();
    assert_eq!((view.waiting, view.holding), (0, 0));
    assert_eq!(hall.fleet.router.next_wakeup(hall.fleet.now), None);
}

#[test]
fn what_is_unknown_keeps_leases_off_and_says_why() {
    let mut hall = Hall::new();
    assert_eq!(hall.leases().state, LeaseState::UsageUnknown);
    hall.round(&twelve(), SHARED_TOKENS);
    assert_eq!(hall.leases().state, LeaseState::Sticky);
    hall.fleet.configure(|settings| settings.affinity = false);
    assert_eq!(hall.leases().state, LeaseState::AffinityOff);
    hall.fleet
        .configure(|settings| settings.leases.mode = LeaseMode::Off);
    assert_eq!(hall.leases().state, LeaseState::Off);

    let unknown = Fleet::with(crowded(LeaseSettings::default()), 2, None);
    let mut hall = Hall {
        fleet: unknown,
        granted: std::collections::BTreeMap::new(),
    };
    for _ in 0..3 {
        hall.round(&twelve(), SHARED_TOKENS);
    }
    assert_eq!(hall.leases().state, LeaseState::KvTokensUnknown);
}

#[test]
fn without_cached_tokens_in_the_usage_there_are_no_leases() {
    let mut hall = Hall::new();
    for _ in 0..5 {
        for session in 0..12 {
            let decision = hall.goes(&turn_of(session));
            let usage = Usage {
                prompt_tokens: OWN_TOKENS + SHARED_TOKENS,
                cached_tokens: None,
                completion_tokens: OUTPUT_TOKENS,
            };
            hall.observe(Event::Finished(decision.ticket, Some(usage)));
        }
    }
    assert_eq!(hall.leases().state, LeaseState::UsageUnknown);
}

#[test]
fn those_in_flight_get_their_leases_first() {
    let mut hall = Hall::new();
    hall.round(&twelve(), SHARED_TOKENS);
    let decisions = hall.begin_all(&twelve()[..8]);
    for decision in &decisions[..7] {
        hall.finish_now(decision.ticket, SHARED_TOKENS);
    }
    // Three on each replica are in flight when the eighth finish begins leases.
    let busy: Vec<_> = (20..26)
        .map(|session| hall.goes(&turn_of(session)))
        .collect();
    hall.finish_now(decisions[7].ticket, SHARED_TOKENS);
    assert!(hall.is_contended());
    for (session, decision) in (20..26).zip(busy) {
        hall.finish_now(decision.ticket, SHARED_TOKENS);
        let next = hall.goes(&turn_of(session));
        assert_eq!(next.replica, decision.replica);
        assert_eq!(next.reason, Reason::LeaseHeld);
    }
}

#[test]
fn leases_end_where_the_load_falls_and_what_waits_goes() {
    let (mut hall, holders) = Hall::full();
    let waiting: Vec<_> = (200..204).map(|s| hall.waits(&turn_of(s)).ticket).collect();
    for ticket in &waiting[1..] {
        hall.observe(Event::Aborted(*ticket));
    }
    for holder in &holders[..4] {
        hall.observe(Event::Aborted(holder.ticket));
    }
    hall.pass_ms(60_000);
    hall.advance();
    assert!(!hall.is_contended());
    assert!(hall.granted[&waiting[0]].is_ok());
    assert_eq!(hall.leases().holding, 0);
}

#[test]
fn always_on_needs_no_misses() {
    let rule = LeaseRule {
        switches: false,
        ..LeaseRule::default()
    };
    let mut hall = Hall::with(LeaseSettings {
        rule,
        ..LeaseSettings::default()
    });
    let decision = hall.goes(&turn_of(0));
    hall.finish_now(decision.ticket, 0);
    assert!(hall.is_contended());
    assert_eq!(hall.goes(&turn_of(0)).route, Route::Sticky);
}
