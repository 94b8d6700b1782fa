//! The recordings of vLLM's scheduler are reproduced, and a difference is told.

use super::*;
use std::path::PathBuf;

/// Two requests of one root on a pool of 7 blocks: the second hits what the first registers in the
/// same step, and its output takes the last free block.
const SMALL: &str = r#"{
  "num_blocks": 8, "block_size": 4, "max_num_batched_tokens": 32, "max_num_seqs": 4,
  "max_model_len": 64,
  "steps": [
    {"add": [{"id": "a", "prompt": [["root", 8], ["x", 1]], "max_tokens": 2},
             {"id": "b", "prompt": [["root", 8], ["y", 3]], "max_tokens": 4}],
     "scheduled": [["a", 9], ["b", 3]], "running": ["a", "b"], "waiting": 0, "preempted": [],
     "free_blocks": 3, "sampled": ["a", "b"], "stopped": [], "finished": []},
    {"add": [],
     "scheduled": [["a", 1], ["b", 1]], "running": ["a", "b"], "waiting": 0, "preempted": [],
     "free_blocks": 3, "sampled": ["a", "b"], "stopped": ["b"], "finished": ["a", "b"]}
  ],
  "cached_tokens_at_admission": {"a": 0, "b": 8},
  "final_free_order": [3, 5, 6, 7, 4, 2, 1]
}"#;

#[test]
fn a_faithful_recording_has_no_difference() {
    let report = check(SMALL).unwrap();
    assert_eq!(
        report,
        Report {
            steps: 2,
            differing_steps: 0,
            first: None
        }
    );
}

#[test]
fn every_field_of_a_step_is_compared() {
    for (field, from, to) in [
        (
            "scheduled",
            r#"[["a", 1], ["b", 1]]"#,
            r#"[["b", 1], ["a", 1]]"#,
        ),
        (
            "running",
            r#""running": ["a", "b"], "waiting": 0, "preempted": [],
     "free_blocks": 3, "sampled": ["a", "b"], "stopped": ["b"]"#,
            r#""running": ["a"], "waiting": 0, "preempted": [],
     "free_blocks": 3, "sampled": ["a", "b"], "stopped": ["b"]"#,
        ),
        (
            "finished",
            r#""finished": ["a", "b"]"#,
            r#""finished": ["b", "a"]"#,
        ),
        ("cached_tokens_at_admission", r#""b": 8"#, r#""b": 4"#),
        ("final_free_order", "[3, 5, 6", "[3, 6, 5"),
    ] {
        let changed = SMALL.replace(from, to);
        assert_ne!(changed, SMALL, "{field}");
        let first = check(&changed).unwrap().first.expect(field);
        assert_eq!(
            first.fields.iter().map(|f| f.field).collect::<Vec<_>>(),
            [field]
        );
    }
    for (field, from, to) in [
        ("waiting", r#""waiting": 0"#, r#""waiting": 1"#),
        ("preempted", r#""preempted": []"#, r#""preempted": ["a"]"#),
        ("free_blocks", r#""free_blocks": 3"#, r#""free_blocks": 4"#),
    ] {
        let report = check(&SMALL.replace(from, to)).unwrap();
        assert_eq!(report.differing_steps, 2);
        assert_eq!(report.first.unwrap().fields[0].field, field);
    }
}

#[test]
fn what_is_no_recording_is_named_with_line_and_column() {
    let error = check("{\n  \"steps\": 3}").unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
    let unknown = SMALL.replace(r#""sampled": ["a", "b"]"#, r#""sampled": ["a", "z"]"#);
    let error = check(&unknown).unwrap_err().to_string();
    assert_eq!(error, r#"step 0: request "z" was never added"#);
}

/// The recordings of vLLM 0.26.0 that lie beside the repository, where they do.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
fn recorded_runs_of_vllm_replay_without_a_difference() {
    let shared = std::env::var_os("LM_WARDEN_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let directory = shared.join("vllm-traces");
    let Ok(entries) = std::fs::read_dir(&directory) else {
        eprintln!("SKIPPED: no recordings at {}", directory.display());
        return;
    };
    let mut recordings = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let report = check(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert!(report.is_equal(), "{}: {report:#?}", path.display());
            assert!(report.steps > 0, "{}", path.display());
            recordings += 1;
        }
    }
    assert!(recordings > 0, "no recording in {}", directory.display());
}
