//! `lm-warden check`, and that `serve` refuses what it refuses.

use std::fs;

use crate::support::{CONFIG, binary, run, stderr, stdout};

#[test]
fn a_bad_configuration_is_refused_by_check_and_serve_alike() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("warden.toml");
    let file = path.to_str().unwrap();
    for (text, words) in [
        ("", &["models", "missing"][..]),
        ("[[models]", &["line 1"]),
        ("[server]\nport = 1\n", &["unknown field `port`", "listen"]),
        (
            "[server]\nlisten = \"0.0.0.0:8484\"\n[auth]\nrequired = false\n",
            &["auth.required", "0.0.0.0:8484", "127.0.0.1"],
        ),
        (
            &CONFIG.replace("\"simulated\"", "\"vllm\""),
            &["engine.speed", "kind = \"vllm\"", "remove it"],
        ),
        (
            &CONFIG.replace("speed = 1000.0", "profile = \"rtx\""),
            &["models[0].engine.profile = \"rtx\"", "rtx-a4000-qwen3-4b"],
        ),
        (
            &CONFIG.replace("speed = 1000.0", "speed = 0.0"),
            &["speed", "0.0", "over 0"],
        ),
        (
            &CONFIG.replace("size = 4", "size = 0"),
            &["data_parallel_size", "0", "1 to 256"],
        ),
    ] {
        fs::write(&path, text).unwrap();
        for command in ["check", "serve"] {
            let output = run(&[command, "--config", file]);
            assert_eq!(output.status.code(), Some(2), "{command}\n{text}");
            assert_eq!(stdout(&output), "");
            let told = stderr(&output);
            for word in words {
                assert!(
                    told.contains(word),
                    "{word:?} is not in: {told}\nof\n{text}"
                );
            }
        }
    }
    let missing = run(&["check", "--config", "/nonexistent/warden.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("/nonexistent/warden.toml"));
}

/// As `lm-warden check | head -1` may do.
#[test]
fn a_reader_that_has_gone_is_no_fault() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = binary()
        .args(["check", "--schema"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn check_prints_what_it_comes_to_and_the_schema() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("warden.toml");
    fs::write(&path, CONFIG).unwrap();
    let output = run(&["check", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in [
        "listen = \"127.0.0.1:8484\"",
        "max_num_seqs = 32",
        "spill_threshold = \"auto\"",
        "speed = 1000.0",
    ] {
        assert!(
            stdout(&output).lines().any(|l| l == line),
            "{line} is not in\n{}",
            stdout(&output)
        );
    }
    fs::write(&path, &output.stdout).unwrap();
    let again = run(&["check", "--config", path.to_str().unwrap()]);
    assert_eq!(stdout(&again), stdout(&output));

    let schema = run(&["check", "--schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert_eq!(schema["type"], "object");
}
