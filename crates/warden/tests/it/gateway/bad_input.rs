//! Bad input: nothing crashes, nothing reaches the engine, and the shape is the called API's.

use ::routing::{Event, ReplicaIndex};
use warden::{
    clock,
    gateway::{Fallback, Limits},
};

use crate::support::{Client, Engine, Reply, Setup, Warden, chat_body, get, messages_body, post};

/// Which API's shape an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Messages,
    OpenAi,
}

#[track_caller]
pub(super) fn assert_error(reply: &Reply, status: u16, shape: Shape, says: &str) {
    let body = reply.json();
    assert_eq!(reply.status, status, "{body}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("x-lm-warden-replica"), Some("-"));
    assert_eq!(reply.header("x-lm-warden-route"), Some("-"));
    let id = reply.header("x-lm-warden-request-id").unwrap();
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains(says), "{message:?} does not say {says:?}");
    match shape {
        Shape::Messages => {
            assert_eq!(body["type"], "error");
            assert!(body["error"]["type"].is_string());
            assert_eq!(body["request_id"], id);
        }
        Shape::OpenAi => {
            assert!(body.get("type").is_none());
            for key in ["type", "param", "code"] {
                assert!(body["error"].get(key).is_some(), "{key} is missing: {body}");
            }
        }
    }
}

/// One request, its answer, and that no engine saw it.
async fn check(request: impl AsRef<[u8]>, status: u16, shape: Shape, says: &str) -> Reply {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let reply = warden.client().await.ask(request).await;
    assert_error(&reply, status, shape, says);
    assert_eq!(engine.received().len(), 0);
    assert_eq!(warden.gateway.in_flight(), 0);
    assert_eq!(warden.gateway.buffered_bytes(), 0);
    reply
}

#[tokio::test]
async fn bodies_that_are_no_use() {
    let cases = [
        ("{\"model\":\"demo\",", "not valid JSON"),
        ("", "not valid JSON"),
        ("\u{0}\u{1}", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ("{\"messages\":[]}", "\"model\" is required"),
        ("{\"model\":7}", "\"model\""),
        ("{\"model\":\"\"}", "\"model\" is required"),
        (
            "{\"model\":\"demo\",\"stream\":\"yes\"}",
            "\"stream\" must be",
        ),
    ];
    for (body, says) in cases {
        let reply = check(post("/v1/messages", "", body), 400, Shape::Messages, says).await;
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        let openai = [
            "/v1/chat/completions",
            "/v1/completions",
            "/v1/responses",
            "/v1/embeddings",
            "/tokenize",
        ];
        for path in openai {
            check(post(path, "", body), 400, Shape::OpenAi, says).await;
        }
    }
}

#[tokio::test]
async fn brackets_without_end() {
    let deep = format!("{{\"model\":\"demo\",\"messages\":{}", "[".repeat(100_000));
    check(post("/v1/messages", "", deep), 400, Shape::Messages, "").await;
}

#[tokio::test]
async fn a_compressed_body() {
    let headers = "content-encoding: gzip\r\n";
    let body = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    check(
        post("/v1/messages", headers, body),
        400,
        Shape::Messages,
        "content-encoding",
    )
    .await;
}

#[tokio::test]
async fn an_unknown_model() {
    let body = "{\"model\":\"gpt-9\",\"messages\":[]}";
    let reply = check(post("/v1/messages", "", body), 404, Shape::Messages, "demo").await;
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    let reply = check(post("/v1/responses", "", body), 404, Shape::OpenAi, "gpt-9").await;
    assert_eq!(reply.json()["error"]["param"], "model");
    check(get("/v1/models/gpt-9"), 404, Shape::OpenAi, "demo").await;
}

#[tokio::test]
async fn other_methods_and_paths() {
    let reply = check(get("/v1/messages"), 405, Shape::Messages, "POST").await;
    assert_eq!(reply.header("allow"), Some("POST"));
    check(get("/v1/chat/completions"), 405, Shape::OpenAi, "POST").await;
    check(post("/v1/models", "", "{}"), 405, Shape::OpenAi, "GET").await;
    check(post("/health", "", "{}"), 405, Shape::OpenAi, "GET").await;
    for path in [
        "/v1/audio/speech",
        "/nonsense",
        "/v1/messages/",
        "/v1/models/",
    ] {
        let shape = if path == "/v1/messages/" {
            Shape::Messages
        } else {
            Shape::OpenAi
        };
        check(get(path), 404, shape, path).await;
    }
}

/// The operators' side answers 404 in its own shape; a client of an API could not read that.
#[tokio::test]
async fn paths_under_v1_are_the_clients_also_where_operators_answer() {
    let engine = Engine::answering_json("{}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.fallback = Fallback::new(tower::service_fn(async |_| {
        Ok(http::Response::new("an operator's page".to_owned()))
    }));
    let warden = Warden::start(setup).await;
    for (path, shape) in [
        ("/v1/audio/speech", Shape::OpenAi),
        ("/v1", Shape::OpenAi),
        ("/v1/messages/batches", Shape::Messages),
    ] {
        let reply = warden.client().await.ask(post(path, "", "{}")).await;
        assert_error(&reply, 404, shape, path);
    }
    let page = warden.client().await.ask(get("/v1x")).await;
    assert_eq!(page.text(), "an operator's page");
}

#[tokio::test]
async fn a_panic_of_ours_is_answered_and_told() {
    let engine = Engine::answering_json("{}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.fallback = Fallback::new(tower::service_fn(
        async |_| -> Result<http::Response<String>, _> { panic!("as in a test") },
    ));
    let warden = Warden::start(setup).await;
    let mut client = warden.client().await;
    let reply = client.ask(get("/broken")).await;
    assert_error(&reply, 500, Shape::OpenAi, "its log says where");
    // Nobody else is hurt, not even the same connection.
    assert_eq!(client.ask(get("/health")).await.status, 200);
}

#[tokio::test]
async fn a_body_whose_sender_stops_halfway_but_listens() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    client
        .send("POST /v1/messages HTTP/1.1\r\nhost: warden\r\ncontent-length: 99\r\n\r\n{")
        .await;
    client.half_close().await;
    let reply = client.reply().await;
    assert_error(
        &reply,
        400,
        Shape::Messages,
        "before the request body was whole",
    );
    assert_eq!(warden.settled().await.status, Some(499));
}

#[tokio::test]
async fn a_pin_out_of_range() {
    let engine = Engine::answering_json("{}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    let warden = Warden::start(setup).await;
    for pin in ["2", "-1", "99999999999999999999"] {
        let headers = format!("X-data-parallel-rank: {pin}\r\n");
        for stream in [false, true] {
            let request = post("/v1/messages", &headers, messages_body(stream));
            let reply = warden.client().await.ask(request).await;
            assert_error(&reply, 400, Shape::Messages, "replicas 0 to 1");
            let request = post("/v1/chat/completions", &headers, chat_body(stream));
            let reply = warden.client().await.ask(request).await;
            assert_error(&reply, 400, Shape::OpenAi, "replicas 0 to 1");
        }
    }
    assert_eq!(engine.received().len(), 0);
    assert_eq!(warden.settled().await.status, Some(400));
}

async fn small(engine: &Engine) -> Warden {
    let mut setup = Setup::before(&[engine]);
    setup.limits = Limits {
        body_bytes_max: 1000,
        ..Limits::default()
    };
    Warden::start(setup).await
}

#[tokio::test]
async fn a_body_too_large() {
    let engine = Engine::answering_json("{}").await;
    let warden = small(&engine).await;
    let large = vec![b' '; 100_000];
    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages", "", &large))
        .await;
    assert_error(&reply, 413, Shape::Messages, "1000 bytes");
    assert_eq!(reply.header("x-should-retry"), Some("false"));

    // Without a declared length.
    let mut client = warden.client().await;
    client
        .send("POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    for _ in 0..3 {
        client
            .try_send(format!("190\r\n{}\r\n", " ".repeat(400)))
            .await;
    }
    client.try_send("0\r\n\r\n").await;
    assert_error(&client.reply().await, 413, Shape::OpenAi, "1000 bytes");

    // Announced, and not asked for.
    let mut client = warden.client().await;
    client
        .send("POST /v1/messages HTTP/1.1\r\nhost: w\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n")
        .await;
    assert_error(&client.reply().await, 413, Shape::Messages, "1000 bytes");
    assert_eq!(engine.received().len(), 0);
    assert_eq!(warden.settled().await.status, Some(413));
}

/// A client that reads only once it has sent everything finds the answer, not a reset.
#[tokio::test]
async fn a_refusal_is_readable_after_a_large_body() {
    let engine = Engine::answering_json("{}").await;
    let warden = small(&engine).await;
    let large = vec![b' '; 20 << 20];
    let compressed = "content-encoding: gzip\r\n";
    for (path, headers, status) in [
        ("/v1/messages", "", 413),
        ("/v1/messages", compressed, 400),
        ("/v1/audio/speech", "", 404),
        ("/health", "", 405),
    ] {
        let mut client = warden.client().await;
        let reply = client.ask(post(path, headers, &large)).await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(client.ask(get("/health")).await.status, 200, "{path}");
    }
    assert_eq!(engine.received().len(), 0);
}

#[tokio::test]
async fn what_is_no_http() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let raw = async |bytes: &[u8]| {
        let mut client = Client::connect(warden.address).await;
        client.send(bytes).await;
        String::from_utf8_lossy(&client.rest().await).into_owned()
    };
    assert!(raw(b"nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    assert!(
        raw(b"POST /v1/messages HTTP/1.1\r\nhost: w\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello")
            .await
            .starts_with("HTTP/1.1 400"),
        "two lengths"
    );
    let many = "x-filler: 0123456789\r\n".repeat(5000);
    let head = format!("GET /health HTTP/1.1\r\nhost: w\r\n{many}\r\n");
    assert!(raw(head.as_bytes()).await.starts_with("HTTP/1.1 431"));
    assert_eq!(engine.received().len(), 0);
}

#[tokio::test]
async fn a_broken_chunk() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    client
        .send("POST /v1/messages HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n")
        .await;
    assert_error(
        &client.reply().await,
        400,
        Shape::Messages,
        "did not arrive whole",
    );
    assert_eq!(engine.received().len(), 0);
    assert_eq!(warden.settled().await.status, Some(400));
}

/// Of two ways to tell a body's length the engine gets neither, but one of our own.
#[tokio::test]
async fn two_framings_smuggle_nothing() {
    let engine = Engine::answering_json("{\"object\":\"x\"}").await;
    let warden = Warden::before(&[&engine]).await;
    let body = chat_body(false);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let mut client = warden.client().await;
    client.send(request).await;
    let status = client.reply().await.status;
    assert!(status == 200 || status == 400, "{status}");
    for received in engine.received() {
        assert_eq!(received.head.header("transfer-encoding"), None);
        assert_eq!(received.body, body.as_bytes());
    }
}

#[tokio::test]
async fn no_replica() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let model = &warden.fleet.models[0];
    model
        .router
        .lock()
        .observe(clock::now(), Event::ConnectFailed(ReplicaIndex(0)));
    let request = post("/v1/messages", "", messages_body(true));
    let reply = warden.client().await.ask(request).await;
    assert_error(&reply, 503, Shape::Messages, "no replica");
    assert!(reply.header("retry-after").is_some());
    assert_eq!(reply.header("x-should-retry"), None, "a retry helps");

    let loading = warden::fleet::ModelState::Loading("reading weights".to_owned());
    *model.state.write().unwrap() = loading;
    let request = post("/v1/chat/completions", "", chat_body(true));
    let reply = warden.client().await.ask(request).await;
    assert_error(&reply, 503, Shape::OpenAi, "reading weights");
    assert!(reply.header("retry-after").is_some());
    assert_eq!(engine.received().len(), 0);
    assert_eq!(warden.settled().await.status, Some(503));
}
