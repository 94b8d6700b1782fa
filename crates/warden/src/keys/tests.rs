//! Keys on disk and in a running warden.

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use http::HeaderMap;

use super::{
    ring::Shown,
    secret::{Hash, claimed},
    *,
};

fn new(name: &str) -> NewKey {
    NewKey {
        name: name.to_owned(),
        role: api::KeyRole::Client,
        expires_s: None,
        limits: Limits::default(),
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect()
}

fn is_valid(ring: &Ring, pairs: &[(&'static str, &str)]) -> bool {
    matches!(ring.shown(&headers(pairs)), Shown::Valid(_))
}

#[test]
fn a_key_is_kept_as_a_hash_that_only_this_user_reads() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    let (key, secret) = file.add(new("ci")).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(!text.contains(secret.reveal()), "{text}");
    let (_, proof) = secret.reveal().rsplit_once('_').unwrap();
    assert!(!text.contains(proof), "{text}");
    let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!format!("{secret:?} {key:?}").contains(proof));
    assert_eq!(claimed(secret.reveal().as_bytes()), Some(key.id));
}

#[test]
fn no_two_keys_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    let (a, first) = file.add(new("a")).unwrap();
    let (b, second) = file.add(new("b")).unwrap();
    assert!(a.id != b.id && first != second);
    let error = file.add(new("a")).unwrap_err().to_string();
    assert!(error.contains("\"a\" already"), "{error}");
}

#[test]
fn names_expiry_and_limits_that_cannot_be_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    let limits = Limits {
        concurrent_requests: Some(0),
        ..Limits::default()
    };
    let cases = [
        (new(""), "1 to 64 bytes"),
        (new("a\nb"), "control characters"),
        (new(&"x".repeat(65)), "1 to 64 bytes"),
        (
            NewKey {
                expires_s: Some(1),
                ..new("late")
            },
            "expired already",
        ),
        (
            NewKey {
                limits,
                ..new("none")
            },
            "concurrent requests must be 1 to",
        ),
    ];
    for (key, part) in cases {
        let error = file.add(key).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(!file.path().exists());
}

#[test]
fn commands_at_once_lose_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let file = &file;
            scope.spawn(move || file.add(new(&format!("k{number}"))).unwrap());
        }
    });
    assert_eq!(file.load().unwrap().len(), 8);
}

#[test]
fn a_damaged_file_is_named_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    for text in [
        "",
        "{",
        "[]",
        r#"{"version":2,"keys":[]}"#,
        r#"{"version":1,"keys":[{"id":"00000000","name":"a","role":"admin","sha256":"","created":1,"expires":null,"limits":{"requests_per_min":null,"concurrent_requests":null,"tokens_per_min":null}}]}"#,
    ] {
        std::fs::write(file.path(), text).unwrap();
        let error = file.load().unwrap_err().to_string();
        assert!(
            error.contains("keys.json is damaged") && error.contains("restore it"),
            "{error}"
        );
    }
}

#[test]
fn both_headers_are_taken_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    let (_, secret) = file.add(new("a")).unwrap();
    let key = secret.reveal();
    let ring = Ring::load(file).unwrap();
    let bearer = format!("Bearer {key}");
    assert!(is_valid(&ring, &[("x-api-key", key)]));
    assert!(is_valid(&ring, &[("authorization", &bearer)]));
    assert!(is_valid(
        &ring,
        &[("authorization", &format!("bearer  {key}"))]
    ));
    // Claude Code sends both where both are set; one of them is meant for here.
    assert!(is_valid(
        &ring,
        &[("x-api-key", "sk-other"), ("authorization", &bearer)]
    ));
    assert!(is_valid(
        &ring,
        &[("x-api-key", key), ("authorization", "Bearer sk-other")]
    ));
    let last = if key.ends_with('0') { "1" } else { "0" };
    let altered = format!("{}{last}", &key[..key.len() - 1]);
    for wrong in [altered.as_str(), &key[..key.len() - 1], "", "lmw_", "none"] {
        assert!(!is_valid(&ring, &[("x-api-key", wrong)]), "{wrong}");
    }
    assert!(!is_valid(&ring, &[("authorization", key)]));
    assert!(!is_valid(
        &ring,
        &[("authorization", &format!("Basic {key}"))]
    ));
    assert!(!is_valid(&ring, &[("cookie", key)]));
}

#[test]
fn a_hash_differs_in_every_bit_that_is_changed() {
    let hash = Hash::of(b"secret");
    let hex = hash.to_hex();
    assert!(hash.matches(&Hash::parse(&hex).unwrap()));
    for at in 0..hex.len() {
        let mut other = hex.clone().into_bytes();
        other[at] = if other[at] == b'0' { b'1' } else { b'0' };
        let other = Hash::parse(std::str::from_utf8(&other).unwrap()).unwrap();
        assert!(!hash.matches(&other), "digit {at}");
    }
}

#[tokio::test]
async fn a_running_warden_follows_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(directory.path());
    let (_, kept) = file.add(new("kept")).unwrap();
    let ring = Ring::load(file.clone()).unwrap();
    let valid = |key: &Secret| is_valid(&ring, &[("x-api-key", key.reveal())]);
    let account = Arc::clone(&ring.holders()[0].account);
    let _in_flight = account.admit().unwrap();
    let mut seen = None;

    let (_, added) = file.add(new("added")).unwrap();
    ring.look(&mut seen).await;
    assert!(valid(&added) && valid(&kept));
    file.revoke("added").unwrap();
    ring.look(&mut seen).await;
    assert!(!valid(&added) && valid(&kept));

    let text = std::fs::read(file.path()).unwrap();
    std::fs::write(file.path(), &text[..text.len() / 2]).unwrap();
    ring.look(&mut seen).await;
    assert!(ring.trouble().unwrap().contains("damaged"));
    assert!(valid(&kept), "a damaged file takes no key away");
    std::fs::write(file.path(), &text).unwrap();
    ring.look(&mut seen).await;
    assert_eq!(ring.trouble(), None);
    let holders = ring.holders();
    assert_eq!(holders.len(), 1);
    let usage = holders[0].account.usage();
    assert_eq!(usage.in_flight, 1, "the account is the same");

    std::fs::remove_file(file.path()).unwrap();
    ring.look(&mut seen).await;
    assert!(ring.is_empty(), "without a file there are no keys");
}
