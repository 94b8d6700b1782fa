//! `lm-warden key`, and what a warden in its own process makes of keys.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Output};

use serde_json::Value;

use crate::support::{CONFIG, Url, Warden, binary, run, stderr, stdout, until};

fn key(directory: &Path, arguments: &[&str]) -> Output {
    let state = directory.to_str().unwrap();
    binary()
        .arg("key")
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .output()
        .unwrap()
}

fn add(directory: &Path, arguments: &[&str]) -> String {
    let output = key(directory, &[&["add"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).trim().to_owned()
}

fn status(url: &Url, path: &str, key: &str) -> u16 {
    let header = format!("x-api-key: {key}\r\n");
    url.ask(&format!("GET {path}"), &header, "").status
}

#[test]
fn a_key_is_shown_once_listed_and_revoked() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let secret = add(
        here,
        &[
            "--name",
            "ci",
            "--requests-per-min",
            "60",
            "--expires",
            "2999-12-31",
        ],
    );
    assert!(
        secret.starts_with("lmw_") && secret.lines().count() == 1,
        "{secret}"
    );
    let file = here.join("lm-warden/keys.json");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(!fs::read_to_string(&file).unwrap().contains(&secret[13..]));

    let output = key(here, &["list"]);
    let text = stdout(&output);
    for word in ["ci", "client", "60", "3000-01-01 00:00Z"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let output = key(here, &["list", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["keys"][0]["name"], "ci");
    assert_eq!(json["keys"][0]["limits"]["requests_per_min"], 60);
    assert_eq!(json["keys"][0].get("key"), None);

    let output = key(here, &["add", "--name", "boss", "--admin", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["role"], "admin");
    assert!(json["key"].as_str().unwrap().starts_with("lmw_"));

    for (arguments, code, word) in [
        (&["add", "--name", "ci"][..], 1, "already"),
        (
            &["add", "--name", "x", "--expires", "soon"],
            2,
            "2027-03-31",
        ),
        (&["revoke", "nobody"], 1, "boss, ci"),
        (&["add"], 2, "--name"),
        (
            &["list", "--config", "/nonexistent/w.toml"],
            2,
            "/nonexistent/w.toml",
        ),
    ] {
        let output = key(here, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
    assert_eq!(key(here, &["revoke", "ci"]).status.code(), Some(0));
    assert!(!stdout(&key(here, &["list"])).contains("ci "));
}

#[test]
fn only_loopback_listens_without_keys() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let config = here.join("warden.toml");
    let data_dir = here.join("lm-warden");
    let text = format!("[server]\nlisten = \"0.0.0.0:0\"\ndata_dir = {data_dir:?}\n{CONFIG}");
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    assert_eq!(run(&["check", "--config", config]).status.code(), Some(0));
    let output = run(&["serve", "--config", config]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let told = stderr(&output);
    for word in ["0.0.0.0:0", "no key yet", "lm-warden key add", "127.0.0.1"] {
        assert!(told.contains(word), "{told}");
    }
}

#[test]
fn commands_reach_a_warden_over_tls_where_they_trust_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (cert, private) = (here.join("cert.pem"), here.join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&private, made.signing_key.serialize_pem()).unwrap();
    let text = format!("[server.tls]\ncert = {cert:?}\nkey = {private:?}\n{CONFIG}");
    let warden = Warden::with(here, &text);
    let url = &warden.url.0;
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let trusting = |arguments: &[&str]| {
        let mut command = binary();
        command.args(arguments).args(["--url", url]);
        command.env("LM_WARDEN_CA", &cert).output().unwrap()
    };
    until("the model", || {
        (trusting(&["status"]).status.code() == Some(0)).then_some(())
    });
    let output = trusting(&["claude"]);
    let line = format!("export NODE_EXTRA_CA_CERTS={}", cert.display());
    assert!(
        stdout(&output).lines().any(|l| l == line),
        "{}",
        stdout(&output)
    );

    let short =
        "--model=demo --sessions=1 --stage=2s --shared-tokens=64 --turn-tokens=32 --max-tokens=8";
    let bench: Vec<&str> = ["bench", "run"]
        .into_iter()
        .chain(short.split(' '))
        .collect();
    let output = trusting(&bench);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    for arguments in [&["status"], &bench[..]] {
        let output = run(&[arguments, &["--url", url]].concat());
        assert!(
            [2, 3].contains(&output.status.code().unwrap()),
            "{}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains("certificate"),
            "{}",
            stderr(&output)
        );
    }

    fs::write(here.join("cert.pem"), "nonsense").unwrap();
    let config = here.join("warden.toml");
    let config = config.to_str().unwrap();
    let state = tempfile::tempdir().unwrap();
    let output = binary()
        .args(["serve", "--config", config, "--listen", "127.0.0.1:0"])
        .env("XDG_STATE_HOME", state.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("server.tls.cert"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_running_warden_follows_and_never_logs_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let admin = add(here, &["--name", "boss", "--admin"]);
    let client = add(here, &["--name", "dev"]);
    let warden = Warden::with(here, &format!("[auth]\nrequired = true\n{CONFIG}"));
    until("the model", || {
        (status(&warden.url, "/ready", "") == 200).then_some(())
    });
    let url = &warden.url;
    for path in ["/api/v1/models", "/metrics", "/v1/models"] {
        assert_eq!(status(url, path, ""), 401, "{path}");
        assert_eq!(status(url, path, &admin), 200, "{path}");
    }
    assert_eq!(status(url, "/v1/models", &client), 200);
    for path in ["/api/v1/models", "/metrics", "/api/v1/events", "/"] {
        assert_eq!(status(url, path, &client), 403, "{path}");
    }

    let with = |key: &str, arguments: &[&str]| {
        let mut command = binary();
        command.args(arguments).env("LM_WARDEN_URL", &url.0);
        command.env("LM_WARDEN_KEY", key).output().unwrap()
    };
    assert_eq!(with(&admin, &["status"]).status.code(), Some(0));
    let output = with(&client, &["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("admin's key"),
        "{}",
        stderr(&output)
    );
    let output = with(&client, &["claude"]);
    let line = format!("export ANTHROPIC_AUTH_TOKEN={client}");
    assert!(
        stdout(&output).lines().any(|l| l == line),
        "{}",
        stdout(&output)
    );
    let output = run(&["status", "--url", &url.0]);
    assert!(
        stderr(&output).contains("LM_WARDEN_KEY"),
        "{}",
        stderr(&output)
    );

    let added = add(here, &["--name", "later"]);
    until("the added key", || {
        (status(url, "/v1/models", &added) == 200).then_some(())
    });
    assert_eq!(key(here, &["revoke", "later"]).status.code(), Some(0));
    until("the revoked key", || {
        (status(url, "/v1/models", &added) == 401).then_some(())
    });
    let log = warden.log().join("\n");
    for secret in [&admin, &client, &added] {
        assert!(!log.contains(&secret[13..]), "{log}");
    }
}
