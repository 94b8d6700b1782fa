//! Models, the routing panel, its settings, and draining.

use serde_json::{Value, json};

use super::{Fixture, replica};

#[tokio::test]
async fn what_is_not_known_yet_is_null_and_never_zero() {
    let fixture = Fixture::new();
    let model = fixture.get("/api/v1/models/demo").await;
    assert_eq!(model["state"], "loading");
    assert!(model["state_reason"].as_str().is_some());
    for key in ["model", "version", "max_model_len"] {
        assert_eq!(model["engine"][key], Value::Null, "{key}");
    }
    let routing = &model["routing"];
    assert_eq!(routing["sticky_percent"], Value::Null);
    assert_eq!(
        routing["spill_threshold"],
        json!({"value": 8, "source": "auto"})
    );
    let replica = &routing["replicas"][1];
    assert_eq!(
        (&replica["replica"], &replica["state"]),
        (&json!(1), &json!("down"))
    );
    for key in [
        "running",
        "waiting",
        "kv_cache_usage",
        "prefix_cache_hit_rate",
        "engine_counters",
        "kv_tokens",
        "scrape_age_ms",
    ] {
        assert_eq!(replica.get(key), Some(&Value::Null), "{key}");
    }
    for key in [
        "in_flight",
        "new",
        "sticky",
        "spilled_in",
        "moved_in",
        "client_pinned",
        "conversations",
    ] {
        assert_eq!(replica[key], 0, "{key}");
    }
}

#[tokio::test]
async fn models_are_listed_in_the_configurations_order_and_found_by_any_name() {
    let fixture = Fixture::new();
    let list = fixture.get("/api/v1/models").await;
    let names: Vec<&Value> = list["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["name"])
        .collect();
    assert_eq!(names, ["demo", "Org/Other"]);
    let one = fixture.get("/api/v1/models/Org%2FOther").await;
    assert_eq!(one["routing"]["replicas"].as_array().unwrap().len(), 3);
    let missing = fixture.ask("GET", "/api/v1/models/none", "").await;
    assert!(missing.error(404, "not_found").contains("\"none\""));
}

#[tokio::test]
async fn the_panel_counts_what_went_where() {
    let fixture = Fixture::new();
    let home = replica(&fixture.turn("demo", "s", None));
    fixture.turn("demo", "s", None);
    let model = fixture.get("/api/v1/models/demo").await;
    let row = &model["routing"]["replicas"][usize::from(home)];
    assert_eq!(
        (&row["new"], &row["sticky"], &row["conversations"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(model["routing"]["sticky_percent"], 100.0);
    assert_eq!(model["routing"]["in_flight"], 0);
}

#[tokio::test]
async fn a_change_of_routing_counts_from_the_next_request_on() {
    let fixture = Fixture::new();
    fixture.turn("demo", "s", None);
    let path = "/api/v1/models/demo/routing";
    let answer = fixture
        .ask("PATCH", path, r#"{"affinity": false}"#)
        .await
        .json();
    assert_eq!(
        (&answer["affinity"], &answer["spill_threshold"]["source"]),
        (&json!(false), &json!("auto"))
    );
    assert_eq!(fixture.turn("demo", "s", None).route.as_str(), "balanced");
    let answer = fixture
        .ask("PATCH", path, r#"{"affinity": true, "spill_threshold": 3}"#)
        .await
        .json();
    assert_eq!(
        answer["spill_threshold"],
        json!({"value": 3, "source": "set"})
    );
    assert_eq!(answer["balanced"], 1);
    assert_eq!(fixture.turn("demo", "s", None).route.as_str(), "sticky");
    let answer = fixture
        .ask("PATCH", path, r#"{"spill_threshold": "auto"}"#)
        .await
        .json();
    assert_eq!(
        answer["spill_threshold"],
        json!({"value": 8, "source": "auto"})
    );
    let other = fixture.get("/api/v1/models/Org%2FOther").await;
    assert_eq!(other["routing"]["affinity"], true);
}

#[tokio::test]
async fn a_bad_change_changes_nothing_and_says_what_is_taken() {
    let fixture = Fixture::new();
    let path = "/api/v1/models/demo/routing";
    for (body, word) in [
        ("", "JSON object"),
        ("[]", "JSON object"),
        ("{\"affinity\": \"yes\"}", "affinity"),
        (
            "{\"affinity\": false, \"spill_threshold\": 0}",
            "1 to 65536",
        ),
        (
            "{\"affinity\": false, \"spill_threshold\": -1}",
            "spill_threshold",
        ),
        ("{\"affinity\": false, \"spill_threshold\": 70000}", "70000"),
        (
            "{\"affinity\": false, \"spill_threshold\": \"never\"}",
            "spill_threshold must be \"auto\" or a whole number",
        ),
        ("{\"affinity\": false, \"leases\": \"on\"}", "leases"),
        ("{\"affinity\": false, \"lease_turns\": 0}", "1 to 10000"),
        (
            "{\"affinity\": false, \"lease_turns\": \"many\"}",
            "lease_turns must be \"auto\" or a whole number",
        ),
    ] {
        let message = fixture.ask("PATCH", path, body).await.error(400, "invalid");
        assert!(message.contains(word), "{body}: {message}");
    }
    let large = fixture.ask("PATCH", path, &" ".repeat(70_000)).await;
    assert!(large.error(413, "too_large").contains("65536 bytes"));
    let missing = fixture
        .ask("PATCH", "/api/v1/models/none/routing", "{}")
        .await;
    missing.error(404, "not_found");
    let model = fixture.get("/api/v1/models/demo").await;
    assert_eq!(model["routing"]["affinity"], true);
}

#[tokio::test]
async fn a_drained_replica_gives_its_conversations_away_when_they_speak() {
    let fixture = Fixture::new();
    let home = replica(&fixture.turn("demo", "s", None));
    let path = |action: &str| format!("/api/v1/models/demo/replicas/{home}/{action}");
    let answer = fixture.ask("POST", &path("drain"), "").await.json();
    assert_eq!(answer["replicas"].as_array().unwrap().len(), 2);
    let moved = fixture.turn("demo", "s", None);
    assert_eq!((moved.route.as_str(), replica(&moved)), ("moved", 1 - home));
    fixture.ask("POST", &path("undrain"), "").await.json();
    assert_eq!(fixture.turn("demo", "s", None).route.as_str(), "sticky");

    let message = fixture
        .ask("POST", "/api/v1/models/demo/replicas/2/drain", "")
        .await;
    assert!(message.error(404, "not_found").contains("0 to 1"));
    for bad in ["x", "-1", "70000"] {
        let path = format!("/api/v1/models/demo/replicas/{bad}/drain");
        let message = fixture.ask("POST", &path, "").await.error(404, "not_found");
        assert!(message.contains(&path), "{message}");
    }
}

#[tokio::test]
async fn a_drained_model_is_not_said_to_be_ready() {
    let fixture = Fixture::new();
    let model = fixture.fleet.get("demo").unwrap();
    for replica in 0..2 {
        model.answered(replica, Ok(()));
    }
    let state = async |what: &str| {
        let path = format!("/api/v1/models/demo/{what}");
        fixture.ask("POST", &path, "").await.json()["state"].clone()
    };
    assert_eq!(state("start").await, "ready");
    assert_eq!(state("drain").await, "degraded");
    let model = fixture.get("/api/v1/models/demo").await;
    let why = model["state_reason"].as_str().unwrap();
    assert!(why.contains("until it is started"), "{why}");
    assert_eq!(state("start").await, "ready");
    let stop = fixture.ask("POST", "/api/v1/models/demo/stop", "").await;
    let message = stop.error(400, "invalid");
    assert!(message.contains("runs elsewhere"), "{message}");
}
