//! The one retry: when a request is sent again, and when it is not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use api::RequestEnd;
use tokio::net::TcpListener;

use crate::support::{
    Conn, Engine, MESSAGE, MESSAGES_EVENTS, Reply, Setup, Warden, json_reply, messages_body, post,
};

async fn ask(warden: &Warden, session: &str) -> Reply {
    let headers = format!("x-claude-code-session-id: {session}\r\n");
    let request = post("/v1/messages", &headers, messages_body(true));
    warden.client().await.ask(request).await
}

/// A URL where nobody listens.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// An engine whose connections all end in the same way after a request.
async fn dying(last_words: &'static str) -> Engine {
    Engine::start(move |mut conn| async move {
        if conn.request().await.is_some() {
            conn.send(last_words).await;
            conn.reset();
        }
    })
    .await
}

/// What a request to a replica that will fail needs to hit it first: as many conversations as
/// there are replicas, placed in turn.
async fn ask_until(warden: &Warden, engine: &Engine) -> Reply {
    for session in 0..8 {
        let reply = ask(warden, &format!("s{session}")).await;
        if !engine.received().is_empty() {
            return reply;
        }
    }
    panic!("no conversation was placed on the replica that fails")
}

#[tokio::test]
async fn a_stale_connection_is_replaced() {
    let accepted = Arc::new(AtomicUsize::new(0));
    let engine = Engine::start(move |mut conn: Conn| {
        let first = accepted.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            let mut answered = 0;
            while conn.request().await.is_some() {
                // The first connection is closed just as the second request comes.
                if first && answered == 1 {
                    return conn.reset();
                }
                conn.send(json_reply(MESSAGE)).await;
                answered += 1;
            }
        }
    })
    .await;
    let warden = Warden::before(&[&engine]).await;
    for _ in 0..2 {
        assert_eq!(ask(&warden, "s").await.text(), MESSAGE);
    }
    assert_eq!(engine.connections(), 2);
    assert_eq!(
        engine.received().len(),
        3,
        "the second request was sent twice"
    );
    let newest = warden.settled().await;
    assert_eq!(newest.end, Some(RequestEnd::Complete));
    assert_eq!(
        newest.route,
        Some(api::Route::Sticky),
        "it stayed where it was"
    );
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_not_used() {
    let engine = Engine::start(|mut conn| async move {
        if conn.request().await.is_some() {
            conn.send(json_reply(MESSAGE)).await;
        }
    })
    .await;
    let warden = Warden::before(&[&engine]).await;
    for _ in 0..3 {
        assert_eq!(ask(&warden, "s").await.status, 200);
    }
    assert_eq!(engine.connections(), 3);
}

#[tokio::test]
async fn a_failed_connect_goes_to_another_replica() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.urls.insert(0, nobody().await);
    let warden = Warden::start(setup).await;
    for session in ["a", "b", "c", "d"] {
        let reply = ask(&warden, session).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("x-lm-warden-replica"), Some("1"));
    }
    let snapshot = warden.fleet.models[0]
        .router
        .lock()
        .snapshot(warden::clock::now());
    assert!(!snapshot.replicas[0].up, "the router was told");
    assert_eq!(engine.received().len(), 4);
    warden.settled().await;
}

#[tokio::test]
async fn nobody_can_be_reached() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.urls = vec![nobody().await, nobody().await];
    let warden = Warden::start(setup).await;
    let reply = ask(&warden, "a").await;
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    assert_eq!(warden.settled().await.status, Some(503));
}

#[tokio::test]
async fn a_death_before_the_head_or_the_first_byte_goes_to_another_replica() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for last_words in ["", head] {
        let (bad, good) = (
            dying(last_words).await,
            Engine::answering_json(MESSAGE).await,
        );
        let warden = Warden::before(&[&bad, &good]).await;
        let reply = ask_until(&warden, &bad).await;
        assert_eq!(reply.text(), MESSAGE, "after {last_words:?}");
        assert_eq!(reply.header("x-lm-warden-replica"), Some("1"));
        assert_eq!(bad.received().len(), 1);
        assert_eq!(warden.settled().await.end, Some(RequestEnd::Complete));
    }
}

#[tokio::test]
async fn two_deaths_are_the_end() {
    let engines = [dying("").await, dying("").await, dying("").await];
    let warden = Warden::before(&[&engines[0], &engines[1], &engines[2]]).await;
    let reply = ask(&warden, "a").await;
    assert_eq!(reply.status, 502);
    assert_eq!(reply.json()["error"]["type"], "api_error");
    assert_eq!(reply.header("x-lm-warden-replica"), Some("-"));
    let asked: usize = engines.iter().map(|engine| engine.received().len()).sum();
    assert_eq!(asked, 2);
    let request = warden.settled().await;
    assert_eq!(
        (request.status, request.end),
        (Some(502), Some(RequestEnd::Lost))
    );
}

#[tokio::test]
async fn a_pinned_request_is_tried_again_on_its_own_replica_only() {
    let (bad, good) = (dying("").await, Engine::answering_json(MESSAGE).await);
    let warden = Warden::before(&[&bad, &good]).await;
    let headers = "X-data-parallel-rank: 0\r\n";
    let request = post("/v1/messages", headers, messages_body(true));
    let reply = warden.client().await.ask(request).await;
    assert_eq!(reply.status, 502);
    assert_eq!((bad.received().len(), good.received().len()), (2, 0));
    warden.settled().await;
}

#[tokio::test]
async fn where_vllm_chose_it_chooses_again() {
    let accepted = Arc::new(AtomicUsize::new(0));
    let engine = Engine::start(move |mut conn: Conn| {
        let first = accepted.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            while conn.request().await.is_some() {
                if first {
                    return conn.reset();
                }
                conn.send(json_reply(MESSAGE)).await;
            }
        }
    })
    .await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    setup.routing = "affinity = false";
    let warden = Warden::start(setup).await;
    let reply = ask(&warden, "s").await;
    assert_eq!(reply.text(), MESSAGE);
    assert_eq!(reply.header("x-lm-warden-route"), Some("balanced"));
    assert_eq!(engine.received().len(), 2);
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Complete));
}

#[tokio::test]
async fn nothing_is_sent_again_after_a_body_byte() {
    let words = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\n";
    let (bad, good) = (dying(words).await, Engine::answering_json(MESSAGE).await);
    let warden = Warden::before(&[&bad, &good]).await;
    let reply = ask_until(&warden, &bad).await;
    assert_eq!(
        reply.status, 502,
        "not even though the client saw none of it"
    );
    assert_eq!(bad.received().len(), 1);
    warden.settled().await;
}

#[tokio::test]
async fn an_engines_error_is_passed_on_not_retried() {
    let error = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"detail\":\"no\"}";
    let (bad, good) = (
        Engine::answering(error).await,
        Engine::answering_json(MESSAGE).await,
    );
    let warden = Warden::before(&[&bad, &good]).await;
    let reply = ask_until(&warden, &bad).await;
    assert_eq!((reply.status, reply.text()), (500, "{\"detail\":\"no\"}"));
    assert_eq!(warden.settled().await.end, Some(RequestEnd::EngineError));
}

#[tokio::test]
async fn what_is_no_http_is_502() {
    let engine = Engine::answering("SSH-2.0-OpenSSH\r\n\r\n").await;
    let warden = Warden::before(&[&engine]).await;
    let reply = ask(&warden, "a").await;
    assert_eq!(reply.status, 502);
    assert_eq!(engine.received().len(), 1);
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Lost));
}

#[tokio::test]
async fn calls_without_a_slot_are_tried_at_another_replica_too() {
    let engine = Engine::answering_json("{\"input_tokens\":3}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.urls.insert(0, nobody().await);
    let warden = Warden::start(setup).await;
    for _ in 0..4 {
        let request = post("/v1/messages/count_tokens", "", messages_body(false));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.text(), "{\"input_tokens\":3}");
    }
    assert_eq!(engine.received().len(), 4);
}

#[tokio::test]
async fn a_whole_stream_after_a_death_counts_once() {
    let bad = dying("").await;
    let good = Engine::streaming().await;
    let warden = Warden::before(&[&bad, &good]).await;
    let reply = ask_until(&warden, &bad).await;
    assert_eq!(reply.text(), MESSAGES_EVENTS.concat());
    assert_eq!(warden.settled().await.prompt_tokens, Some(12));
}
