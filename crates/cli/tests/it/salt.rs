//! `[auth] cache_salt` before a simulated engine that honours it: keys share no cached block.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{EngineProcess, Url, Warden, binary, stderr, stdout, until};

/// One rank that acts as this version of vLLM.
fn of_version(version: &str) -> EngineProcess {
    EngineProcess::start(&["--speed=0", &format!("--vllm-version={version}")])
}

fn warden(directory: &Path, engine: &EngineProcess, salted: bool) -> Warden {
    let config = format!(
        "[auth]\ncache_salt = {salted}\n[[models]]\nname = \"demo\"\n[models.engine]\nkind = \"attached\"\n\
         max_num_seqs = 32\ndata_parallel_size = 1\nurl = \"{}\"\n",
        engine.url.0
    );
    Warden::with(directory, &config).ready()
}

fn key(directory: &Path, name: &str) -> String {
    let output = binary()
        .args(["key", "add", "--name", name])
        .env("XDG_STATE_HOME", directory)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).trim().to_owned()
}

/// Cached tokens of the prompt that all send.
fn cached(url: &Url, key: &str, salt: Option<&str>) -> u64 {
    let mut body = json!({
        "model": "demo", "max_tokens": 4,
        "system": "You are a coding agent. ".repeat(200),
        "messages": [{"role": "user", "content": "hello"}],
    });
    if let Some(salt) = salt {
        body["cache_salt"] = json!(salt);
    }
    let header = format!("x-api-key: {key}\r\n");
    let reply = url.ask("POST /v1/messages", &header, &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let reply: Value = serde_json::from_str(&reply.body).unwrap();
    reply["usage"]["cache_read_input_tokens"].as_u64().unwrap()
}

#[test]
fn keys_share_no_cache_and_keep_their_own_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| key(directory.path(), name));
    let engine = of_version("0.32.0");
    let first = warden(directory.path(), &engine, true);
    assert_eq!(cached(&first.url, &one, None), 0);
    assert!(cached(&first.url, &one, None) > 1_000);
    assert_eq!(
        cached(&first.url, &two, None),
        0,
        "another key's cache is not hit"
    );
    // The same salt of their own does not bring them together.
    assert_eq!(cached(&first.url, &one, Some("x")), 0);
    assert!(cached(&first.url, &one, Some("x")) > 1_000);
    assert_eq!(cached(&first.url, &two, Some("x")), 0);
    drop(first);
    let again = warden(directory.path(), &engine, true);
    assert!(
        cached(&again.url, &one, None) > 1_000,
        "the same after a restart"
    );
}

#[test]
fn without_the_setting_or_before_an_older_engine_all_share() {
    for (version, salted) in [("0.32.0", false), ("0.31.0", true)] {
        let directory = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| key(directory.path(), name));
        let engine = of_version(version);
        let warden = warden(directory.path(), &engine, salted);
        assert_eq!(cached(&warden.url, &one, None), 0);
        assert!(cached(&warden.url, &two, None) > 1_000, "{version}");
        if salted {
            until("the log to say that nothing is kept apart", || {
                let mut log = warden.log().into_iter();
                log.any(|line| line.contains("takes none")).then_some(())
            });
        }
    }
}
