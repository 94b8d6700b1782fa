//! Streams pass chunk by chunk, and are read along.

use std::sync::Arc;

use api::RequestEnd;
use tokio::sync::Notify;

use crate::support::{
    CHAT_EVENT, Ended, Engine, MESSAGES_EVENTS, Warden, chat_body, messages_body, post,
};

#[tokio::test]
async fn each_event_arrives_before_the_next_is_sent() {
    let seen = Arc::new(Notify::new());
    let go_on = Arc::clone(&seen);
    let engine = Engine::start(move |mut conn| {
        let go_on = Arc::clone(&go_on);
        async move {
            while conn.request().await.is_some() {
                conn.begin_stream().await;
                for event in MESSAGES_EVENTS {
                    conn.event(event).await;
                    go_on.notified().await;
                }
                conn.end_stream().await;
            }
        }
    })
    .await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    for _ in 0..2 {
        client
            .send(post("/v1/messages", "", messages_body(true)))
            .await;
        let head = client.head().await;
        assert_eq!(head.line, "HTTP/1.1 200 OK");
        assert_eq!(
            head.header("content-type"),
            Some("text/event-stream; charset=utf-8")
        );
        for event in MESSAGES_EVENTS {
            assert_eq!(client.chunk().await.unwrap(), event.as_bytes());
            seen.notify_one();
        }
        assert_eq!(client.chunk().await.unwrap(), b"", "the last chunk");
    }
    assert_eq!(
        engine.connections(),
        1,
        "a whole stream gives its connection back"
    );
    let request = warden.settled().await;
    assert_eq!(request.end, Some(RequestEnd::Complete));
    assert_eq!(request.prompt_tokens, Some(12));
    assert_eq!(request.cached_tokens, Some(8));
    assert_eq!(request.completion_tokens, Some(3));
    assert!(request.ttfb_ms.is_some());
}

/// Events torn at every byte: the client gets the same bytes all the same.
#[tokio::test]
async fn a_stream_split_anywhere_arrives_as_sent() {
    let whole = MESSAGES_EVENTS.concat();
    for size in [1, 2, 7, 64] {
        let engine = Engine::start(move |mut conn| async move {
            while conn.request().await.is_some() {
                conn.begin_stream().await;
                for piece in MESSAGES_EVENTS.concat().as_bytes().chunks(size) {
                    conn.event(std::str::from_utf8(piece).unwrap()).await;
                }
                conn.end_stream().await;
            }
        })
        .await;
        let warden = Warden::before(&[&engine]).await;
        let request = post("/v1/messages", "", messages_body(true));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.text(), whole, "in pieces of {size}");
        assert_eq!(reply.ended, Ended::Cleanly);
        assert_eq!(warden.settled().await.completion_tokens, Some(3));
    }
}

#[tokio::test]
async fn an_error_event_of_the_engine_passes_and_counts() {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}\n\n";
    let engine = Engine::start(move |mut conn| async move {
        while conn.request().await.is_some() {
            conn.begin_stream().await;
            conn.event(MESSAGES_EVENTS[0]).await;
            conn.event(error).await;
            conn.end_stream().await;
        }
    })
    .await;
    let warden = Warden::before(&[&engine]).await;
    let request = post("/v1/messages", "", messages_body(true));
    let reply = warden.client().await.ask(request).await;
    assert_eq!(reply.text(), format!("{}{error}", MESSAGES_EVENTS[0]));
    assert_eq!(reply.ended, Ended::Cleanly, "the engine has said it itself");
    assert_eq!(warden.settled().await.end, Some(RequestEnd::EngineError));
}

#[tokio::test]
async fn chat_streams_pass_with_or_without_usage() {
    let done = "data: [DONE]\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
    for (events, prompt, cached) in [
        (vec![CHAT_EVENT, done], None, None),
        (vec![CHAT_EVENT, usage, done], Some(9), Some(4)),
    ] {
        let whole = events.concat();
        let engine = Engine::start(move |mut conn| {
            let events = events.clone();
            async move {
                while conn.request().await.is_some() {
                    conn.begin_stream().await;
                    for event in &events {
                        conn.event(event).await;
                    }
                    conn.end_stream().await;
                }
            }
        })
        .await;
        let warden = Warden::before(&[&engine]).await;
        let request = post("/v1/chat/completions", "", chat_body(true));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(reply.text(), whole);
        let request = warden.settled().await;
        assert_eq!(request.end, Some(RequestEnd::Complete));
        assert_eq!(request.prompt_tokens, prompt);
        assert_eq!(request.cached_tokens, cached);
    }
}
