//! Figures over time.

use super::*;

fn stats(file: &File, range_s: u64, step_s: u64, model: Option<&str>) -> api::Stats {
    query(range_s, step_s, model).ask(&file.reader()).unwrap()
}

/// As asked 11 seconds after the third minute.
fn query(range_s: u64, step_s: u64, model: Option<&str>) -> StatsQuery {
    StatsQuery {
        now: Time((START_S + 191) * 1_000_000),
        range_s,
        step_s,
        model: model.map(str::to_owned),
    }
}

fn unmeasured(number: u64, ms: u64) -> api::Request {
    api::Request {
        prompt_tokens: None,
        cached_tokens: None,
        completion_tokens: None,
        ..request(number, ms)
    }
}

fn refused(number: u64, ms: u64) -> api::Request {
    api::Request {
        route: None,
        ttfb_ms: None,
        end: Some(RequestEnd::Refused),
        ..unmeasured(number, ms)
    }
}

#[test]
fn cached_is_what_was_measured_and_a_gap_is_null() {
    let without_cached = api::Request {
        prompt_tokens: Some(50),
        cached_tokens: None,
        ..request(2, 10)
    };
    let file = File::with([
        request(1, 0),
        without_cached,
        unmeasured(3, 20),
        request(4, 185_000),
        refused(5, 186_000),
    ]);
    let stats = stats(&file, 240, 60, Some("demo"));
    let figures: Vec<_> = stats
        .points
        .iter()
        .map(|point| {
            (
                point.prompt_tokens_cached,
                point.prompt_tokens_computed,
                point.requests,
                point.unmeasured_requests,
            )
        })
        .collect();
    assert_eq!(
        figures,
        [
            (Some(75), Some(75), Some(3), Some(1)),
            (None, None, None, None),
            (None, None, None, None),
            (Some(75), Some(25), Some(2), Some(0)),
        ]
    );
    let first = &stats.points[0];
    assert!((first.t - START_S as f64).abs() < 1e-6);
    assert_eq!(first.prompt_tokens_cached_per_s, Some(75.0 / 60.0));
    assert_eq!(stats.points[1].prompt_tokens_cached_per_s, None);
    let ttfb = first.ttfb_ms_p50.unwrap();
    assert!((39.0..41.0).contains(&ttfb), "{ttfb}");
    assert_eq!(stats.points[1].ttfb_ms_p50, None);
    assert_eq!(stats.summary.cache_hit_percent, Some(100.0 * 150.0 / 250.0));
    assert_eq!(stats.summary.requests, 5);
    let routes: Vec<_> = stats
        .summary
        .routes
        .iter()
        .map(|route| (route.route, route.requests))
        .collect();
    assert_eq!(routes, [(Some(Route::Sticky), 4), (None, 1)]);
}

#[test]
fn every_step_tells_the_same_sums_and_models_are_told_apart() {
    let other = |number, ms| api::Request {
        model: Some("other".to_owned()),
        ..request(number, ms)
    };
    let unknown = api::Request {
        model: None,
        ..refused(9, 0)
    };
    let file = File::with([request(1, 0), other(2, 70_000), other(3, 70_001), unknown]);
    for (range_s, step_s) in [(600, 10), (600, 60), (3600, 300), (7200, 3600)] {
        let all = stats(&file, range_s, step_s, None);
        assert_eq!(all.points.len() as u64, range_s / step_s);
        let sum: u64 = all.points.iter().filter_map(|point| point.requests).sum();
        assert_eq!((sum, all.summary.requests), (4, 4), "steps of {step_s} s");
        let demo = stats(&file, range_s, step_s, Some("demo"));
        assert_eq!(demo.summary.requests, 1);
    }
}

#[test]
fn batches_add_up_in_the_same_bucket() {
    let mut file = File::with([request(1, 0), request(2, 1)]);
    let slow = api::Request {
        ttfb_ms: Some(4_000.0),
        total_ms: Some(5_000.0),
        ..request(3, 2)
    };
    file.store.write(&batch([slow])).unwrap();
    let stats = stats(&file, 240, 60, None);
    assert_eq!(stats.summary.requests, 3);
    let p95 = stats.summary.ttfb_ms_p95.unwrap();
    assert!((3_900.0..4_100.0).contains(&p95), "{p95}");
    let p50 = stats.summary.ttfb_ms_p50.unwrap();
    assert!((39.0..41.0).contains(&p50), "{p50}");
}

#[test]
fn marks_are_those_of_the_range_the_model_and_the_warden() {
    let mut file = File::with([]);
    let mark = |t: u64, model: Option<&str>, text: &str| api::Mark {
        t: (START_S + t) as f64,
        kind: api::MarkKind::SettingChanged,
        model: model.map(str::to_owned),
        text: text.to_owned(),
    };
    let marks = vec![
        mark(0, None, "before"),
        mark(100, None, "warden's"),
        mark(101, Some("demo"), "demo's"),
        mark(102, Some("other"), "other's"),
    ];
    let ended = Vec::new();
    file.store.write(&Batch { ended, marks }).unwrap();
    let texts = |model| -> Vec<String> {
        let stats = stats(&file, 180, 60, model);
        stats.marks.into_iter().map(|mark| mark.text).collect()
    };
    assert_eq!(texts(Some("demo")), ["warden's", "demo's"]);
    assert_eq!(texts(None), ["warden's", "demo's", "other's"]);
}

#[test]
fn a_question_is_answered_from_the_roll_ups_by_their_key() {
    let file = File::with([request(1, 0)]);
    let connection = file.reader();
    for (range_s, step_s) in [
        (900, 10),
        (3600, 60),
        (21_600, 300),
        (86_400, 900),
        (604_800, 3600),
    ] {
        for model in [None, Some("demo")] {
            let plan = query(range_s, step_s, model).plan(&connection).unwrap();
            assert_eq!(
                plan, "SEARCH rollups USING PRIMARY KEY (step_s=? AND t_s>? AND t_s<?)",
                "{range_s} s in steps of {step_s} s"
            );
        }
    }
}
