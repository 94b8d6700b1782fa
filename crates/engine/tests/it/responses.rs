use engine::VllmVersion;
use serde_json::{Value, json};

use crate::{config, http::Event, start};

fn body(input: &Value) -> Value {
    json!({
        "model": "demo", "input": input,
        "tools": [{"type": "function", "name": "Read", "parameters": {}}],
    })
}

const SCRIPT: &str = r#"[[script: say hi & Read {"path":"a"}; say done]]"#;

#[tokio::test(start_paused = true)]
async fn a_stream_has_vllms_events_in_order() {
    let (_engine, client) = start(config()).await;
    let mut body = body(&json!(SCRIPT));
    body["stream"] = json!(true);
    let events = client.post("/v1/responses", &body).await.events();
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    let deltas = "response.function_call_arguments.delta";
    let mut distinct = names.clone();
    distinct.dedup();
    assert_eq!(
        distinct,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            deltas,
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let data: Vec<Value> = events.iter().map(Event::json).collect();
    for (number, (event, name)) in data.iter().zip(&names).enumerate() {
        assert_eq!(event["sequence_number"], number);
        assert_eq!(event["type"], **name);
    }
    let arguments: String = data
        .iter()
        .filter(|event| event["type"] == deltas)
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(arguments, r#"{"path":"a"}"#);
    let done: Vec<_> = data
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    let completed = &data.last().unwrap()["response"];
    let output = completed["output"].as_array().unwrap();
    assert_eq!(output.len(), done.len());
    for (whole, streamed) in output.iter().zip(&done) {
        for key in ["type", "content", "name", "arguments", "call_id", "status"] {
            assert_eq!(whole[key], streamed[key]);
        }
    }
    assert_eq!(completed["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn an_agent_loop_goes_on_from_the_items() {
    let (_engine, client) = start(config()).await;
    let first = client
        .post("/v1/responses", &body(&json!(SCRIPT)))
        .await
        .json();
    let output = first["output"].as_array().unwrap();
    assert_eq!(output[0]["content"][0]["text"], "hi");
    assert_eq!(output[1]["name"], "Read");
    let mut input = vec![json!({"role": "user", "content": SCRIPT})];
    input.extend(output.iter().cloned());
    let call = &output[1]["call_id"];
    input.push(json!({"type": "function_call_output", "call_id": call, "output": "ok"}));
    let second = client
        .post("/v1/responses", &body(&json!(input)))
        .await
        .json();
    assert_eq!(second["output"][0]["content"][0]["text"], "done");
    let usage = &second["usage"];
    let before = first["usage"]["total_tokens"].as_u64().unwrap();
    let cached = &usage["input_tokens_details"]["cached_tokens"];
    assert_eq!(cached.as_u64().unwrap(), (before - 1) / 16 * 16);
}

#[tokio::test(start_paused = true)]
async fn a_reply_cut_by_length_is_incomplete() {
    let (_engine, client) = start(config()).await;
    let mut body = body(&json!("hello"));
    body["max_output_tokens"] = json!(4);
    let reply = client.post("/v1/responses", &body).await.json();
    assert_eq!(reply["status"], "incomplete");
    assert_eq!(reply["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(reply["usage"]["output_tokens"], 4);
}

#[tokio::test(start_paused = true)]
async fn the_rank_header_counts_from_0_33_on() {
    for (version, expected) in [
        (VllmVersion::new(0, 32, 0), false),
        (VllmVersion::new(0, 33, 0), true),
    ] {
        let mut config = config();
        config.data_parallel_size = 4;
        config.vllm_version = version;
        let (_engine, client) = start(config).await;
        let headers = [("x-data-parallel-rank", "2")];
        for _ in 0..4 {
            client
                .post_with("/v1/responses", &headers, &body(&json!("hello")))
                .await;
        }
        let prompts = client.metric("request_success_total", "").await;
        assert_eq!(prompts[&2] > 3.5, expected, "{version}: {prompts:?}");
    }
}
