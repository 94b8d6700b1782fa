//! What watching a stream costs: `cargo bench -p lm-warden-vllm --bench tap`.
//!
//! Streams of 256 deltas, one event to a chunk as vLLM sends them, and torn in the middle of each,
//! the worst that a network does.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use vllm::{Dialect, ReplyTap};

const DELTAS: usize = 256;

fn messages() -> Vec<String> {
    let delta = concat!(
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,",
        "\"delta\":{\"type\":\"text_delta\",\"text\":\" some words\"}}\n\n"
    );
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n";
    let end = concat!(
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
        "\"usage\":{\"input_tokens\":3,\"output_tokens\":256,\"cache_read_input_tokens\":6}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
    );
    stream(start, delta, end)
}

fn chat(usage_of_each: &str) -> Vec<String> {
    let delta = format!(
        concat!(
            "data: {{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1,",
            "\"model\":\"demo\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" some words\"}},",
            "\"logprobs\":null,\"finish_reason\":null}}]{}}}\n\n"
        ),
        usage_of_each
    );
    stream("", &delta, "data: [DONE]\n\n")
}

fn stream(start: &str, delta: &str, end: &str) -> Vec<String> {
    let mut events = vec![start.to_owned()];
    events.extend(std::iter::repeat_n(delta.to_owned(), DELTAS));
    events.push(end.to_owned());
    events
}

/// The same bytes, each chunk from the middle of one event to the middle of the next.
fn torn(events: &[String]) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut rest = String::new();
    for event in events {
        let (one, other) = event.split_at(event.len() / 2);
        chunks.push(rest + one);
        rest = String::from(other);
    }
    chunks.push(rest);
    chunks
}

fn streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("tap 256 deltas");
    let usage = ",\"usage\":{\"prompt_tokens\":9,\"total_tokens\":10,\"completion_tokens\":1}";
    for (name, dialect, events) in [
        ("messages", Dialect::Messages, messages()),
        ("chat", Dialect::ChatCompletions, chat("")),
        ("chat, usage on each", Dialect::ChatCompletions, chat(usage)),
    ] {
        for (form, chunks) in [("", events.clone()), (", torn", torn(&events))] {
            group.bench_function(format!("{name}{form}"), |b| {
                b.iter(|| {
                    let mut tap = ReplyTap::new(dialect, true, 200);
                    for chunk in &chunks {
                        black_box(tap.feed(black_box(chunk.as_bytes())));
                    }
                    tap.finish()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, streams);
criterion_main!(benches);
