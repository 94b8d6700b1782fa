//! What reading a body costs: `cargo bench -p lm-warden-vllm --bench scan`.
//!
//! The bound is 0.2 ms for the 200 KB agent body; `added` tells what the chain of the prompt's parts adds
//! to each megabyte, in one run: at most 0.3 ms. `structure` is the same size in short members, the
//! worst that a client sends; `accents` has text beyond ASCII. Where recordings of real
//! clients lie beside the repository (or under `LM_WARDEN_SHARED`), the largest is measured too.

#![expect(clippy::disallowed_methods, reason = "a bench reads its fixtures")]

use std::{fmt::Write as _, hint::black_box, path::Path, time::Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vllm::{Dialect, Digests, scan};

const BODY_BYTES: usize = 200_000;

/// Words, with an escape about every 40 bytes as in source code and tool output.
fn text(seed: &mut u64, bytes: usize, line_end: &str) -> String {
    let mut text = String::with_capacity(bytes + 64);
    let mut line = 0;
    while text.len() < bytes {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let word = 2 + (*seed >> 60) as usize;
        let letter = char::from(b'a' + (*seed >> 40) as u8 % 26);
        text.extend(std::iter::repeat_n(letter, word));
        line += word + 1;
        if line < 40 {
            text.push(' ');
        } else {
            text.push_str(if (*seed >> 33).is_multiple_of(4) {
                "\\\""
            } else {
                line_end
            });
            line = 0;
        }
    }
    text
}

/// A body in the shape and key order of Claude Code's: 30 KB of tools, 8 KB of system prompt, the
/// rest turns with tool calls.
fn agent_body(line_end: &str) -> Vec<u8> {
    let mut seed = 1;
    let mut messages = format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"{}","cache_control":{{"type":"ephemeral"}}}}]}}"#,
        text(&mut seed, 4000, line_end)
    );
    for turn in 0.. {
        if messages.len() > BODY_BYTES - 38_000 {
            break;
        }
        let _ = write!(
            messages,
            concat!(
                r#",{{"role":"assistant","content":[{{"type":"text","text":"{}"}},{{"type":"tool_use","#,
                r#""id":"toolu_{:024}","name":"Bash","input":{{"command":"{}","description":"{}"}}}}]}},"#,
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{:024}","#,
                r#""content":"{}"}}]}}"#
            ),
            text(&mut seed, 300, line_end),
            turn,
            text(&mut seed, 120, line_end),
            text(&mut seed, 40, line_end),
            turn,
            text(&mut seed, 2500, line_end),
        );
    }
    let system = text(&mut seed, 8000, line_end);
    let tools = (0..12).map(|tool| {
        format!(
            concat!(
                r#"{{"name":"Tool{}","description":"{}","input_schema":{{"type":"object","properties":"#,
                r#"{{"path":{{"type":"string","description":"{}"}},"limit":{{"type":"integer"}}}},"#,
                r#""required":["path"],"additionalProperties":false}}}}"#
            ),
            tool,
            text(&mut seed, 2200, line_end),
            text(&mut seed, 150, line_end),
        )
    });
    let tools: Vec<_> = tools.collect();
    format!(
        concat!(
            r#"{{"model":"demo","messages":[{}],"system":[{{"type":"text","text":"{}"}}],"tools":[{}],"#,
            r#""metadata":{{"user_id":"{{\"device_id\":\"0\",\"session_id\":\"3f2a\"}}"}},"#,
            r#""max_tokens":32000,"thinking":{{"type":"adaptive"}},"stream":true}}"#
        ),
        messages,
        system,
        tools.join(",")
    )
    .into_bytes()
}

/// A body of one deep, fine-grained tool schema after the other.
fn structure_body() -> Vec<u8> {
    let tool = concat!(
        r#"{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string"},"#,
        r#""b":{"type":"array","items":{"type":"integer","minimum":0}},"c":{"enum":["x","y"]}}}}"#
    );
    let tools = vec![tool; BODY_BYTES / tool.len()].join(",");
    format!(r#"{{"model":"demo","messages":[],"tools":[{tools}]}}"#).into_bytes()
}

/// The largest recorded body, cut out of its record as it stands.
fn recorded_body() -> Option<Vec<u8>> {
    let shared = std::env::var("LM_WARDEN_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into());
    let file = "fixtures/clients/claude-code-2.1.332/webfetch-side-request/0001.json";
    let record = std::fs::read(Path::new(&shared).join(file)).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
    serde_json::to_vec(&record["request"]["body"]).ok()
}

fn bodies(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    let mut bodies = vec![
        ("agent", agent_body("\\n")),
        ("accents", agent_body("é — ü ✓ ")),
        ("structure", structure_body()),
    ];
    bodies.extend(recorded_body().map(|body| ("recorded", body)));
    for (name, body) in bodies {
        group.throughput(Throughput::Bytes(body.len() as u64));
        for (kind, digests) in [("identity", Digests::Identity), ("prompt", Digests::Prompt)] {
            group.bench_function(format!("{name} {} KB, {kind}", body.len() / 1000), |b| {
                let scan = || scan(Dialect::Messages, digests, black_box(&body));
                b.iter(|| scan().expect("a valid body"));
            });
        }
    }
    group.finish();
}

/// What [`Digests::Prompt`] costs beyond [`Digests::Identity`]: both in turn, so that whatever else the
/// machine does falls on both alike, and the least of each.
fn added(_: &mut Criterion) {
    let body = agent_body("\\n");
    let once = |digests| {
        let begun = Instant::now();
        black_box(scan(Dialect::Messages, digests, black_box(&body)).expect("a valid body"));
        begun.elapsed().as_secs_f64()
    };
    let [mut identity, mut prompt] = [f64::MAX; 2];
    for _ in 0..3_000 {
        identity = identity.min(once(Digests::Identity));
        prompt = prompt.min(once(Digests::Prompt));
    }
    let per_mb = |seconds: f64| seconds * 1e3 / (body.len() as f64 / 1e6);
    println!(
        "added: {:.3} ms per MB without the chain, {:.3} with it: {:.3} ms more ({:.0} %), at most 0.3",
        per_mb(identity),
        per_mb(prompt),
        per_mb(prompt - identity),
        100.0 * (prompt / identity - 1.0)
    );
    assert!(per_mb(prompt - identity) <= 0.3, "the chain costs too much");
}

criterion_group!(benches, bodies, added);
criterion_main!(benches);
