//! Host memory beside the KV cache: what it lets a replica lease, who comes back to it, and for how long
//! a silence is worth a place in it.

use super::super::fleet::*;
use super::hall::*;
use crate::{Event, HostTier, LeaseSettings, Reason, Request};

/// Room for seven conversations, of which five may hold a place; back in a tenth of a prefill's time.
const ROOMY: HostTier = HostTier {
    tokens: 64_000,
    tokens_per_s: 200_000.0,
};

/// A hall whose replicas have such host memory from the beginning.
fn hall_of(leases: LeaseSettings, tier: Option<HostTier>) -> Hall {
    let mut hall = Hall::with(leases);
    for replica in [r(0), r(1)] {
        hall.observe(Event::HostTier(replica, tier));
    }
    hall.contend();
    hall
}

/// How many new conversations get a place at once.
fn places(tier: Option<HostTier>) -> usize {
    let mut hall = hall_of(LeaseSettings::default(), tier);
    let mut places = 0;
    while matches!(hall.ask(&turn_of(100 + places)), Came::Went(_)) {
        places += 1;
    }
    places as usize
}

#[test]
fn a_replica_leases_what_host_memory_keeps_where_its_return_is_cheap() {
    assert_eq!(places(None), 8);
    assert_eq!(places(Some(ROOMY)), 10);
    let with = |tokens, tokens_per_s| {
        places(Some(HostTier {
            tokens,
            tokens_per_s,
        }))
    };
    // A turn's return takes longer than its part of a prefill.
    assert_eq!(with(64_000, 50_000.0), 8);
    assert_eq!(with(64_000, 0.0), 8);
    // What it keeps is in the KV cache too.
    assert_eq!(with(39_000, 200_000.0), 8);
}

/// Lives on replica 1, whose KV cache has lost its tokens: those who spoke after it fill that.
const EVICTED: u32 = 9;

/// Somebody asks for room, which ends the leases that are silent, and leaves. Where that was.
fn passes_by(hall: &mut Hall) -> u16 {
    let other = hall.goes(&turn_of(100));
    hall.observe(Event::Aborted(other.ticket));
    other.replica.expect("steered").0
}

/// Where that session goes when both replicas are idle.
fn where_it_returns(tier: Option<HostTier>) -> u16 {
    let mut hall = hall_of(LeaseSettings::default(), tier);
    assert_eq!(hall.fleet.home(EVICTED), Some(r(1)));
    passes_by(&mut hall);
    hall.pass_ms(5000);
    hall.goes(&turn_of(EVICTED)).replica.expect("steered").0
}

#[test]
fn it_goes_back_to_the_host_memory_that_keeps_it() {
    assert_eq!(where_it_returns(None), 0);
    assert_eq!(where_it_returns(Some(ROOMY)), 1);
}

#[test]
fn a_restarted_engine_has_no_host_memory_of_before() {
    let mut hall = hall_of(LeaseSettings::default(), Some(ROOMY));
    hall.observe(Event::EngineRestarted(r(1)));
    // For a moment its lease takes room on replica 1, which was the emptier one.
    assert_eq!(passes_by(&mut hall), 1);
    assert_eq!(hall.goes(&turn_of(EVICTED)).replica, Some(r(0)));
}

/// Whether a conversation that pauses for so long between turns finds its place, while another waits.
fn is_held_through(gap_ms: u64, tier: Option<HostTier>) -> bool {
    let mut hall = hall_of(
        LeaseSettings {
            turns: Some(1000),
            ..LeaseSettings::default()
        },
        tier,
    );
    let mut turn = hall.goes(&turn_of(50));
    for _ in 0..2 {
        hall.pass_ms(500);
        hall.finish_now(turn.ticket, OWN_TOKENS + SHARED_TOKENS);
        hall.pass_ms(gap_ms);
        turn = hall.goes(&turn_of(50));
    }
    let others: Vec<Request> = (100..120).map(turn_of).collect();
    for other in &others {
        hall.ask(other);
    }
    hall.pass_ms(500);
    hall.finish_now(turn.ticket, OWN_TOKENS + SHARED_TOKENS);
    hall.pass_ms(gap_ms);
    matches!(hall.ask(&turn_of(50)), Came::Went(turn) if turn.reason == Reason::LeaseHeld)
}

#[test]
fn a_silence_is_worth_as_much_as_the_room_that_it_takes() {
    // A prefill takes 55 us a token: 2.2 s for all that the KV cache leases, 2.8 for host memory.
    for tier in [None, Some(ROOMY)] {
        assert!(is_held_through(1500, tier), "{tier:?}");
        assert!(!is_held_through(3500, tier), "{tier:?}");
    }
    assert!(!is_held_through(2500, None));
    assert!(is_held_through(2500, Some(ROOMY)));
}

#[test]
fn where_fewer_wait_the_default_stay_is_longer() {
    let predicted = |turns, tier| {
        let mut hall = hall_of(
            LeaseSettings {
                turns,
                ..LeaseSettings::default()
            },
            tier,
        );
        for session in 100..114 {
            hall.ask(&turn_of(session));
        }
        hall.leases().predicted_wait
    };
    assert_eq!(predicted(None, None), predicted(Some(3), None));
    assert!(predicted(None, Some(ROOMY)) > predicted(Some(3), Some(ROOMY)));
    assert!(predicted(None, Some(ROOMY)) < predicted(None, None));
}
