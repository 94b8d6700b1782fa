//! A broken reply is never ended cleanly, and never looks complete.

use std::time::Duration;

use ::routing::{Event, Gauges, ReplicaIndex};
use api::RequestEnd;
use warden::{clock, gateway::Limits};

use crate::support::{
    CHAT_EVENT, Conn, Ended, Engine, MESSAGES_EVENTS, NULL_STOP_EVENT, Setup, Warden, chat_body,
    messages_body, post,
};

/// How an engine leaves a stream.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    /// The connection goes away.
    Reset,
    /// HTTP ends as it should, the stream does not.
    Cleanly,
}

async fn streaming(events: &'static [&'static str], leaves: Leaves) -> Engine {
    Engine::start(move |mut conn: Conn| async move {
        while conn.request().await.is_some() {
            conn.begin_stream().await;
            for event in events {
                conn.event(event).await;
            }
            match leaves {
                Leaves::Cleanly => conn.end_stream().await,
                Leaves::Reset => return,
            }
        }
    })
    .await
}

/// What a client sees of a stream that breaks, and how it is counted.
async fn broken(path: &str, body: String, engine: &Engine) -> String {
    let warden = Warden::before(&[engine]).await;
    let reply = warden.client().await.ask(post(path, "", body)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.ended, Ended::Broken);
    let request = warden.settled().await;
    assert_eq!(request.end, Some(RequestEnd::Cut));
    assert_eq!(engine.received().len(), 1);
    reply.text().to_owned()
}

#[tokio::test]
async fn messages_end_without_a_word() {
    static EVENTS: [&str; 2] = [MESSAGES_EVENTS[0], MESSAGES_EVENTS[1]];
    for leaves in [Leaves::Reset, Leaves::Cleanly] {
        let engine = streaming(&EVENTS, leaves).await;
        let seen = broken("/v1/messages", messages_body(true), &engine).await;
        assert_eq!(seen, EVENTS.concat(), "{leaves:?}");
    }
}

#[tokio::test]
async fn a_null_stop_reason_never_arrives() {
    static EVENTS: [&str; 4] = [
        MESSAGES_EVENTS[0],
        MESSAGES_EVENTS[1],
        NULL_STOP_EVENT,
        MESSAGES_EVENTS[3],
    ];
    let engine = streaming(&EVENTS, Leaves::Cleanly).await;
    let seen = broken("/v1/messages", messages_body(true), &engine).await;
    assert_eq!(seen, EVENTS[..2].concat());
}

#[tokio::test]
async fn openai_streams_end_with_an_error_event() {
    static EVENTS: [&str; 1] = [CHAT_EVENT];
    static RESPONSES: [&str; 1] = [
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n",
    ];
    let responses = "{\"model\":\"demo\",\"stream\":true,\"input\":\"x\"}".to_owned();
    let completions = "{\"model\":\"demo\",\"stream\":true,\"prompt\":\"x\"}".to_owned();
    for (path, body, events) in [
        ("/v1/chat/completions", chat_body(true), &EVENTS),
        ("/v1/completions", completions, &EVENTS),
        ("/v1/responses", responses, &RESPONSES),
    ] {
        for leaves in [Leaves::Reset, Leaves::Cleanly] {
            let engine = streaming(events, leaves).await;
            let seen = broken(path, body.clone(), &engine).await;
            let error = seen.strip_prefix(events[0]).unwrap();
            assert!(error.contains("broke off"), "{path} {leaves:?}: {error}");
            assert!(error.ends_with("\n\n"));
            let data = error.lines().find_map(|line| line.strip_prefix("data: "));
            serde_json::from_str::<serde_json::Value>(data.unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn an_empty_stream_is_502() {
    let engine = streaming(&[], Leaves::Cleanly).await;
    let warden = Warden::before(&[&engine]).await;
    let request = post("/v1/messages", "", messages_body(true));
    let reply = warden.client().await.ask(request).await;
    assert_eq!(reply.status, 502);
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Lost));
}

/// Replies that are no stream and can be no success.
#[tokio::test]
async fn a_broken_whole_reply_is_502() {
    let cases = [
        (
            "a null stop reason",
            "content-length: 52\r\n\r\n{\"type\":\"message\",\"content\":[],\"stop_reason\": null}",
        ),
        (
            "half a body",
            "content-length: 5000\r\n\r\n{\"type\":\"message\",",
        ),
        (
            "half a chunked body",
            "transfer-encoding: chunked\r\n\r\n5\r\n{\"typ\r\n",
        ),
        ("half a JSON text", "content-length: 8\r\n\r\n{\"type\":"),
    ];
    for (what, rest) in cases {
        let reply = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{rest}");
        let engine = Engine::start(move |mut conn: Conn| {
            let reply = reply.clone();
            async move {
                if conn.request().await.is_some() {
                    conn.send(reply).await;
                }
            }
        })
        .await;
        let warden = Warden::before(&[&engine]).await;
        let request = post("/v1/messages", "", messages_body(false));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.status, 502, "{what}");
        assert_eq!(reply.json()["type"], "error", "{what}");
        assert_eq!(warden.settled().await.end, Some(RequestEnd::Lost), "{what}");
        assert_eq!(engine.received().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_whole_reply_too_large_to_hold_is_cut_visibly() {
    let engine = Engine::start(|mut conn: Conn| async move {
        if conn.request().await.is_some() {
            let body = "x".repeat(5000);
            conn.send(format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{body}"))
                .await;
        }
    })
    .await;
    let mut setup = Setup::before(&[&engine]);
    setup.limits.held_reply_bytes_max = 1000;
    let warden = Warden::start(setup).await;
    let request = post("/v1/chat/completions", "", chat_body(false));
    let reply = warden.client().await.ask(request).await;
    assert_eq!((reply.status, reply.ended), (200, Ended::Broken));
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Cut));
}

/// An HTTP/1.0 body ends with its connection, so only a reset shows that it is cut.
#[tokio::test]
async fn an_old_client_sees_a_reset() {
    static EVENTS: [&str; 1] = [MESSAGES_EVENTS[0]];
    let engine = streaming(&EVENTS, Leaves::Reset).await;
    let warden = Warden::before(&[&engine]).await;
    let body = messages_body(true);
    let mut client = warden.client().await;
    client
        .send(format!(
            "POST /v1/messages HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    assert!(client.was_reset().await);
}

/// An HTTP/1.0 engine ends its bodies by closing, so only the content tells whether one is whole.
#[tokio::test]
async fn an_old_engines_stream_is_whole_or_visibly_cut() {
    for (events, ended) in [(4, Ended::Cleanly), (2, Ended::Broken)] {
        let engine = Engine::start(move |mut conn: Conn| async move {
            if conn.request().await.is_some() {
                let body = MESSAGES_EVENTS[..events].concat();
                conn.send(format!(
                    "HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}"
                ))
                .await;
            }
        })
        .await;
        let warden = Warden::before(&[&engine]).await;
        let request = post("/v1/messages", "", messages_body(true));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.text(), MESSAGES_EVENTS[..events].concat());
        assert_eq!((reply.status, reply.ended), (200, ended));
        warden.settled().await;
    }
}

fn impatient(timeout: Duration) -> Limits {
    Limits {
        progress_timeout: timeout,
        ..Limits::default()
    }
}

#[tokio::test]
async fn a_replica_that_stands_still_is_504_before_a_byte_and_a_cut_after_one() {
    for (events, status) in [(0, 504), (1, 200)] {
        let engine = Engine::start(move |mut conn: Conn| async move {
            if conn.request().await.is_some() {
                conn.begin_stream().await;
                for event in &MESSAGES_EVENTS[..events] {
                    conn.event(event).await;
                }
                conn.closed().await;
            }
        })
        .await;
        let mut setup = Setup::before(&[&engine]);
        setup.limits = impatient(Duration::from_millis(100));
        let warden = Warden::start(setup).await;
        let request = post("/v1/messages", "", messages_body(true));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.ended == Ended::Broken, status == 200);
        let request = warden.settled().await;
        assert_eq!(
            (request.status, request.end),
            (Some(status), Some(RequestEnd::Timeout))
        );
        assert_eq!(engine.received().len(), 1, "a timeout is not retried");
    }
}

/// Where no replica was decided on, one that has nothing to do proves nothing.
#[tokio::test]
async fn what_went_to_no_certain_replica_is_504_too() {
    let engine = Engine::start(|mut conn: Conn| async move {
        if conn.request().await.is_some() {
            conn.closed().await;
        }
    })
    .await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    setup.routing = "affinity = false";
    setup.limits = impatient(Duration::from_millis(100));
    let warden = Warden::start(setup).await;
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let request = post(path, "", messages_body(false));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.status, 504, "{path}");
        assert_eq!(warden.settled().await.end, Some(RequestEnd::Timeout));
    }
}

/// A long prefill: no byte for this request, but the replica's counters move.
#[tokio::test]
async fn a_replica_that_moves_is_waited_for() {
    let timeout = Duration::from_millis(500);
    let engine = Engine::start(move |mut conn: Conn| async move {
        if conn.request().await.is_some() {
            conn.begin_stream().await;
            tokio::time::sleep(timeout * 3).await;
            for event in MESSAGES_EVENTS {
                conn.event(event).await;
            }
            conn.end_stream().await;
            conn.closed().await;
        }
    })
    .await;
    let mut setup = Setup::before(&[&engine]);
    setup.limits = impatient(timeout);
    let warden = Warden::start(setup).await;
    let model = warden.fleet.models[0].clone();
    let scrapes = tokio::spawn(async move {
        for tokens_total in 1.. {
            let gauges = Gauges {
                running: 1,
                waiting: 0,
                kv_cache_usage: 0.5,
                tokens_total,
            };
            let event = Event::Scraped(ReplicaIndex(0), gauges);
            model.router.lock().observe(clock::now(), event);
            tokio::time::sleep(timeout / 20).await;
        }
    });
    let request = post("/v1/messages", "", messages_body(true));
    let reply = warden.client().await.ask(request).await;
    scrapes.abort();
    assert_eq!((reply.status, reply.ended), (200, Ended::Cleanly));
}
