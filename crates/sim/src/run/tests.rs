//! Runs of a fleet: deterministic per seed, conserving time and counts.

use super::*;
use crate::fleet::{BalancerVersion, Fleet};
use crate::policy::{Knobs, Policy, PolicyKind};
use crate::profile::Profile;
use crate::workload::{Farm, Published, Recorded, Workload};

fn fleet(kv_tokens: u64, balancer: BalancerVersion) -> Fleet {
    let profile = Profile::named("rtx-a4000-qwen3-4b")
        .unwrap()
        .with_kv_tokens(kv_tokens)
        .unwrap();
    Fleet::new(&profile, 4, balancer)
}

fn stage(arrivals: Arrivals, seed: u64) -> Stage {
    Stage {
        level: 8,
        arrivals,
        window_s: 60.0,
        round_trip_ms: 200.0,
        start_spread_s: 0.5,
        prompt_seed: seed,
        chance_seed: seed,
    }
}

fn published() -> Workload {
    Workload::Published(Published::default())
}

fn run(kind: PolicyKind, workload: &Workload, arrivals: Arrivals, seed: u64) -> Outcome {
    let mut fleet = fleet(40_000, BalancerVersion::V026);
    let mut policy = Policy::new(kind, &fleet, &Knobs::default());
    run_stage(&mut fleet, &mut policy, workload, &stage(arrivals, seed)).unwrap()
}

const CLOSED: Arrivals = Arrivals::Closed { sessions: 8 };

#[test]
fn a_seed_decides_the_whole_run() {
    for kind in PolicyKind::ALL {
        let outcome = run(kind, &published(), CLOSED, 1);
        assert_eq!(
            outcome,
            run(kind, &published(), CLOSED, 1),
            "{}",
            kind.as_str()
        );
        assert_ne!(
            outcome.turns,
            run(kind, &published(), CLOSED, 2).turns,
            "{}",
            kind.as_str()
        );
    }
}

#[test]
fn affinity_keeps_conversations_at_home_and_finds_their_tokens_again() {
    let affinity = Figures::of(&run(PolicyKind::Affinity, &published(), CLOSED, 1));
    assert_eq!(affinity.stayed_percent, Some(100.0));
    assert!(affinity.own_hit_percent.unwrap() > 95.0, "{affinity:?}");
    let balanced = Figures::of(&run(PolicyKind::Balanced, &published(), CLOSED, 1));
    assert!(balanced.stayed_percent.unwrap() < 60.0, "{balanced:?}");
    assert!(balanced.own_hit_percent.unwrap() < 70.0, "{balanced:?}");
    assert!(affinity.output_tokens_per_min > balanced.output_tokens_per_min);
}

#[test]
fn the_hash_never_moves_a_session() {
    let outcome = run(PolicyKind::Hash, &published(), CLOSED, 3);
    for turn in &outcome.turns {
        let first = outcome
            .turns
            .iter()
            .find(|t| (t.client, t.session) == (turn.client, turn.session));
        assert_eq!(first.unwrap().replica, turn.replica);
    }
}

#[test]
fn engines_and_clients_count_the_same_tokens() {
    let mut fleet = fleet(400_000, BalancerVersion::V027);
    let mut policy = Policy::new(PolicyKind::Balanced, &fleet, &Knobs::default());
    let arrivals = Arrivals::Rate {
        sessions_per_hour: 300.0,
    };
    let outcome = run_stage(&mut fleet, &mut policy, &published(), &stage(arrivals, 5)).unwrap();
    let counters = fleet.counters();
    let sum = |tokens: fn(&TurnRecord) -> u32| -> u64 {
        outcome
            .turns
            .iter()
            .map(|turn| u64::from(tokens(turn)))
            .sum()
    };
    assert_eq!(sum(|t| t.prompt_tokens), counters.prompt_tokens);
    assert_eq!(sum(|t| t.cached_tokens), counters.prompt_tokens_cached);
    assert_eq!(sum(|t| t.output_tokens), counters.generation_tokens);
    assert!(outcome.turns.iter().all(|t| t.output_tokens == 256));
    assert_eq!(fleet.busy(), 0);
}

#[test]
fn answers_that_stop_have_the_length_of_their_script() {
    let rows = "trace,in,out,cached_ideal,think_time\na,900,7,0,0\na,1000,30,896,3\n";
    let workload = Workload::Recorded(Recorded::from_csv(rows, 1.0, 5000).unwrap());
    let outcome = run(PolicyKind::Affinity, &workload, CLOSED, 1);
    assert!(outcome.turns.len() > 50);
    for turn in &outcome.turns {
        let (prompt, output) = if turn.turn == 0 { (900, 7) } else { (1000, 30) };
        assert_eq!((turn.prompt_tokens, turn.output_tokens), (prompt, output));
        assert!(turn.turn == 0 || turn.cached_tokens == 896, "{turn:?}");
    }
}

#[test]
fn farm_sessions_run_on_after_their_pauses() {
    let workload = Workload::Farm(Farm::of_context(9_000));
    let outcome = run(PolicyKind::Affinity, &workload, CLOSED, 1);
    assert!(outcome.turns.iter().any(|turn| turn.turn > 0));
    assert!(outcome.thinking_us > 0);
}

#[test]
fn a_turn_that_never_fits_is_an_error_and_no_endless_run() {
    let mut fleet = fleet(8_000, BalancerVersion::V026);
    let mut policy = Policy::new(PolicyKind::Hash, &fleet, &Knobs::default());
    let error = run_stage(&mut fleet, &mut policy, &published(), &stage(CLOSED, 1)).unwrap_err();
    assert!(
        error.to_string().contains("its KV cache holds 8000 tokens"),
        "{error}"
    );
}

#[test]
#[should_panic(expected = "us in turns")]
fn a_lost_turn_breaks_the_law() {
    let mut outcome = run(PolicyKind::Affinity, &published(), CLOSED, 1);
    outcome.turns.pop();
    outcome.assert_time_is_conserved();
}

#[test]
fn quantiles_lie_between_the_nearest_values() {
    assert_eq!(quantile(&[], 0.5), None);
    assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
    assert_eq!(quantile(&[1.0, 2.0, 9.0], 1.0), Some(9.0));
    assert_eq!(percent(1, 0), None);
}
