//! Operators' changes over restarts.

use std::fs;

use super::{Fixture, TWO_MODELS};

const PATH: &str = "/api/v1/models/demo/routing";

async fn routing(fixture: &Fixture) -> (bool, u64, String) {
    let model = fixture.get("/api/v1/models/demo").await;
    let routing = &model["routing"];
    (
        routing["affinity"].as_bool().unwrap(),
        routing["spill_threshold"]["value"].as_u64().unwrap(),
        routing["spill_threshold"]["source"]
            .as_str()
            .unwrap()
            .to_owned(),
    )
}

#[tokio::test]
async fn a_change_survives_a_restart_until_the_configuration_is_edited() {
    let before = Fixture::new();
    before
        .ask(
            "PATCH",
            PATH,
            r#"{"affinity": false, "spill_threshold": 5}"#,
        )
        .await
        .json();

    let after = Fixture::with(TWO_MODELS, before.directory);
    assert_eq!(routing(&after).await, (false, 5, "set".to_owned()));

    // The edit is the younger word on the threshold; affinity was not edited.
    let edited = TWO_MODELS.replacen(
        "max_num_seqs = 32\n",
        "max_num_seqs = 32\n[models.routing]\nspill_threshold = 9\n",
        1,
    );
    let edited = Fixture::with(&edited, after.directory);
    assert_eq!(routing(&edited).await, (false, 9, "set".to_owned()));
}

#[tokio::test]
async fn leases_and_their_turns_are_changed_and_kept_like_the_threshold() {
    let before = Fixture::new();
    let leases = |routing: &serde_json::Value| {
        let leases = &routing["leases"];
        let turns = &leases["turns"];
        (
            leases["mode"].clone(),
            leases["state"].clone(),
            turns.clone(),
        )
    };
    let model = before.get("/api/v1/models/demo").await;
    let auto = serde_json::json!({"value": 3, "set": false});
    let unknown = "kv_tokens_unknown";
    assert_eq!(
        leases(&model["routing"]),
        ("auto".into(), unknown.into(), auto)
    );
    let changed = r#"{"leases": "off", "lease_turns": 7}"#;
    let answer = before.ask("PATCH", PATH, changed).await.json();
    let seven = serde_json::json!({"value": 7, "set": true});
    assert_eq!(leases(&answer), ("off".into(), "off".into(), seven.clone()));

    let edited = TWO_MODELS.replacen(
        "max_num_seqs = 32\n",
        "max_num_seqs = 32\n[models.routing]\nlease_turns = 9\n",
        1,
    );
    for (config, turns) in [(TWO_MODELS, 7), (&edited, 9)] {
        let after = Fixture::with(config, tempfile::tempdir().unwrap());
        std::fs::copy(
            before.directory.path().join("routing.json"),
            after.directory.path().join("routing.json"),
        )
        .unwrap();
        let after = Fixture::with(config, after.directory);
        let model = after.get("/api/v1/models/demo").await;
        assert_eq!(model["routing"]["leases"]["mode"], "off");
        assert_eq!(model["routing"]["leases"]["turns"]["value"], turns);
    }
}

#[tokio::test]
async fn of_changes_at_the_same_time_the_one_in_force_is_kept() {
    let mut fixture = Fixture::new();
    for _ in 0..10 {
        let set = |threshold: u8| format!(r#"{{"spill_threshold": {threshold}}}"#);
        let (two, three, four) = (set(2), set(3), set(4));
        tokio::join!(
            fixture.ask("PATCH", PATH, &two),
            fixture.ask("PATCH", PATH, &three),
            fixture.ask("PATCH", PATH, &four),
        );
        let in_force = routing(&fixture).await;
        fixture = Fixture::with(TWO_MODELS, fixture.directory);
        assert_eq!(routing(&fixture).await, in_force);
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_saved_is_in_force_and_says_so() {
    let fixture = Fixture::new();
    // As good as a full disk: where the file should be written stands a directory.
    fs::create_dir(fixture.directory.path().join("routing.new")).unwrap();
    let answer = fixture.ask("PATCH", PATH, r#"{"affinity": false}"#).await;
    let message = answer.error(500, "not_saved");
    assert!(
        message.contains("in force") && message.contains("restart"),
        "{message}"
    );
    assert!(!routing(&fixture).await.0);
    fs::remove_dir(fixture.directory.path().join("routing.new")).unwrap();
    fixture
        .ask("PATCH", PATH, r#"{"affinity": false}"#)
        .await
        .json();
    let after = Fixture::with(TWO_MODELS, fixture.directory);
    assert!(!routing(&after).await.0);
}
