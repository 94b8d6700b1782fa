//! What `simulate` accepts and refuses, and what its tables and files say.

use super::*;
use crate::results::Results;

fn request(workload: &str) -> RunRequest {
    RunRequest {
        workload: workload.to_owned(),
        sessions: vec![4],
        stage: Some("30s".to_owned()),
        seeds: 2,
        ..RunRequest::default()
    }
}

fn text(request: &RunRequest) -> Result<String, SimulateError> {
    let mut out = Vec::new();
    run(request, &mut out, &|_| {})?;
    Ok(String::from_utf8(out).unwrap())
}

fn error(change: impl FnOnce(&mut RunRequest)) -> String {
    let mut request = request("published");
    change(&mut request);
    text(&request).unwrap_err().to_string()
}

#[test]
fn a_published_run_stands_beside_the_published_table_and_in_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.json");
    let request = RunRequest {
        json: Some(path.clone()),
        bounds: true,
        ..request("published")
    };
    let out = text(&request).unwrap();
    assert!(
        out.contains("balanced beside the published \"off\""),
        "{out}"
    );
    assert!(out.contains("5886"), "{out}");
    let results: Results = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(results.cells.len(), 3);
    let cell = &results.cells[2];
    assert_eq!(
        (cell.policy.as_str(), cell.sessions, cell.runs),
        ("affinity", 4, 2)
    );
    for name in [
        "output_tokens_per_min",
        "ttfb_s_p95",
        "own_hit_percent",
        "censored",
        "bound_prefix_hit_percent",
    ] {
        assert!(
            cell.mean(name).is_some() && cell.sd(name).is_some(),
            "{name}"
        );
    }
    assert_eq!(
        results.settings["profile"]["sources"]["weights_read_ms"][0],
        "roofline"
    );
}

/// The cells that the model is expected to reach, among them hits at 24 sessions, which no fit has seen.
#[test]
fn the_promised_cells_of_the_published_table_are_met() {
    let found = results(
        &RunRequest {
            workload: "published".to_owned(),
            sessions: vec![4, 8, 16, 24],
            policies: vec!["balanced".to_owned(), "affinity-gauge".to_owned()],
            seeds: 12,
            ..RunRequest::default()
        },
        &|_| {},
    )
    .unwrap();
    let mut promised = 0;
    for cell in &found.cells {
        let policy = sim::policy::PolicyKind::named(&cell.policy).unwrap();
        for (figure, off, most) in compare::deviations(policy, cell) {
            promised += 1;
            let (policy, sessions) = (&cell.policy, cell.sessions);
            assert!(
                off.abs() <= most,
                "{policy}, {sessions}, {figure}: {off:.1}, at most {most}"
            );
        }
    }
    assert_eq!(promised, 8 + 6);
}

#[test]
fn a_run_is_the_same_on_any_number_of_cores() {
    assert_eq!(
        text(&request("published")).unwrap(),
        text(&request("published")).unwrap()
    );
}

#[test]
fn a_sweep_of_the_spill_threshold_prints_one_table_each() {
    let sweep = RunRequest {
        spill_thresholds: vec![4, 16],
        ..request("published")
    };
    let out = text(&sweep).unwrap();
    assert!(out.contains("Spill threshold 4\n") && out.contains("Spill threshold 16\n"));
}

#[test]
fn the_farm_is_shown_over_time() {
    let out = text(&RunRequest {
        sessions: vec![26],
        ..request("farm")
    })
    .unwrap();
    assert!(out.contains("hash, 26 sessions, over time"), "{out}");
}

#[test]
fn recorded_shapes_are_replayed_and_their_faults_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shapes.csv");
    let workload = format!("trace:{}", path.display());
    let missing = text(&request(&workload)).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read"), "{missing}");
    std::fs::write(
        &path,
        "trace,in,out,cached_ideal,think_time\na,900,7,0,0\na,9x,7,0,0\n",
    )
    .unwrap();
    let malformed = text(&request(&workload)).unwrap_err().to_string();
    assert!(malformed.ends_with("line 3, column \"in\": \"9x\" is not a whole number"));
    std::fs::write(
        &path,
        "trace,in,out,cached_ideal,think_time\na,900,7,0,0\na,990,7,0,0\n",
    )
    .unwrap();
    assert!(text(&request(&workload)).unwrap().contains("balanced"));
}

#[test]
fn every_wrong_option_is_answered_with_what_is_possible() {
    assert!(
        error(|r| r.profile = Some("gtx".into())).contains("unknown profile \"gtx\": known are")
    );
    assert!(error(|r| r.policies = vec!["best".into()]).contains("known are balanced, hash"));
    assert!(
        error(|r| r.workload = "trace:".into()).contains("published, farm, rate and trace:FILE")
    );
    assert!(error(|r| r.stage = Some("3".into())).contains("--stage \"3\""));
    assert!(error(|r| r.balancer = Some("x".into())).contains("vllm-0.26 and vllm-0.27"));
    assert!(error(|r| r.api_servers = Some(0)).contains("--api-servers \"0\""));
    assert!(error(|r| r.kv_tokens = Some(3)).contains("kv_tokens = 3 is impossible"));
    assert!(error(|r| r.kv_tokens = Some(8000)).contains("never fits a replica"));
    assert!(error(|r| r.sessions = vec![0]).contains("--sessions \"0\""));
    assert!(error(|r| r.seeds = 0).contains("--seeds \"0\""));
    assert!(error(|r| r.replicas = Some(0)).contains("--replicas"));
    assert!(error(|r| r.round_trip_ms = Some(-1.0)).contains("--round-trip-ms"));
}

#[test]
fn a_plan_answers_by_the_rule_and_by_simulation() {
    let mut out = Vec::new();
    let request = PlanRequest {
        profile: "rtx-5090-27b".into(),
        replicas: 1,
        context: "58k".into(),
        sessions: 4,
        kv_tokens: None,
        seeds: 1,
        as_json: true,
    };
    plan(&request, &mut out, &|_| {}).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(answer["sessions_by_rule"], 2);
    assert_eq!(answer["fits_by_rule"], false);
    assert!(answer["cells"].as_array().unwrap().len() >= 4);
    // 4 sessions of 58,000 tokens of 64 KiB, and a quarter more.
    assert_eq!(answer["host_gib_per_replica"], 18);
    let relief = answer["relief"].as_array().unwrap();
    let own = |row: usize| relief[row]["cell"]["own_hit_percent"].as_f64().unwrap();
    assert_eq!(relief[1]["cell"]["policy"], "leases");
    assert_eq!(relief[2]["host_gib_per_replica"], 18);
    assert!(
        own(2) > own(0) + 5.0,
        "host memory brings back what was evicted: {relief:?}"
    );
    let bad = PlanRequest {
        context: "many".into(),
        ..request
    };
    let error = plan(&bad, &mut Vec::new(), &|_| {})
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("--context \"many\""), "{error}");
}
