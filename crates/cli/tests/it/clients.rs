//! The commands that ask a running warden.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::support::{REFUSED_BY_THE_ENGINE, Warden, binary, run, stderr, stdout};

#[test]
fn status_shows_the_panel_and_its_exit_code_says_whether_all_is_well() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    warden.url.turn("demo", "s", "hello").went();
    let output = run(&["status", "--url", &warden.url.0]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("demo  ready\n"), "{text}");
    assert!(
        text.contains("Affinity on · Spill threshold 8 (auto) · Sticky – · In flight 0"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 3 + 4 + 3, "{text}");
    assert!(text.contains("\nLeases: "), "{text}");
    assert!(text.contains("\nNow: "), "{text}");
    assert!(text.contains("Working set: 1 conversation, "), "{text}");
    assert!(!text.contains('\u{1b}'));

    let output = binary()
        .args(["status", "--json"])
        .env("LM_WARDEN_URL", &warden.url.0)
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["models"][0]["name"], "demo");
}

#[test]
fn exit_codes_tell_degraded_from_unreachable_from_nonsense() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::limited(directory.path(), REFUSED_BY_THE_ENGINE);
    warden.await_state("failed");
    let output = run(&["status", "--url", &warden.url.0]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stdout(&output).contains("failed"), "{}", stdout(&output));

    let engine = Warden::start(tempfile::tempdir().unwrap().path());
    let output = run(&["status", "--url", &engine.engine().0]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("not as a warden does"),
        "{}",
        stderr(&output)
    );

    warden.terminate();
    for command in ["status", "claude"] {
        let output = run(&[command, "--url", &warden.url.0]);
        assert_eq!(output.status.code(), Some(3));
        assert!(
            stderr(&output).contains("lm-warden serve"),
            "{}",
            stderr(&output)
        );
        let output = run(&[command, "--url", "ftp://x"]);
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn claude_prints_the_environment_and_runs_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let url = &warden.url.0;
    let output = run(&["claude", "--url", url]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in [
        &format!("export ANTHROPIC_BASE_URL={url}"),
        "export ANTHROPIC_MODEL=demo",
        "export ANTHROPIC_DEFAULT_HAIKU_MODEL=demo",
        "export CLAUDE_CODE_ATTRIBUTION_HEADER=0",
        "export CLAUDE_CODE_GATEWAY_HINT_HEADERS=1",
        "export DISABLE_TELEMETRY=1",
    ] {
        assert!(
            stdout(&output).lines().any(|l| l == line),
            "{line} is not in\n{}",
            stdout(&output)
        );
    }

    let program = directory.path().join("claude");
    fs::write(
        &program,
        "#!/bin/sh\necho \"$ANTHROPIC_MODEL $ANTHROPIC_BASE_URL $*\"\nexit 7\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let run_with = |arguments: &[&str]| {
        let mut command = binary();
        command.args(["claude", "--url", url]).args(arguments);
        command.env("PATH", directory.path()).output().unwrap()
    };
    let output = run_with(&["claude-opus-5", "--", "-p", "hi there"]);
    assert_eq!(output.status.code(), Some(7), "its exit code is passed on");
    assert_eq!(
        stdout(&output),
        format!("claude-opus-5 {url} -p hi there\n")
    );
    let output = run_with(&["demo", "--"]);
    assert_eq!(stdout(&output), format!("demo {url} \n"));

    let output = run(&["claude", "gpt", "--url", url]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("\"gpt\"") && stderr(&output).contains("demo, claude-*"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn help_is_there_for_every_command() {
    let top = run(&["--help"]);
    assert_eq!(top.status.code(), Some(0));
    for command in ["serve", "check", "status", "claude", "simulate", "engine"] {
        assert!(stdout(&top).contains(command), "{command}");
        let help = run(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        assert!(stdout(&help).contains("Usage: lm-warden"), "{command}");
    }
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["serv"]).status.code(), Some(2));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}
