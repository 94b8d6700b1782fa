//! Bytes, headers and queries arrive as they were sent.

use crate::support::{Engine, MESSAGE, Setup, Warden, messages_body, post};

/// Blanks, escapes, duplicate and unknown keys, and every kind of text a re-serialiser would touch.
const ODD_BODY: &str = " {\"model\" : \"demo\", \"max_tokens\":16,\n\t\"unknown\":{\"b\":1.50,\"a\":1e2},\"unknown\":null,\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9é \\/ 😀\"}]}\n";

#[tokio::test]
async fn a_body_arrives_byte_for_byte() {
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = Warden::before(&[&engine]).await;
    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages?beta=true&x=%20y", "", ODD_BODY))
        .await;
    assert_eq!(reply.text(), MESSAGE);
    let received = engine.only();
    assert_eq!(
        received.head.line,
        "POST /v1/messages?beta=true&x=%20y HTTP/1.1"
    );
    assert_eq!(received.body, ODD_BODY.as_bytes());
}

#[tokio::test]
async fn a_large_body_and_a_large_reply_arrive_byte_for_byte() {
    let text: String = (0..300_000)
        .map(|i| char::from(b'a' + (i % 26) as u8))
        .collect();
    let body = format!(
        "{{\"model\":\"demo\",\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}"
    );
    let reply_body = format!(
        "{{\"id\":\"m\",\"type\":\"message\",\"content\":\"{}\",\"stop_reason\":\"end_turn\"}}",
        text.repeat(6)
    );
    let engine = Engine::answering_json(&reply_body).await;
    let warden = Warden::before(&[&engine]).await;
    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages", "", &body))
        .await;
    assert!(engine.only().body == body.as_bytes());
    assert!(reply.text() == reply_body, "over the size that is held");
    assert_eq!(warden.settled().await.status, Some(200));
}

#[tokio::test]
async fn a_chunked_body_arrives_whole() {
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    client
        .send("POST /v1/messages HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    for piece in ODD_BODY.as_bytes().chunks(7) {
        client.send(format!("{:x}\r\n", piece.len())).await;
        client.send(piece).await;
        client.send("\r\n").await;
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.reply().await.status, 200);
    let received = engine.only();
    assert_eq!(received.body, ODD_BODY.as_bytes());
    let length = ODD_BODY.len().to_string();
    assert_eq!(received.head.header("content-length"), Some(&*length));
    assert_eq!(received.head.header("transfer-encoding"), None);
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_is_asked() {
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    let body = messages_body(false);
    client
        .send(format!(
            "POST /v1/messages HTTP/1.1\r\nhost: w\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        ))
        .await;
    assert_eq!(client.head().await.line, "HTTP/1.1 100 Continue");
    client.send(body).await;
    assert_eq!(client.reply().await.status, 200);
    assert_eq!(engine.only().head.header("expect"), None);
}

#[tokio::test]
async fn headers_pass_but_ours() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    let warden = Warden::start(setup).await;
    let headers = "User-Agent: claude-cli/2.1.332 (external, sdk-cli)\r\n\
        X-Claude-Code-Session-Id: 5c1b6e0e-0000-4000-8000-000000000001\r\n\
        anthropic-version: 2023-06-01\r\n\
        anthropic-beta: one,two\r\n\
        X-Stainless-Retry-Count: 0\r\n\
        traceparent: 00-a-b-01\r\n\
        accept-encoding: gzip, br\r\n\
        x-api-key: client-secret\r\n\
        Authorization: Bearer client-secret\r\n\
        X-data-parallel-rank: 1\r\n\
        Connection: keep-alive, X-Hop\r\n\
        X-Hop: 1\r\n\
        Keep-Alive: timeout=5\r\n\
        TE: trailers\r\n\
        Proxy-Authorization: client-secret\r\n";
    let request = post("/v1/messages", headers, messages_body(false));
    let reply = warden.client().await.ask(request).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-lm-warden-route"), Some("pinned"));

    let head = engine.only().head;
    let mut names: Vec<_> = head.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "user-agent",
        "x-claude-code-session-id",
        "x-data-parallel-rank",
        "x-stainless-retry-count",
    ];
    assert_eq!(names, expected);
    assert_eq!(head.header("x-data-parallel-rank"), Some("1"));
    assert_eq!(head.header("host"), Some(&*engine.address.to_string()));
    assert_eq!(head.header("anthropic-beta"), Some("one,two"));
}

#[tokio::test]
async fn an_alias_changes_the_models_name_alone() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.model = "aliases = [\"claude-*\", \"other\"]";
    let warden = Warden::start(setup).await;
    *warden.fleet.models[0].engine_model.write().unwrap() = "org/Engine \"7B\"".to_owned();
    let mut client = warden.client().await;
    for asked in ["demo", "other", "claude-sonnet-5", "claude-"] {
        let body = ODD_BODY.replacen("demo", asked, 1);
        assert_eq!(client.ask(post("/v1/messages", "", body)).await.status, 200);
    }
    let expected = ODD_BODY.replacen("\"demo\"", r#""org/Engine \"7B\"""#, 1);
    let received = engine.received();
    assert_eq!(received.len(), 4);
    for received in received {
        assert_eq!(String::from_utf8(received.body).unwrap(), expected);
    }
    let body = ODD_BODY.replacen("demo", "claude", 1);
    assert_eq!(client.ask(post("/v1/messages", "", body)).await.status, 404);
}

#[tokio::test]
async fn an_alias_becomes_the_configured_name_until_the_engine_tells_its_own() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.model = "aliases = [\"other\"]";
    let warden = Warden::start(setup).await;
    let body = ODD_BODY.replacen("demo", "other", 1);
    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages", "", body))
        .await;
    assert_eq!(reply.status, 200);
    let received = engine.received().remove(0).body;
    assert_eq!(String::from_utf8(received).unwrap(), ODD_BODY);
}

#[tokio::test]
async fn an_engines_reply_passes_with_its_headers() {
    let engine = Engine::answering(
        "HTTP/1.1 429 Too Many\r\nserver: uvicorn\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\ncontent-type: application/json\r\nretry-after: 7\r\nx-codex-turn-state: abc\r\nx-lm-warden-replica: forged\r\ncontent-length: 17\r\n\r\n{ \"detail\" : \"x\"}",
    )
    .await;
    let warden = Warden::before(&[&engine]).await;
    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages", "", messages_body(false)))
        .await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.text(), "{ \"detail\" : \"x\"}");
    assert_eq!(reply.header("server"), Some("uvicorn"));
    assert_eq!(reply.header("retry-after"), Some("7"));
    assert_eq!(reply.header("x-codex-turn-state"), Some("abc"));
    assert_eq!(reply.header("keep-alive"), None);
    assert_eq!(reply.header("x-lm-warden-replica"), Some("0"));
    let request = warden.settled().await;
    assert_eq!(request.status, Some(429));
    assert_eq!(request.end, Some(api::RequestEnd::EngineError));
    assert_eq!(engine.received().len(), 1, "an engine's answer is final");
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let engine = Engine::answering_json(MESSAGE).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    for _ in 0..5 {
        let reply = client
            .ask(post("/v1/messages", "", messages_body(false)))
            .await;
        assert_eq!(reply.status, 200);
    }
    assert_eq!(engine.received().len(), 5);
    assert_eq!(engine.connections(), 1);
}

#[tokio::test]
async fn a_500_that_tells_of_the_clients_mistake_is_not_worth_a_retry() {
    for (message, retry) in [
        (
            "This model's maximum context length is 1000 tokens. However, you requested 1100.",
            Some("false"),
        ),
        ("temperature must be non-negative, got -1.0.", Some("false")),
        ("EngineCore encountered an issue.", None),
    ] {
        let body = format!(
            r#"{{"type":"error","error":{{"type":"internal_error","message":"{message}"}}}}"#
        );
        let length = body.len();
        let engine = Engine::answering(format!(
            "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
        let warden = Warden::before(&[&engine]).await;
        let request = post("/v1/messages", "", messages_body(true));
        let reply = warden.client().await.ask(request).await;
        assert_eq!((reply.status, reply.text()), (500, body.as_str()));
        assert_eq!(reply.header("x-should-retry"), retry, "{message}");
    }
}
