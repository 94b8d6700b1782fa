//! One turn over HTTP: sent, timed, and read to its end.
//!
//! A turn is what came whole. An error status, a broken stream, and a stream that ended without its
//! closing event are failures, whatever came before them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use vllm::{ReplyTap, StreamEnd, Usage};

use super::{
    http::{Http, deepest, first_words},
    transcript::Api,
};

/// A turn that takes longer failed: no client waits so long.
const TURN_TIMEOUT: Duration = Duration::from_secs(900);

/// A reply that came whole.
#[derive(Debug)]
pub(super) struct Reply {
    /// When the first event came that is neither a ping nor a comment.
    pub(super) first_event: Instant,
    pub(super) text: String,
    pub(super) usage: Usage,
    /// The warden's `x-lm-warden-…` headers; `None` from another server.
    pub(super) route: Option<String>,
    pub(super) replica: Option<u16>,
    pub(super) queue_ms: Option<f64>,
}

/// Sends a turn; an error says in words what became of it.
pub(super) async fn send(
    http: &Http,
    api: Api,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Reply, String> {
    match tokio::time::timeout(TURN_TIMEOUT, exchange(http, api, headers, body)).await {
        Ok(reply) => reply,
        Err(_) => Err(format!("no end within {} min", TURN_TIMEOUT.as_secs() / 60)),
    }
}

async fn exchange(http: &Http, api: Api, headers: HeaderMap, body: Bytes) -> Result<Reply, String> {
    let response = http.post(api.path(), headers, body).await?;
    let (head, mut body) = response.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let streaming = header("content-type").is_some_and(|kind| kind.contains("event-stream"));
    let mut tap = ReplyTap::new(api.dialect(), streaming, head.status.as_u16());
    let mut text = Text::default();
    let mut first_event = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the reply broke off: {}", deepest(&error)))?;
        let Some(chunk) = frame.data_ref() else {
            continue;
        };
        tap.feed(chunk);
        if first_event.is_none() && tap.saw_first_event() {
            first_event = Some(Instant::now());
        }
        text.feed(chunk);
    }
    let end = tap.finish();
    if !head.status.is_success() {
        return Err(format!("{} {}", head.status, first_words(&text.torn)));
    }
    match (end, first_event, tap.usage()) {
        (StreamEnd::Complete, Some(first_event), Some(usage)) => Ok(Reply {
            first_event,
            text: text.told,
            usage,
            route: header("x-lm-warden-route").map(str::to_owned),
            replica: header("x-lm-warden-replica").and_then(|replica| replica.parse().ok()),
            queue_ms: header("x-lm-warden-queue-ms").and_then(|ms| ms.parse().ok()),
        }),
        (StreamEnd::Complete, ..) => Err("the server tells no token usage".to_owned()),
        (StreamEnd::EngineError, ..) => Err("the stream told of an error".to_owned()),
        (StreamEnd::Cut, ..) => Err("the stream ended without its closing event".to_owned()),
    }
}

/// The text of a stream of either API.
#[derive(Debug, Default)]
struct Text {
    /// A line that has not ended.
    torn: Vec<u8>,
    told: String,
}

impl Text {
    fn feed(&mut self, chunk: &[u8]) {
        for byte in chunk {
            if *byte == b'\n' {
                if let Some(piece) = delta(&self.torn) {
                    self.told.push_str(&piece);
                }
                self.torn.clear();
            } else {
                self.torn.push(*byte);
            }
        }
    }
}

fn delta(line: &[u8]) -> Option<String> {
    let data = line.strip_prefix(b"data:")?;
    let event: serde_json::Value = serde_json::from_slice(data).ok()?;
    let text = match event["delta"]["text"].as_str() {
        Some(text) => text,
        None => event["choices"][0]["delta"]["content"].as_str()?,
    };
    Some(text.to_owned())
}

/// The headers by which agents name their conversation.
pub(super) fn headers(api: Api, session: &str, agent: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &'static str, value: &str| {
        let value = HeaderValue::try_from(value).expect("ids are hex digits and dashes");
        headers.insert(name, value);
    };
    match api {
        Api::Messages => {
            insert("x-claude-code-session-id", session);
            insert("x-claude-code-agent-id", agent);
            insert("anthropic-version", "2023-06-01");
            insert("x-app", "cli");
        }
        Api::Chat => insert("x-session-affinity", session),
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_both_apis_is_put_together_however_it_is_split() {
        let stream = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"on\"}}\n\n: comment\ndata: {\"choices\":[{\"delta\":{\"content\":\"e.\"}}]}\n\ndata: [DONE]\n\n";
        for size in [1, 7, stream.len()] {
            let mut text = Text::default();
            for chunk in stream.as_bytes().chunks(size) {
                text.feed(chunk);
            }
            assert_eq!(text.told, "one.");
        }
    }
}
