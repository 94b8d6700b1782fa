//! Each cause, and that what was read again is never more than there was.

use proptest::prelude::*;

use super::*;

fn turn(replica: u16, route: Route) -> ServedTurn {
    ServedTurn {
        replica: (route != Route::Balanced).then_some(ReplicaIndex(replica)),
        route,
        arrived: Time(100_000_000),
        ended: Time(110_000_000),
        prompt_tokens: 50_000,
        cached_tokens: Some(7_000),
    }
}

fn before() -> ServedTurn {
    ServedTurn {
        arrived: Time(40_000_000),
        ended: Time(60_000_000),
        cached_tokens: Some(45_000),
        ..turn(1, Route::Sticky)
    }
}

#[test]
fn each_cause_is_named() {
    use ColdCause as Cause;
    let changed = Prefix::Changed { kept: 0.14 };
    for (replica, route, restarted, prefix, cause) in [
        (1, Route::Sticky, false, Prefix::Same, Cause::Silence),
        (1, Route::Sticky, false, changed, Cause::PrefixChanged),
        (
            1,
            Route::Sticky,
            false,
            Prefix::OtherBilling,
            Cause::BillingBlock,
        ),
        (1, Route::Sticky, false, Prefix::Unknown, Cause::Unknown),
        (1, Route::Sticky, true, Prefix::Unknown, Cause::Restarted),
        (2, Route::Spilled, false, Prefix::Unknown, Cause::Spilled),
        (1, Route::Sticky, true, Prefix::Same, Cause::Restarted),
        (2, Route::Spilled, false, Prefix::Same, Cause::Spilled),
        (2, Route::Spilled, false, changed, Cause::Spilled),
        (2, Route::Moved, false, Prefix::Same, Cause::Moved),
        (2, Route::Pinned, false, Prefix::Same, Cause::Pinned),
        (2, Route::New, false, Prefix::Same, Cause::Forgotten),
        (2, Route::Sticky, false, Prefix::Same, Cause::Returned),
        (0, Route::Balanced, false, Prefix::Same, Cause::Balanced),
        (0, Route::Balanced, false, changed, Cause::PrefixChanged),
        (
            0,
            Route::Balanced,
            false,
            Prefix::Changed { kept: 0.5 },
            Cause::Balanced,
        ),
        (0, Route::Balanced, true, changed, Cause::Restarted),
        // A moved home that is where the turn before was served has its cache.
        (1, Route::Moved, false, Prefix::Same, Cause::Silence),
    ] {
        let cold = why_cold(&before(), &turn(replica, route), restarted, prefix).unwrap();
        assert_eq!(
            cold.cause, cause,
            "{replica} {route:?} {restarted} {prefix:?}"
        );
        assert_eq!(cold.tokens_read_again, 43_000);
        assert_eq!(cold.gap, Duration::from_secs(40));
        assert!(cold.is_measured);
    }
}

#[test]
fn what_the_engine_did_not_measure_is_told_by_sizes_where_the_prompt_changed() {
    let unmeasured = ServedTurn {
        cached_tokens: None,
        ..turn(1, Route::Sticky)
    };
    assert_eq!(why_cold(&before(), &unmeasured, false, Prefix::Same), None);
    let cold = why_cold(&before(), &unmeasured, false, Prefix::Changed { kept: 0.2 }).unwrap();
    assert_eq!((cold.tokens_read_again, cold.is_measured), (40_000, false));
}

#[test]
fn a_little_read_again_makes_no_cold_turn() {
    for (prompt, cached, is_cold) in [
        (50_000, 45_100, false),
        (50_000, 44_900, true),
        (2_000, 1_000, false),
        (2_000, 900, true),
    ] {
        let before = ServedTurn {
            prompt_tokens: prompt,
            ..before()
        };
        let now = ServedTurn {
            prompt_tokens: prompt + 4_000,
            cached_tokens: Some(cached),
            ..turn(1, Route::Sticky)
        };
        let cold = why_cold(&before, &now, false, Prefix::Same);
        assert_eq!(cold.is_some(), is_cold, "{cached} of {prompt}");
    }
}

fn any_turn() -> impl Strategy<Value = ServedTurn> {
    let route = prop::sample::select(vec![
        Route::New,
        Route::Sticky,
        Route::Spilled,
        Route::Moved,
        Route::Pinned,
        Route::Balanced,
    ]);
    let replica = prop::option::of(0..4_u16);
    let tokens = (0..300_000_u64, prop::option::of(0..300_000_u64));
    (replica, route, tokens, 0..1_000_000_u64, 0..1_000_000_u64).prop_map(
        |(replica, route, (prompt_tokens, cached_tokens), arrived, took)| ServedTurn {
            replica: replica.map(ReplicaIndex),
            route,
            arrived: Time(1_000 * (arrived)),
            ended: Time(1_000 * (arrived + took)),
            prompt_tokens,
            cached_tokens,
        },
    )
}

proptest! {
    #[test]
    fn what_was_read_again_is_no_more_than_either_prompt(
        before in any_turn(), now in any_turn(), restarted in any::<bool>(), kept in 0.0..1.0_f64
    ) {
        for prefix in [Prefix::Same, Prefix::OtherBilling, Prefix::Unknown, Prefix::Changed { kept }] {
            let Some(cold) = why_cold(&before, &now, restarted, prefix) else { continue };
            let least = before.prompt_tokens.min(now.prompt_tokens);
            prop_assert!((READ_AGAIN_TOKENS_MIN..=least).contains(&cold.tokens_read_again));
            prop_assert_eq!(cold.cause == ColdCause::Restarted, restarted);
        }
    }

    #[test]
    fn a_turn_that_finds_all_is_never_cold(
        before in any_turn(), now in any_turn(), kept in 0.0..1.0_f64
    ) {
        let now = ServedTurn { cached_tokens: Some(now.prompt_tokens), ..now };
        for prefix in [Prefix::Same, Prefix::OtherBilling, Prefix::Unknown, Prefix::Changed { kept }] {
            prop_assert_eq!(why_cold(&before, &now, true, prefix), None);
        }
    }
}
