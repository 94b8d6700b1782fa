//! What is found in the prefix cache, as usage tells it.

use engine::VllmVersion;
use serde_json::{Value, json};

use crate::{
    config,
    http::{Client, ask, text},
    start,
};

/// The whole prompt, of which read from the cache, and the reply, in tokens.
fn usage(reply: &Value) -> (u64, u64, u64) {
    let field = |name: &str| reply["usage"][name].as_u64().unwrap();
    let read = field("cache_read_input_tokens");
    let prompt = field("input_tokens") + read + field("cache_creation_input_tokens");
    (prompt, read, field("output_tokens"))
}

fn add_turn(body: &mut Value, reply: &Value, next: &str) {
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": reply["content"]}));
    messages.push(json!({"role": "user", "content": next}));
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_finds_all_full_blocks_of_prompt_and_reply() {
    let (_engine, client) = start(config()).await;
    let mut body = ask(&text(1, 400));
    body["system"] = json!(text(2, 100));
    let first = client.post("/v1/messages", &body).await.json();
    let (prompt, read, output) = usage(&first);
    assert_eq!(read, 0);
    assert!(prompt > 500);
    add_turn(&mut body, &first, "go on");
    let second = client.post("/v1/messages", &body).await.json();
    let (_, read, _) = usage(&second);
    // The last token was sampled, but never computed.
    assert_eq!(read, (prompt + output - 1) / 16 * 16);
}

#[tokio::test(start_paused = true)]
async fn a_fully_cached_prompt_computes_its_last_block_again() {
    let (_engine, client) = start(config()).await;
    let body = json!({"model": "demo", "prompt": text(1, 64), "max_tokens": 1});
    client.post("/v1/completions", &body).await;
    let again = client.post("/v1/completions", &body).await.json();
    assert_eq!(again["usage"]["prompt_tokens"], 64);
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 48);
}

#[tokio::test(start_paused = true)]
async fn a_salt_keeps_caches_apart_from_0_32_on() {
    for (version, apart) in [("0.31.0", false), ("0.32.0", true)] {
        let vllm_version: VllmVersion = version.parse().unwrap();
        let (_engine, client) = start(engine::Config {
            vllm_version,
            ..config()
        })
        .await;
        let mut body = ask(&text(1, 400));
        let mut read = async |salt: &str| {
            body["cache_salt"] = json!(salt);
            usage(&client.post("/v1/messages", &body).await.json()).1
        };
        assert_eq!(read("a").await, 0);
        assert!(read("a").await > 300, "{version}");
        assert_eq!(read("b").await == 0, apart, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_prompt_does_not_break_the_prefix() {
    let (_engine, client) = start(config()).await;
    let long = text(3, 200);
    let tool = json!({"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}});
    let plain = json!({
        "model": "demo", "max_tokens": 10,
        "tools": [tool],
        "system": long,
        "messages": [{"role": "user", "content": long}],
    });
    let mut marked_tool = tool.clone();
    marked_tool["cache_control"] = json!({"type": "ephemeral"});
    let marked = json!({
        "model": "demo", "max_tokens": 10,
        "metadata": {"user_id": "x"}, "thinking": {"type": "adaptive"},
        "tools": [marked_tool],
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cch=abc123;"},
            {"type": "text", "text": long, "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": long}]}],
    });
    let first = client.post("/v1/messages", &plain).await.json();
    let second = client.post("/v1/messages", &marked).await.json();
    let (prompt, _, _) = usage(&first);
    let (same, read, _) = usage(&second);
    assert_eq!(prompt, same);
    assert_eq!(read, (prompt - 1) / 16 * 16);
}

/// Cached tokens of a second turn that carries a reminder as an inline system message.
async fn read_after_a_reminder(client: &Client) -> u64 {
    let mut body = ask(&text(1, 300));
    let first = client.post("/v1/messages", &body).await.json();
    add_turn(&mut body, &first, "go on");
    let reminder = json!({"role": "system", "content": "Remember to be brief."});
    body["messages"].as_array_mut().unwrap().push(reminder);
    let second = client.post("/v1/messages", &body).await.json();
    usage(&second).1
}

#[tokio::test(start_paused = true)]
async fn an_inline_system_message_breaks_the_prefix_before_0_32() {
    let (_engine, client) = start(config()).await;
    assert_eq!(read_after_a_reminder(&client).await, 0);
    let mut newer = config();
    newer.vllm_version = VllmVersion::new(0, 32, 0);
    let (_engine, client) = start(newer).await;
    assert!(read_after_a_reminder(&client).await >= 304);
}

#[tokio::test(start_paused = true)]
async fn each_rank_has_a_cache_of_its_own() {
    let mut two = config();
    two.data_parallel_size = 2;
    let (_engine, client) = start(two).await;
    let body = ask(&text(1, 100));
    let mut read = Vec::new();
    for rank in ["0", "0", "1", "1"] {
        let headers = [("x-data-parallel-rank", rank)];
        let reply = client.post_with("/v1/messages", &headers, &body).await;
        read.push(usage(&reply.json()).1 > 0);
    }
    assert_eq!(read, [false, true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn resetting_the_prefix_cache_forgets() {
    let mut dev = config();
    dev.dev_endpoints = true;
    let (_engine, client) = start(dev).await;
    let body = ask(&text(1, 100));
    client.post("/v1/messages", &body).await;
    let reset = client.post("/reset_prefix_cache", &json!({})).await;
    assert_eq!(reset.json(), json!({"success": true}));
    let again = client.post("/v1/messages", &body).await.json();
    assert_eq!(usage(&again).1, 0);
}
