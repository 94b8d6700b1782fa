//! Who may use the models, with which key, and how much of them.

use std::{path::Path, sync::Arc};

use warden::keys::{Access, KeyFile, Limits, NewKey, Ring, Settings};

use crate::support::{
    Conn, Engine, MESSAGE, Setup, Warden, chat_body, get, messages_body, post, until,
};

/// A key in the file of this directory, as its holder has it.
fn key(directory: &Path, name: &str, limits: Limits) -> String {
    let new = NewKey {
        name: name.to_owned(),
        role: api::KeyRole::Client,
        expires_s: None,
        limits,
    };
    let (_, secret) = KeyFile::of(directory).add(new).unwrap();
    secret.reveal().to_owned()
}

async fn guarded(directory: &Path, required: bool, engine: &Engine) -> Warden {
    let settings = Settings {
        required,
        ..Settings::default()
    };
    under(directory, settings, engine).await
}

async fn under(directory: &Path, settings: Settings, engine: &Engine) -> Warden {
    let ring = Ring::load(KeyFile::of(directory)).unwrap();
    let mut setup = Setup::before(&[engine]);
    setup.access = Some(Arc::new(Access::new(Arc::new(ring), &settings)));
    Warden::start(setup).await
}

fn with(key: &str) -> String {
    format!("x-api-key: {key}\r\n")
}

#[tokio::test]
async fn without_a_valid_key_every_door_but_health_is_shut() {
    let directory = tempfile::tempdir().unwrap();
    let key = key(directory.path(), "a", Limits::default());
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = guarded(directory.path(), true, &engine).await;
    let mut client = warden.client().await;
    for headers in [
        String::new(),
        with("sk-wrong"),
        with(&key.replace("lmw_", "lmw_0")),
        with(&format!("{}{}", &key[..key.len() - 2], "zz")),
        format!("authorization: Basic {key}\r\n"),
        format!("cookie: x-api-key={key}\r\n"),
    ] {
        let request = post("/v1/messages", &headers, messages_body(false));
        let reply = client.ask(request).await;
        assert_eq!(reply.status, 401, "{headers}");
        let json = reply.json();
        assert_eq!(json["type"], "error");
        assert_eq!(json["error"]["type"], "authentication_error");
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        assert!(
            reply
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );

        let request = post("/v1/chat/completions", &headers, chat_body(false));
        let reply = client.ask(request).await;
        assert_eq!(reply.status, 401);
        assert_eq!(reply.json()["error"]["code"], "invalid_api_key");
    }
    for path in ["/v1/models", "/v1/models/demo", "/version", "/v1/no/such"] {
        assert_eq!(client.ask(get(path)).await.status, 401, "{path}");
    }
    for path in ["/health", "/ready", "/api/hello"] {
        assert_eq!(client.ask(get(path)).await.status, 200, "{path}");
    }
    assert_eq!(engine.received().len(), 0);
    assert!(warden.requests().is_empty(), "strangers fill no list");

    for headers in [with(&key), format!("authorization: Bearer {key}\r\n")] {
        let request = post("/v1/messages", &headers, messages_body(false));
        assert_eq!(client.ask(request).await.status, 200, "{headers}");
    }
}

#[tokio::test]
async fn an_engine_never_sees_a_clients_key() {
    let directory = tempfile::tempdir().unwrap();
    let key = key(directory.path(), "a", Limits::default());
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = guarded(directory.path(), true, &engine).await;
    let mut client = warden.client().await;
    for headers in [
        with(&key),
        format!("authorization: Bearer {key}\r\n"),
        format!("x-api-key: {key}\r\nauthorization: Bearer {key}\r\n"),
        format!("x-api-key: {key}\r\nx-api-key: {key}\r\n"),
    ] {
        let request = post("/v1/messages", &headers, messages_body(false));
        assert_eq!(client.ask(request).await.status, 200);
    }
    for received in engine.received() {
        assert!(!format!("{received:?}").contains(&key));
    }
}

#[tokio::test]
async fn where_no_key_is_required_other_sites_pages_are_kept_out() {
    let directory = tempfile::tempdir().unwrap();
    let key = key(directory.path(), "a", Limits::default());
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = guarded(directory.path(), false, &engine).await;
    let mut client = warden.client().await;
    let mut ask = async |host: &str, kind: &str, headers: &str| {
        let body = messages_body(false);
        let length = body.len();
        let request = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        client.ask(request).await.status
    };
    let (local, json) = ("localhost:8484", "application/json");
    assert_eq!(ask(local, json, "").await, 200);
    assert_eq!(ask("127.0.0.1:1", json, "x-api-key: none\r\n").await, 200);
    // A stranger's domain that resolves to this machine.
    assert_eq!(ask("rebound.example", json, "").await, 403);
    // What a page can send to another site without being asked.
    let page = "sec-fetch-site: cross-site\r\norigin: https://evil.example\r\n";
    assert_eq!(ask(local, "text/plain", page).await, 403);
    // Who has a key is no page of a stranger.
    assert_eq!(ask("gateway.example", json, &with(&key)).await, 200);
    // A key of ours that does not count any more is not taken for none.
    let unknown = key.replace(&key[4..12], "00000001");
    assert_eq!(ask(local, json, &with(&unknown)).await, 401);
}

#[tokio::test]
async fn a_key_has_no_more_in_flight_than_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits {
        concurrent_requests: Some(1),
        ..Limits::default()
    };
    let limited = key(directory.path(), "limited", limits);
    let free = key(directory.path(), "free", Limits::default());
    let (release, released) = tokio::sync::watch::channel(false);
    let engine = Engine::start(move |mut conn: Conn| {
        let mut released = released.clone();
        async move {
            while conn.request().await.is_some() {
                let _ = released.wait_for(|released| *released).await;
                conn.send(crate::support::json_reply(MESSAGE)).await;
            }
        }
    })
    .await;
    let warden = guarded(directory.path(), true, &engine).await;
    let request = |key: &str| post("/v1/messages", &with(key), messages_body(false));
    let mut first = warden.client().await;
    first.send(request(&limited)).await;
    until("the first request", || engine.received().len() == 1).await;

    let mut second = warden.client().await;
    let reply = second.ask(request(&limited)).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("x-should-retry"), None);
    let chat = post("/v1/chat/completions", &with(&limited), chat_body(false));
    let reply = second.ask(chat).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.json()["error"]["code"], "rate_limit_exceeded");

    let mut other = warden.client().await;
    other.send(request(&free)).await;
    until("another key's request", || engine.received().len() == 2).await;
    release.send(true).unwrap();
    assert_eq!(first.reply().await.status, 200);
    assert_eq!(other.reply().await.status, 200);
    assert_eq!(second.ask(request(&limited)).await.status, 200);
    warden.settled().await;
}

#[tokio::test]
async fn requests_and_tokens_per_minute_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let two = Limits {
        requests_per_min: Some(2),
        ..Limits::default()
    };
    let ten_tokens = Limits {
        tokens_per_min: Some(10),
        ..Limits::default()
    };
    let by_requests = key(directory.path(), "by requests", two);
    let by_tokens = key(directory.path(), "by tokens", ten_tokens);
    let reply = r#"{"type":"message","usage":{"input_tokens":1000,"output_tokens":200}}"#;
    let engine = Engine::answering_json(reply).await;
    let warden = guarded(directory.path(), true, &engine).await;
    let mut client = warden.client().await;
    let request = |key: &str| post("/v1/messages", &with(key), messages_body(false));

    for _ in 0..2 {
        assert_eq!(client.ask(request(&by_requests)).await.status, 200);
    }
    let reply = client.ask(request(&by_requests)).await;
    assert_eq!(reply.status, 429);
    let wait_s: u32 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait_s), "{wait_s}");
    assert!(
        reply.text().contains("2 requests per minute"),
        "{}",
        reply.text()
    );

    assert_eq!(client.ask(request(&by_tokens)).await.status, 200);
    let reply = client.ask(request(&by_tokens)).await;
    assert_eq!(reply.status, 429);
    let wait_s: u32 = reply.header("retry-after").unwrap().parse().unwrap();
    // 1,200 used of 10 a minute.
    assert!((7_000..=7_200).contains(&wait_s), "{wait_s}");
    assert_eq!(engine.received().len(), 3);
    let limited = warden.settled().await;
    assert_eq!(limited.status, Some(429));
}

#[tokio::test]
async fn two_keys_sessions_of_the_same_name_are_two_conversations() {
    let directory = tempfile::tempdir().unwrap();
    let keys = ["a", "b"].map(|name| key(directory.path(), name, Limits::default()));
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = guarded(directory.path(), true, &engine).await;
    let mut client = warden.client().await;
    for key in &keys {
        for _ in 0..2 {
            let headers = format!("{}x-claude-code-session-id: same\r\n", with(key));
            let request = post("/v1/messages", &headers, messages_body(false));
            assert_eq!(client.ask(request).await.status, 200);
        }
    }
    assert_eq!(warden.conversations(), 2);
}

#[tokio::test]
async fn each_key_has_a_cache_of_its_own_where_that_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let keys = ["a", "b"].map(|name| key(directory.path(), name, Limits::default()));
    let engine = Engine::answering_json(MESSAGE).await;
    let settings = Settings {
        cache_salt: true,
        ..Settings::default()
    };
    let warden = under(directory.path(), settings, &engine).await;
    let body = messages_body(false);
    let mut client = warden.client().await;
    let mut ask = async |headers: &str| {
        let headers = format!("{headers}host: localhost\r\n");
        let request = String::from_utf8(post("/v1/messages", &headers, &body)).unwrap();
        let request = request.replace("host: warden\r\n", "");
        assert_eq!(client.ask(request).await.status, 200);
        let received = engine.received().pop().unwrap();
        String::from_utf8(received.body).unwrap()
    };
    assert_eq!(
        ask(&with(&keys[0])).await,
        body,
        "an older engine gets no salt"
    );
    let model = &warden.fleet.models[0];
    let takes = &model.takes_cache_salt;
    takes.store(true, std::sync::atomic::Ordering::Relaxed);
    let salted = [
        ask(&with(&keys[0])).await,
        ask(&with(&keys[1])).await,
        ask(&with(&keys[0])).await,
    ];
    assert_eq!(salted[0], salted[2]);
    assert_ne!(salted[0], salted[1]);
    for salted in &salted {
        let added = ",\"cache_salt\":\"\"}".len() + 32;
        let (rest, salt) = salted.split_at(salted.len() - added);
        assert!(salt.starts_with(",\"cache_salt\":\""), "{salt}");
        assert_eq!(format!("{rest}}}"), body, "all else is as it came");
    }
    assert_eq!(
        ask("").await,
        body,
        "without a key there is nobody to keep apart"
    );
}
