//! What the commands print.

use super::{claude::as_shell, status::render, *};

fn models() -> api::Models {
    let replica = |replica, state| api::Replica {
        replica,
        state,
        in_flight: 3,
        new: 2,
        sticky: 14,
        spilled_in: 1,
        moved_in: 0,
        client_pinned: 0,
        running: Some(3),
        waiting: None,
        kv_cache_usage: Some(0.5),
        prefix_cache_hit_rate: None,
        engine_counters: None,
        conversations: 2,
        committed_tokens: 12_000,
        kv_tokens: Some(40_000),
        scrape_age_ms: Some(if replica == 0 { 400 } else { 9_100 }),
    };
    api::Models {
        version: "0.1.0".to_owned(),
        started: 1_800_000_000.0,
        uptime_s: 90.0,
        models: vec![api::Model {
            name: "demo".to_owned(),
            aliases: vec!["claude-*".to_owned()],
            state: api::ModelState::Degraded,
            state_since: 0.0,
            state_reason: Some("replica 1 out".to_owned()),
            engine: api::Engine {
                kind: api::EngineKind::Simulated,
                model: None,
                version: None,
                started: None,
                max_model_len: None,
                max_num_seqs: 32,
                responses_steerable: false,
            },
            alarm: None,
            throughput: api::Throughput {
                span_s: Some(10.0),
                prompt_tokens_cached_per_s: Some(15_000.4),
                prompt_tokens_computed_per_s: None,
                completion_tokens_per_s: Some(0.0),
            },
            routing: api::Routing {
                affinity: true,
                spill_threshold: api::SpillThreshold {
                    value: 8,
                    source: api::ThresholdSource::Auto,
                },
                leases: api::Leases::default(),
                sticky_percent: None,
                in_flight: 6,
                balanced: 0,
                counters_since: 0.0,
                working_set: api::WorkingSet {
                    conversations: 3,
                    tokens: 30_000,
                    kv_tokens: Some(20_000),
                    fill: Some(1.5),
                    conversations_fit: Some(2),
                    is_over: true,
                },
                replicas: vec![
                    replica(0, api::ReplicaState::Up),
                    replica(1, api::ReplicaState::Down),
                ],
            },
        }],
    }
}

#[test]
fn the_panel_shows_what_is_unknown_as_a_dash_and_what_is_old_as_old() {
    insta::assert_snapshot!(render(&models(), false), @r"
    demo  degraded: replica 1 out
    Affinity on · Spill threshold 8 (auto) · Sticky – · In flight 6 · Balanced 0
    replica           state  in flight  new  sticky  spilled in  moved in  pinned  running  waiting  KV used  hit rate  conv.  own/KV tokens
          0              up          3    2      14           1         0       0        3        –   50.0 %         –      2    12000/40000
          1  down (9 s old)          3    2      14           1         0       0        3        –   50.0 %         –      2    12000/40000
    Now: 15000 prompt tokens/s cached, – computed, 0 completion tokens/s
    Working set: 3 conversations, 30000 of 20000 KV tokens (150.0 %); 2 such conversations fit: past it, turns are read again
    Leases: off
    ");
}

#[test]
fn the_panel_says_that_the_machine_is_full_and_for_how_long() {
    let mut models = models();
    let leases = &mut models.models[0].routing.leases;
    *leases = api::Leases {
        state: api::LeasesState::Contended,
        contended: true,
        waiting: 12,
        holding: 9,
        oldest_wait_s: Some(31.4),
        predicted_wait_s: 42.6,
        ..api::Leases::default()
    };
    let text = render(&models, false);
    let last = text.lines().last().unwrap();
    assert_eq!(
        last,
        "The machine is full: 9 hold a place, 12 wait for one, the longest for 31 s; \
         a new conversation would wait about 43 s"
    );
}

#[test]
fn colour_only_paints() {
    let painted = render(&models(), true);
    assert!(painted.contains("\u{1b}[33mdegraded\u{1b}[0m"));
    let codes = ["\u{1b}[33m", "\u{1b}[1m", "\u{1b}[0m"];
    let plain = codes
        .iter()
        .fold(painted, |text, code| text.replace(code, ""));
    assert_eq!(plain, render(&models(), false));
}

#[test]
fn shell_lines_survive_any_value() {
    let lines = as_shell(&[
        ("A", "http://127.0.0.1:8484".to_owned()),
        ("B", String::new()),
        ("C", "it's $HOME `x`".to_owned()),
    ]);
    assert_eq!(
        lines,
        "export A=http://127.0.0.1:8484\nexport B=''\nexport C='it'\\''s $HOME `x`'\n"
    );
}

#[test]
fn a_url_that_cannot_be_a_wardens_is_refused() {
    for url in [
        "",
        "127.0.0.1:8484",
        "https://",
        "http://a/x",
        "http://a?b",
        "ftp://a",
    ] {
        assert!(
            matches!(Client::new(url, None, None), Err(ClientError::Url { .. })),
            "{url}"
        );
    }
    assert_eq!(
        Client::new("http://a:1/", None, None).unwrap().url(),
        "http://a:1"
    );
}
