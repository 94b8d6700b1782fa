//! Profiles are read whole, price a step by the formula, and name their sources.

use super::*;
use crate::scheduler::{RequestId, ScheduledRequest};

fn step(requests: &[(u32, u32)]) -> Step {
    let scheduled = requests
        .iter()
        .map(|&(tokens, context)| ScheduledRequest {
            id: RequestId(0),
            tokens,
            context,
            samples: true,
        })
        .collect();
    Step {
        scheduled,
        preempted: Vec::new(),
        loaded_tokens: 0,
    }
}

/// A profile with round numbers.
fn round() -> Profile {
    Profile {
        step_overhead_ms: 1.0,
        prefill_ms_per_token: 0.1,
        attention_us_per_token_per_1k: 10.0,
        weights_read_ms: 20.0,
        kv_read_ms_per_1k: 0.5,
        ..Profile::named("demo").unwrap()
    }
}

fn assert_ms(actual: f64, expected: f64) {
    assert!(
        (actual - expected).abs() < 1e-9,
        "{actual} ms, expected {expected} ms"
    );
}

#[test]
fn every_built_in_profile_is_complete_and_says_where_each_number_comes_from() {
    for name in Profile::names() {
        let profile = Profile::named(name).unwrap();
        assert_eq!(profile.name, name);
        assert_eq!(profile.provenance.len(), 11);
        assert!(
            profile.provenance.iter().all(|p| !p.source.is_empty()),
            "{name}"
        );
    }
}

#[test]
fn a_decode_step_reads_the_weights_and_its_contexts() {
    assert_ms(
        round().step_ms(&step(&[(1, 4000), (1, 2000)])),
        1.0 + 20.0 + 3.0,
    );
}

#[test]
fn what_host_memory_gives_back_costs_its_bytes_over_the_bandwidth() {
    let profile = Profile {
        kv_bytes_per_token: 100_000,
        host_read_gb_per_s: 20.0,
        ..round()
    };
    // 1.6 GB at 20 GB/s.
    let loads = Step {
        loaded_tokens: 16_000,
        ..step(&[(1, 0)])
    };
    assert_ms(profile.step_ms(&loads), 1.0 + 20.0 + 80.0);
    let profile = profile.with_host_gib(1.0);
    assert_eq!(profile.host_kv_tokens, 10_737);
    assert_eq!(profile.scheduler_config().host_blocks, 671);
}

#[test]
fn a_long_prefill_hides_the_weights_and_pays_for_the_context_before_it() {
    // 1,001 tokens of mean context 2,000 + 500: 100.1 ms of products, 25.025 ms of attention.
    assert_ms(
        round().step_ms(&step(&[(1001, 2000)])),
        1.0 + 100.1 + 25.025,
    );
}

#[test]
fn an_unknown_profile_is_answered_with_the_known_names() {
    let error = Profile::named("rtx-3090").unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown profile \"rtx-3090\": known are demo, rtx-a4000-qwen3-4b, rtx-5090-27b, h100-32b"
    );
}

#[test]
fn an_impossible_number_is_named() {
    let demo = Profile::named("demo").unwrap();
    let error = demo.with_kv_tokens(16).unwrap_err().to_string();
    assert!(
        error.starts_with("profile \"demo\": kv_tokens = 16 is impossible"),
        "{error}"
    );
    let text = BUILT_IN[0].1.replace("value = 0.08", "value = -0.08");
    let error = Profile::from_toml(&text).unwrap_err().to_string();
    assert!(error.contains("prefill_ms_per_token = -0.08"), "{error}");
    let error = Profile::from_toml("name = 1").unwrap_err().to_string();
    assert!(error.contains("line 1"), "{error}");
}
