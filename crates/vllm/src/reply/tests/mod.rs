//! Tests of the tap: what it reads, what it withholds, and that no split changes either.

mod split;
mod stream;
mod whole;

use super::*;
use Dialect::{ChatCompletions as Chat, Completions, Messages, Other, Responses};

/// All that a tap says of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    end: StreamEnd,
    usage: Option<Usage>,
    saw_first_event: bool,
    /// What the client was given.
    passed: Vec<u8>,
    is_broken: bool,
}

/// Feeds a reply in these chunks and plays the gateway: holds what must be held, passes what may.
fn run<'a>(dialect: Dialect, streaming: bool, chunks: impl IntoIterator<Item = &'a [u8]>) -> Told {
    let mut tap = ReplyTap::new(dialect, streaming, 200);
    let (mut held, mut passed, mut is_broken) = (Vec::new(), Vec::new(), false);
    for chunk in chunks {
        held.extend_from_slice(chunk);
        match tap.feed(chunk) {
            TapOutput::Pass(bytes) => {
                passed.extend(held.drain(..bytes));
                assert!(held.len() <= HELD_BYTES_MAX);
            }
            TapOutput::Broken(bytes) if is_broken => assert_eq!(bytes, 0, "nothing after it"),
            TapOutput::Broken(bytes) => {
                passed.extend(held.drain(..bytes));
                is_broken = true;
            }
        }
    }
    let end = tap.finish();
    Told {
        end,
        usage: tap.usage(),
        saw_first_event: tap.saw_first_event(),
        passed,
        is_broken,
    }
}

fn stream(dialect: Dialect, body: &str) -> Told {
    run(dialect, true, [body.as_bytes()])
}

fn whole(dialect: Dialect, body: &str) -> Told {
    run(dialect, false, [body.as_bytes()])
}

fn usage(prompt_tokens: u64, cached_tokens: Option<u64>, completion_tokens: u64) -> Usage {
    Usage {
        prompt_tokens,
        cached_tokens,
        completion_tokens,
    }
}

/// A named event.
fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// An event without a name.
fn data(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The start of a Messages stream of 120 prompt tokens, as vLLM sends it, and some text.
fn messages_start() -> String {
    [
        event(
            "message_start",
            r#"{"type":"message_start","message":{"id":"chatcmpl-1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":120,"output_tokens":0}}}"#,
        ),
        event(
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
        event(
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"say \"usage\", é\n"}}"#,
        ),
        event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
    ]
    .concat()
}

fn message_delta(stop_reason: &str, usage: &str) -> String {
    event(
        "message_delta",
        &format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":{stop_reason},"stop_sequence":null}},"usage":{usage}}}"#
        ),
    )
}

fn message_stop() -> String {
    event("message_stop", r#"{"type":"message_stop"}"#)
}

/// A chat chunk with a piece of text and whatever else.
fn chat_chunk(finish_reason: &str, more: &str) -> String {
    data(&format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"content":"\"abort\" \"error\":"}},"logprobs":null,"finish_reason":{finish_reason}}}]{more}}}"#
    ))
}
