//! Slow and many clients hold neither memory nor connections for long.

use std::time::Duration;

use warden::gateway::Limits;

use crate::support::{
    Client, Conn, Engine, MESSAGE, Setup, Warden, get, messages_body, post, until,
};

async fn bounded(engine: &Engine, limits: Limits) -> Warden {
    let mut setup = Setup::before(&[engine]);
    setup.limits = limits;
    Warden::start(setup).await
}

#[tokio::test]
async fn slow_headers_and_idle_connections_are_closed() {
    let engine = Engine::answering_json("{}").await;
    let limits = Limits {
        header_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let warden = bounded(&engine, limits).await;
    for begun in ["", "POST /v1/messages HTTP/1.1\r\nhost: w\r\nx-slow: "] {
        let mut client = warden.client().await;
        client.send(begun).await;
        client.closed().await;
    }
    let mut client = warden.client().await;
    assert_eq!(client.ask(get("/health")).await.status, 200);
    client.closed().await;
}

#[tokio::test]
async fn a_slow_body_is_408() {
    let engine = Engine::answering_json("{}").await;
    let limits = Limits {
        body_timeout: Duration::from_millis(300),
        body_progress_bytes: 100,
        ..Limits::default()
    };
    let warden = bounded(&engine, limits).await;
    let mut client = warden.client().await;
    client
        .send("POST /v1/messages HTTP/1.1\r\nhost: w\r\ncontent-length: 1000\r\n\r\n")
        .await;
    // A byte now and then is no progress.
    let trickle = async {
        while client.try_send("{").await {
            if let Ok(reply) = tokio::time::timeout(Duration::from_millis(20), client.head()).await
            {
                return reply;
            }
        }
        panic!("the connection was closed without an answer")
    };
    let head = crate::support::soon("an answer", trickle).await;
    assert!(head.line.starts_with("HTTP/1.1 408"), "{}", head.line);
    assert_eq!(engine.received().len(), 0);
    assert_eq!(warden.settled().await.status, Some(408));
}

#[tokio::test]
async fn bodies_share_one_allowance() {
    let engine = Engine::answering_json(MESSAGE).await;
    let limits = Limits {
        buffered_bytes_max: 1000,
        ..Limits::default()
    };
    let warden = bounded(&engine, limits).await;
    let mut slow = warden.client().await;
    slow.send("POST /v1/messages HTTP/1.1\r\nhost: w\r\ncontent-length: 950\r\n\r\n")
        .await;
    slow.send(vec![b' '; 940]).await;
    until("the slow body to be held", || {
        warden.gateway.buffered_bytes() == 940
    })
    .await;

    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages", "", messages_body(false)))
        .await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.json()["error"]["type"], "overloaded_error");
    assert_eq!(engine.received().len(), 0);

    drop(slow);
    warden.settled().await;
    let reply = warden
        .client()
        .await
        .ask(post("/v1/messages", "", messages_body(false)))
        .await;
    assert_eq!(reply.status, 200);
    warden.settled().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_left() {
    let engine = Engine::start(|mut conn: Conn| async move {
        if conn.request().await.is_some() {
            conn.begin_stream().await;
            let event = format!(
                "event: ping\ndata: {{\"filler\":\"{}\"}}\n\n",
                "x".repeat(100_000)
            );
            for _ in 0..1000 {
                conn.event(&event).await;
            }
        }
    })
    .await;
    let limits = Limits {
        write_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let warden = bounded(&engine, limits).await;
    let mut client = warden.client().await;
    client
        .send(post("/v1/messages", "", messages_body(true)))
        .await;
    client.head().await;
    let request = warden.settled().await;
    assert_eq!(request.end, Some(api::RequestEnd::ClientGone));
    drop(client);
}

/// Connections in use, one after the other.
async fn held(warden: &Warden, count: usize) -> Vec<Client> {
    let mut held = Vec::new();
    for _ in 0..count {
        let mut client = warden.client().await;
        assert_eq!(client.ask(get("/health")).await.status, 200);
        held.push(client);
    }
    held
}

#[tokio::test]
async fn connections_over_the_bound_wait_for_their_turn() {
    let engine = Engine::answering_json("{}").await;
    let limits = Limits {
        connections_max: 2,
        ..Limits::default()
    };
    let warden = bounded(&engine, limits).await;
    let held = held(&warden, 2).await;
    let mut third = Client::connect(warden.address).await;
    third.send(get("/health")).await;
    let early = tokio::time::timeout(Duration::from_millis(50), third.head()).await;
    assert!(early.is_err(), "answered while all connections were in use");
    drop(held);
    assert_eq!(third.head().await.line, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn an_address_has_no_more_connections_than_its_share() {
    let engine = Engine::answering_json("{}").await;
    let limits = Limits {
        connections_per_address_max: 2,
        ..Limits::default()
    };
    let warden = bounded(&engine, limits).await;
    let held = held(&warden, 2).await;
    let mut third = Client::connect(warden.address).await;
    third.closed().await;
    drop(held);
    let again = async {
        loop {
            let mut client = Client::connect(warden.address).await;
            if client.try_send(get("/health")).await && client.was_answered().await {
                return;
            }
        }
    };
    crate::support::soon("a place to be free again", again).await;
}

#[tokio::test]
async fn a_head_has_no_more_lines_and_bytes_than_it_may() {
    let engine = Engine::answering_json("{}").await;
    let warden = bounded(&engine, Limits::default()).await;
    for head in [
        "x-line: 1\r\n".repeat(101),
        format!("x-long: {}\r\n", "x".repeat(64 << 10)),
    ] {
        let mut client = warden.client().await;
        client
            .send(format!("GET /health HTTP/1.1\r\nhost: w\r\n{head}\r\n"))
            .await;
        assert_eq!(
            client.head().await.line,
            "HTTP/1.1 431 Request Header Fields Too Large"
        );
    }
}
