use serde_json::{Value, json};

use crate::{
    config,
    http::{Event, text},
    start,
};

fn body(text: &str) -> Value {
    json!({"model": "demo", "messages": [{"role": "user", "content": text}]})
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_vllms_chunks() {
    let (_engine, client) = start(config()).await;
    let mut body = body("[[script: say one two]]");
    body["stream"] = json!(true);
    let headers = [("x-request-id", "abc")];
    let reply = client
        .post_with("/v1/chat/completions", &headers, &body)
        .await;
    let events = reply.events();
    assert!(events.iter().all(|event| event.name.is_empty()));
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(Event::json).collect();
    for chunk in &chunks {
        assert_eq!(chunk["id"], "chatcmpl-abc");
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk.get("usage"), None);
    }
    let choices: Vec<_> = chunks.iter().map(|chunk| &chunk["choices"][0]).collect();
    assert_eq!(
        choices,
        [
            &json!({"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null}),
            &json!({"index": 0, "delta": {"content": "one "}, "logprobs": null, "finish_reason": null, "token_ids": null}),
            &json!({"index": 0, "delta": {"content": "two"}, "logprobs": null, "finish_reason": null, "token_ids": null}),
            &json!({"index": 0, "delta": {"content": ""}, "logprobs": null, "finish_reason": "stop", "stop_reason": null, "token_ids": null}),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn usage_comes_where_it_was_asked_for() {
    let (_engine, client) = start(config()).await;
    let long = text(1, 100);
    client.post("/v1/chat/completions", &body(&long)).await;
    let mut streamed = body(&long);
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    let events = client
        .post("/v1/chat/completions", &streamed)
        .await
        .events();
    let last = events[events.len() - 2].json();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
    assert_eq!(events[0].json().get("usage"), None);

    let mut forced = config();
    forced.force_include_usage = true;
    let (_engine, client) = start(forced).await;
    streamed["stream_options"] = json!(null);
    let events = client
        .post("/v1/chat/completions", &streamed)
        .await
        .events();
    let chunks = &events[..events.len() - 1];
    for (index, event) in chunks.iter().enumerate() {
        let usage = &event.json()["usage"];
        let completion = index.min(chunks.len() - 2);
        assert_eq!(usage["completion_tokens"], completion, "{event:?}");
        assert_eq!(usage["prompt_tokens"], 109);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_come_whole_and_in_pieces() {
    let (_engine, client) = start(config()).await;
    let mut body = body(r#"[[script: Read {"path":"a"} & Read {"path":"b"}; say read both]]"#);
    body["tools"] = json!([{"type": "function", "function": {"name": "Read", "parameters": {}}}]);
    let whole = client.post("/v1/chat/completions", &body).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], json!(null));
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let arguments: Vec<_> = calls.iter().map(|c| &c["function"]["arguments"]).collect();
    assert_eq!(arguments, [r#"{"path":"a"}"#, r#"{"path":"b"}"#]);

    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let events = client
        .post("/v1/chat/completions", &streamed)
        .await
        .events();
    let mut pieces = [String::new(), String::new()];
    let mut ids = Vec::new();
    for event in &events[..events.len() - 1] {
        let call = &event.json()["choices"][0]["delta"]["tool_calls"][0];
        if let Some(index) = call["index"].as_u64() {
            pieces[index as usize] += call["function"]["arguments"].as_str().unwrap();
            ids.extend(call["id"].as_str().map(str::to_owned));
        }
    }
    assert_eq!(pieces, [r#"{"path":"a"}"#, r#"{"path":"b"}"#]);
    assert_eq!(ids, [calls[0]["id"].clone(), calls[1]["id"].clone()]);

    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(choice["message"].clone());
    for call in calls {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "ok"}));
    }
    let next = client.post("/v1/chat/completions", &body).await.json();
    assert_eq!(next["choices"][0]["message"]["content"], "read both");
    let cached = &next["usage"]["prompt_tokens_details"]["cached_tokens"];
    let before = whole["usage"]["total_tokens"].as_u64().unwrap();
    assert_eq!(cached.as_u64().unwrap(), (before - 1) / 16 * 16);
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_a_reply_may_fill_the_context() {
    let mut small = config();
    small.max_model_len = Some(200);
    let (_engine, client) = start(small).await;
    let reply = client
        .post("/v1/chat/completions", &body("[[script: write 1000]]"))
        .await
        .json();
    assert_eq!(reply["usage"]["total_tokens"], 200);
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
}
