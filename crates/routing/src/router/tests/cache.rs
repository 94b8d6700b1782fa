//! What is believed to be in a cache, and how placement uses it.

use super::fleet::*;
use crate::{Event, Request, Route, Settings, Steering};

/// Two replicas that hold 10,000 tokens each.
fn fleet() -> Fleet {
    Fleet::with(settings(Steering::Ranks), 2, Some(10_000))
}

/// A turn of which so many tokens are measured, 1,000 of them shared.
fn measured(fleet: &mut Fleet, session: u32, tokens: u64) -> Option<u16> {
    let decision = fleet.route(&Request {
        prompt_bytes: tokens * 4,
        shared_bytes: 4000,
        ..request(session)
    });
    let usage = Some(usage(tokens, 0));
    fleet.observe(Event::Finished(decision.ticket, usage));
    decision.replica.map(|replica| replica.0)
}

fn committed(fleet: &Fleet) -> Vec<u64> {
    let snapshot = fleet.router.snapshot(fleet.now);
    snapshot
        .replicas
        .iter()
        .map(|r| r.committed_tokens)
        .collect()
}

fn conversations(fleet: &Fleet) -> Vec<u32> {
    let snapshot = fleet.router.snapshot(fleet.now);
    snapshot.replicas.iter().map(|r| r.conversations).collect()
}

#[test]
fn the_lowest_fill_decides_among_replicas_with_equally_many_requests() {
    let mut fleet = fleet();
    assert_eq!(measured(&mut fleet, 1, 5000), Some(0));
    assert_eq!(measured(&mut fleet, 2, 2000), Some(1));
    assert_eq!(measured(&mut fleet, 3, 2000), Some(1));
    assert_eq!(measured(&mut fleet, 4, 4000), Some(1));
    assert_eq!(measured(&mut fleet, 5, 2000), Some(0));
}

#[test]
fn a_replica_whose_cache_would_overflow_is_left_out_if_another_fits() {
    let mut fleet = fleet();
    measured(&mut fleet, 1, 8000);
    fleet.load(1, 3);
    // Fewer requests on 0, but 8,000 + 5,000 - 1,000 shared would not fit there.
    let decision = fleet.route(&Request {
        prompt_bytes: 20_000,
        shared_bytes: 4000,
        ..request(2)
    });
    assert_eq!(decision.replica, Some(r(1)));
    assert_eq!(
        decision.scores.iter().map(|s| s.fits).collect::<Vec<_>>(),
        [false, true]
    );
    // Where none fits, load alone decides.
    fleet.load(1, 3);
    let huge = fleet.route(&Request {
        prompt_bytes: 80_000,
        ..request(3)
    });
    assert_eq!(huge.replica, Some(r(0)));
}

#[test]
fn shared_prefixes_are_counted_once_per_replica() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    measured(&mut fleet, 1, 3000);
    assert_eq!(committed(&fleet), [3000]);
    measured(&mut fleet, 2, 4000);
    assert_eq!(committed(&fleet), [1000 + 2000 + 3000]);
}

#[test]
fn a_shared_prefix_has_the_size_that_was_measured_last() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    measured(&mut fleet, 1, 3000);
    let decision = fleet.route(&Request {
        prompt_bytes: 16_000,
        shared_bytes: 8000,
        ..request(2)
    });
    fleet.finish(&decision);
    assert_eq!(committed(&fleet), [2000 + 2000 + 2000]);
    fleet.router.forget(identity(1).conversation);
    assert_eq!(committed(&fleet), [2000 + 2000]);
}

#[test]
fn a_prompt_fits_where_its_prefix_is_held_already_or_its_conversation_lives() {
    let mut fleet = fleet();
    measured(&mut fleet, 1, 8000);
    let fits = |fleet: &mut Fleet, session, lineage, tokens: u64| {
        let decision = fleet.route(&Request {
            lineage,
            prompt_bytes: tokens * 4,
            shared_bytes: 4000,
            ..request(session)
        });
        fleet.router.forget(identity(session).conversation);
        decision.scores[0].fits
    };
    assert!(
        fits(&mut fleet, 2, MAIN, 3000),
        "8,000 and 2,000 of its own"
    );
    assert!(!fits(&mut fleet, 3, MAIN, 3001));
    assert!(!fits(&mut fleet, 4, 99, 3000), "another prefix");
    assert!(
        fits(&mut fleet, 1, MAIN, 10_000),
        "its own 7,000 are replaced"
    );
}

#[test]
fn a_conversation_that_grows_counts_once_with_its_newest_size() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    for tokens in [2000, 3000, 4000] {
        measured(&mut fleet, 1, tokens);
    }
    assert_eq!(committed(&fleet), [4000]);
    assert_eq!(conversations(&fleet), [1]);
}

#[test]
fn the_generated_tokens_belong_to_the_context() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    let decision = fleet.begin(1);
    fleet.observe(Event::Finished(decision.ticket, Some(usage(1000, 200))));
    let view = fleet
        .router
        .conversation(fleet.now, identity(1).conversation);
    let record = view.expect("it is known").record;
    assert_eq!((record.context_tokens, record.own_tokens), (1200, 950));
}

#[test]
fn tokens_per_byte_are_learned_from_usage() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    for _ in 0..200 {
        let decision = fleet.begin(1);
        // Half a token per byte, twice the first guess.
        fleet.observe(Event::Finished(decision.ticket, Some(usage(2000, 0))));
    }
    fleet.begin(2);
    let view = fleet
        .router
        .conversation(fleet.now, identity(2).conversation);
    let tokens = view.expect("it is known").record.context_tokens;
    assert!((1990..=2000).contains(&tokens), "{tokens}");
}

#[test]
fn short_prompts_teach_nothing_since_they_are_mostly_template() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    for _ in 0..200 {
        let decision = fleet.route(&Request {
            prompt_bytes: 100,
            shared_bytes: 0,
            ..request(1)
        });
        fleet.observe(Event::Finished(decision.ticket, Some(usage(90, 0))));
    }
    fleet.begin(2);
    let view = fleet
        .router
        .conversation(fleet.now, identity(2).conversation);
    assert_eq!(view.expect("it is known").record.context_tokens, 1000);
}

#[test]
fn absurd_usage_is_no_measurement() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(100_000));
    for tokens in [0, u64::MAX] {
        let decision = fleet.begin(1);
        fleet.observe(Event::Finished(
            decision.ticket,
            Some(usage(tokens, u64::MAX)),
        ));
    }
    fleet.begin(2);
    let view = fleet
        .router
        .conversation(fleet.now, identity(2).conversation);
    assert_eq!(view.expect("it is known").record.context_tokens, 1000);
}

#[test]
fn an_idle_conversation_stops_counting_until_it_speaks_again() {
    let mut fleet = fleet();
    measured(&mut fleet, 1, 5000);
    fleet.pass(180);
    fleet.observe(Event::KvTokens(r(1), 10_000));
    assert_eq!(
        conversations(&fleet),
        [1, 0],
        "at the limit it still counts"
    );
    fleet.pass(1);
    fleet.observe(Event::KvTokens(r(1), 10_000));
    assert_eq!(
        (committed(&fleet), conversations(&fleet)),
        (vec![0, 0], vec![0, 0])
    );
    assert_eq!(
        measured(&mut fleet, 1, 5000),
        Some(0),
        "its home is not forgotten"
    );
    assert_eq!(
        (committed(&fleet), conversations(&fleet)),
        (vec![5000, 0], vec![1, 0])
    );
}

#[test]
fn a_conversation_in_flight_is_not_idle_however_long_its_reply_takes() {
    let mut fleet = fleet();
    let long: Vec<_> = (0..20).map(|session| fleet.begin(session)).collect();
    fleet.turn(20);
    assert_eq!(conversations(&fleet), [11, 10]);
    fleet.pass(7200);
    // The first to speak is one that no sweep has come to.
    assert_eq!(fleet.begin(19).route, Route::Sticky);
    for _ in 0..10 {
        fleet.observe(Event::KvTokens(r(0), 10_000));
    }
    // Nor do the busy ones keep an idle one from being found so.
    assert_eq!(conversations(&fleet), [10, 10]);
    assert_eq!(fleet.home(20), None);
    for decision in &long {
        fleet.finish(decision);
    }
    assert_eq!(fleet.home(0), Some(r(0)));
}

#[test]
fn an_engine_restart_empties_the_cache_that_was_believed_but_keeps_the_homes() {
    let mut fleet = Fleet::with(settings(Steering::Urls), 2, Some(10_000));
    measured(&mut fleet, 1, 5000);
    measured(&mut fleet, 2, 4000);
    fleet.observe(Event::EngineRestarted(r(0)));
    assert_eq!(
        (committed(&fleet), conversations(&fleet)),
        (vec![0, 4000], vec![1, 1])
    );
    assert_eq!(measured(&mut fleet, 1, 6000), Some(0));
    assert_eq!(
        (committed(&fleet), conversations(&fleet)),
        (vec![6000, 4000], vec![1, 1])
    );
}

#[test]
fn ranks_restart_together() {
    let mut fleet = fleet();
    measured(&mut fleet, 1, 5000);
    measured(&mut fleet, 2, 4000);
    fleet.observe(Event::EngineRestarted(r(1)));
    assert_eq!(committed(&fleet), [0, 0]);
}

#[test]
fn more_prefixes_than_are_told_apart_count_as_own_tokens_and_come_off_again() {
    let mut fleet = Fleet::with(settings(Steering::Ranks), 1, Some(10_000_000));
    for session in 0..40 {
        let decision = fleet.route(&Request {
            lineage: u64::from(session) + 100,
            ..request(session)
        });
        fleet.finish(&decision);
    }
    assert_eq!(committed(&fleet), [40_000]);
    for session in 0..40 {
        assert!(fleet.router.forget(identity(session).conversation));
    }
    assert_eq!(
        (committed(&fleet), conversations(&fleet)),
        (vec![0], vec![0])
    );
}

#[test]
fn kv_tokens_count_from_when_the_engine_has_told() {
    let mut fleet = Fleet::ranks(1);
    assert_eq!(fleet.turn(1).scores[0].cache_fill, None);
    fleet.observe(Event::KvTokens(r(0), 2000));
    assert_eq!(fleet.turn(1).scores[0].cache_fill, Some(0.5));
}

#[test]
fn the_engines_gauges_count_while_fresh_and_only_where_larger() {
    let mut fleet = Fleet::with(
        Settings {
            max_num_seqs: 400,
            ..settings(Steering::Ranks)
        },
        2,
        None,
    );
    fleet.load(0, 2);
    fleet.observe(Event::Scraped(r(0), gauges(1, 1)));
    fleet.observe(Event::Scraped(
        r(1),
        crate::Gauges {
            waiting: 2,
            ..gauges(1, 1)
        },
    ));
    let running = |fleet: &mut Fleet| {
        let scores = fleet.turn(1).scores;
        scores.iter().map(|score| score.running).collect::<Vec<_>>()
    };
    assert_eq!(running(&mut fleet), [2, 3]);
    fleet.pass(3);
    assert_eq!(running(&mut fleet), [2, 3]);
    fleet.pass(1);
    assert_eq!(running(&mut fleet), [2, 0]);
}
