//! `/stats`, `/requests` and `/metrics`.

use serde_json::{Value, json};

use super::{Fixture, replica, usage};

#[tokio::test]
async fn stats_add_up_what_the_engine_measured() {
    let fixture = Fixture::new();
    fixture.turn("demo", "s", Some(usage(100, 0)));
    fixture.turn("demo", "s", Some(usage(300, 200)));
    fixture.turn("Org/Other", "t", None);
    let stats = fixture.get("/api/v1/stats?range=2m&step=60s").await;
    assert_eq!(
        (&stats["range_s"], &stats["step_s"]),
        (&json!(120), &json!(60))
    );
    assert_eq!(stats["points"].as_array().unwrap().len(), 2);
    let summary = &stats["summary"];
    assert_eq!(summary["cache_hit_percent"], 50.0);
    assert_eq!(
        (&summary["requests"], &summary["unmeasured_requests"]),
        (&json!(3), &json!(1))
    );
    let other = fixture.get("/api/v1/stats?model=Org%2FOther").await;
    assert_eq!(other["summary"]["cache_hit_percent"], Value::Null);
    assert_eq!(other["points"].as_array().unwrap().len(), 60);
    assert_eq!(
        other["points"][0]["requests"],
        Value::Null,
        "a gap is no zero"
    );
}

#[tokio::test]
async fn parameters_out_of_range_are_named() {
    let fixture = Fixture::new();
    for (query, word) in [
        ("stats?range=soon", "range = \"soon\""),
        ("stats?range=", "range = \"\""),
        ("stats?range=3h&step=10s", "kept for 7200 s only"),
        ("stats?range=10d&step=15m", "a multiple of 3600 s"),
        ("stats?range=7d&step=60s", "more than 1500 steps"),
        ("stats?range=4000d&step=1d", "at most 10 years"),
        ("stats?range=99999999999999999999h", "range"),
        ("stats?range=90s&step=60s", "multiple of step"),
        ("stats?step=5s", "multiple of 10 s"),
        ("stats?step=0", "multiple of 10 s"),
        ("stats?range=10s&step=1m", "multiple of step"),
        ("requests?limit=0", "1 to 1000"),
        ("requests?limit=1001", "1001"),
        ("requests?limit=many", "limit"),
        ("requests?offset=50001", "go on with before="),
        ("requests?before=x", "of a page"),
        ("requests?sort=-colour", "-colour"),
        ("requests?route=best", "best"),
        ("requests?ended_from=-1", "epoch seconds"),
        ("conversations?limit=0", "1 to 1000"),
        ("conversations?sort=colour", "last_active"),
        ("conversations?offset=50001", "at most 50000"),
    ] {
        let answer = fixture.ask("GET", &format!("/api/v1/{query}"), "").await;
        let message = answer.error(400, "invalid");
        assert!(message.contains(word), "{query}: {message}");
    }
    for path in ["stats", "requests", "conversations"] {
        let answer = fixture
            .ask("GET", &format!("/api/v1/{path}?model=none"), "")
            .await;
        answer.error(404, "not_found");
    }
}

#[tokio::test]
async fn requests_say_where_they_went_and_why() {
    let fixture = Fixture::new();
    let home = replica(&fixture.turn("demo", "s", Some(usage(100, 0))));
    fixture.turn("demo", "s", Some(usage(300, 200)));
    fixture.turn("demo", "t", None);
    let list = fixture.get("/api/v1/requests?limit=2").await;
    let requests = list["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 2);
    let newest = &requests[0];
    assert_eq!(
        (&newest["route"], &newest["prompt_tokens"]),
        (&json!("new"), &Value::Null)
    );
    let second = &requests[1];
    assert_eq!(
        (&second["route"], &second["replica"]),
        (&json!("sticky"), &json!(home))
    );
    assert_eq!(
        (&second["cached_tokens"], &second["end"]),
        (&json!(200), &json!("complete"))
    );
    assert_eq!(second["reason"], "stays where its cache is");
    assert_eq!(second["scores"].as_array().unwrap().len(), 2);

    let session = second["session"].as_str().unwrap();
    let of_session = fixture
        .get(&format!("/api/v1/requests?session={session}&model=demo"))
        .await;
    assert_eq!(of_session["requests"].as_array().unwrap().len(), 2);
    // By the client's own word for it, too.
    for (asked, count) in [("s", 2), ("t", 1), ("s&model=demo", 2), ("u", 0)] {
        let path = format!("/api/v1/requests?session={asked}");
        let found = fixture.get(&path).await;
        assert_eq!(
            found["requests"].as_array().unwrap().len(),
            count,
            "{asked}"
        );
        assert_eq!(found["matching"], count, "{asked}");
    }
}

#[tokio::test]
async fn a_restarted_warden_goes_on_where_the_last_one_ended() {
    let fixture = Fixture::new();
    fixture.turn("demo", "s", Some(usage(100, 60)));
    fixture.turn("demo", "t", None);
    let before = fixture.get("/api/v1/requests").await;
    let change = "{\"affinity\": false, \"spill_threshold\": 5}";
    let path = "/api/v1/models/demo/routing";
    fixture.ask("PATCH", path, change).await.json();
    let fixture = fixture.restart();
    let after = fixture.get("/api/v1/requests").await;
    assert_eq!(after, before);
    let summary = &fixture.get("/api/v1/stats").await["summary"];
    assert_eq!(
        (&summary["requests"], &summary["cache_hit_percent"]),
        (&json!(2), &json!(60.0))
    );
    let marks = &fixture.get("/api/v1/stats?model=demo").await["marks"];
    assert_eq!(marks[0]["kind"], "setting_changed");
    assert_eq!(marks[0]["text"], "affinity off, spill threshold 5");
    let other = fixture.get("/api/v1/stats?model=Org%2FOther").await;
    assert_eq!(other["marks"], json!([]));
}

#[tokio::test]
async fn a_list_is_filtered_ordered_and_paged() {
    let fixture = Fixture::new();
    for session in ["a", "b", "c"] {
        fixture.turn("demo", session, Some(usage(100, 0)));
        fixture.turn("demo", session, Some(usage(300, 200)));
    }
    let sticky = fixture.get("/api/v1/requests?route=sticky&q=CACHE").await;
    assert_eq!(
        (&sticky["matching"], &sticky["next"]),
        (&json!(3), &Value::Null)
    );
    let sorted = fixture
        .get("/api/v1/requests?sort=prompt_tokens&limit=4&offset=1")
        .await;
    let prompts: Vec<_> = sorted["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["prompt_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(prompts, [100, 100, 300, 300]);
    let first = fixture.get("/api/v1/requests?limit=4").await;
    let next = first["next"].as_str().unwrap();
    let rest = fixture
        .get(&format!("/api/v1/requests?limit=4&before={next}"))
        .await;
    assert_eq!(rest["requests"].as_array().unwrap().len(), 2);
    assert_eq!(rest["next"], Value::Null);
}

#[tokio::test]
async fn the_history_says_how_it_fares() {
    let fixture = Fixture::new();
    fixture.turn("demo", "s", None);
    fixture.get("/api/v1/requests").await;
    let state = fixture.get("/api/v1/history").await;
    assert_eq!(
        (&state["writable"], &state["written"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(
        (&state["dropped"], &state["waiting"]),
        (&json!(0), &json!(0))
    );
    let text = fixture.ask("GET", "/metrics", "").await.body;
    let text = std::str::from_utf8(&text).unwrap();
    for line in [
        "lm_warden_history_writable 1",
        "lm_warden_history_written_total 1",
        "lm_warden_history_dropped_total 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn metrics_are_the_contracts() {
    let fixture = Fixture::new();
    let home = replica(&fixture.turn("demo", "s", Some(usage(100, 60))));
    let answer = fixture.ask("GET", "/metrics", "").await;
    assert!(
        answer.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let text = std::str::from_utf8(&answer.body).unwrap();
    for line in [
        &format!(
            "lm_warden_requests_total{{model=\"demo\",replica=\"{home}\",route=\"new\",status=\"200\"}} 1"
        ),
        &format!("lm_warden_conversations{{model=\"demo\",replica=\"{home}\"}} 1"),
        "lm_warden_in_flight{model=\"demo\",replica=\"0\"} 0",
        "lm_warden_replica_up{model=\"Org/Other\",replica=\"2\"} 0",
        "lm_warden_prompt_tokens_total{model=\"demo\",source=\"cached\"} 60",
        "lm_warden_prompt_tokens_total{model=\"demo\",source=\"computed\"} 40",
        "lm_warden_completion_tokens_total{model=\"demo\"} 10",
        "lm_warden_ttfb_seconds_bucket{model=\"demo\",le=\"+Inf\"} 1",
        "lm_warden_ttfb_seconds_count{model=\"demo\"} 1",
        "lm_warden_queue_seconds_count{model=\"demo\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}
