//! A warden on a free port before scripted engines, and a client that sees every byte.

mod client;
mod engine;
mod http;
mod seeds;
mod steps;
mod warden;

use std::{future::Future, time::Duration};

pub(crate) use client::{Client, Ended, Reply, get, post};
pub(crate) use engine::{Conn, Engine, json_reply};
pub(crate) use http::Wire;
pub(crate) use seeds::seeds;
pub(crate) use steps::Steps;
pub(crate) use warden::{Setup, Warden};

/// Bound of every wait in these tests: far above what any of them takes, so that a slow machine
/// passes and a hang fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that must come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    soon(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// A body of the Messages API.
pub(crate) fn messages_body(stream: bool) -> String {
    format!(
        r#"{{"model":"demo","max_tokens":16,"stream":{stream},"messages":[{{"role":"user","content":"hello"}}]}}"#
    )
}

/// A body of the chat API.
pub(crate) fn chat_body(stream: bool) -> String {
    format!(
        r#"{{"model":"demo","stream":{stream},"messages":[{{"role":"user","content":"hello"}}]}}"#
    )
}

/// The events of a whole Messages stream.
pub(crate) const MESSAGES_EVENTS: [&str; 4] = [
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"usage\":{\"input_tokens\":12,\"output_tokens\":0}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":4,\"cache_read_input_tokens\":8,\"output_tokens\":3}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];

/// What a dying vLLM makes look complete.
pub(crate) const NULL_STOP_EVENT: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null},\"usage\":{\"output_tokens\":1}}\n\n";

/// A chunk of a chat stream.
pub(crate) const CHAT_EVENT: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";

/// A whole reply of the Messages API.
pub(crate) const MESSAGE: &str = r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":12,"output_tokens":3}}"#;
