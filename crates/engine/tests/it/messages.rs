use serde_json::{Value, json};

use crate::{
    config,
    http::{ask, ask_stream},
    start,
};

#[tokio::test(start_paused = true)]
async fn a_stream_has_vllms_events_keys_and_usage() {
    let (_engine, client) = start(config()).await;
    let headers = [("x-request-id", "abc")];
    let reply = client
        .post_with(
            "/v1/messages",
            &headers,
            &ask_stream("[[script: say Grüße]]"),
        )
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    let events = reply.events();
    let expected = [
        (
            "message_start",
            r#"{"type":"message_start","message":{"id":"chatcmpl-abc","type":"message","role":"assistant","content":[],"model":"demo","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":15,"output_tokens":0}}}"#,
        ),
        (
            "content_block_start",
            r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Grü"},"index":0}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"ße"},"index":0}"#,
        ),
        (
            "content_block_stop",
            r#"{"type":"content_block_stop","index":0}"#,
        ),
        (
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":15,"output_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}"#,
        ),
        ("message_stop", r#"{"type":"message_stop"}"#),
    ];
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.name.as_str(), event.data.as_str()))
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_says_what_its_stream_says() {
    let (_engine, client) = start(config()).await;
    let whole = client.post("/v1/messages", &ask("hello")).await.json();
    let streamed = client.post("/v1/messages", &ask_stream("hello")).await;
    let deltas: String = streamed
        .events()
        .iter()
        .filter_map(|event| event.json()["delta"]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(whole["content"], json!([{"type": "text", "text": deltas}]));
    assert_eq!(whole["stop_reason"], "end_turn");
    assert!(deltas.len() >= 16 * 4 && deltas.ends_with('.'));
}

#[tokio::test(start_paused = true)]
async fn max_tokens_cuts_a_reply() {
    let (_engine, client) = start(config()).await;
    let mut body = ask("hello");
    body["max_tokens"] = json!(5);
    let reply = client.post("/v1/messages", &body).await.json();
    assert_eq!(reply["stop_reason"], "max_tokens");
    assert_eq!(reply["usage"]["output_tokens"], 5);
    assert_eq!(reply["content"][0]["text"].as_str().unwrap().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn without_the_details_flag_nothing_is_said_of_the_cache() {
    let mut config = config();
    config.prompt_tokens_details = false;
    let (_engine, client) = start(config).await;
    let reply = client.post("/v1/messages", &ask("hello")).await.json();
    let keys: Vec<_> = reply["usage"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["input_tokens", "output_tokens"]);
}

/// Adds the reply and results of its calls, as an agent does; false where it called nothing.
fn take_turn(body: &mut Value, content: &Value) -> bool {
    let results: Vec<Value> = content
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "tool_use")
        .map(|block| json!({"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}))
        .collect();
    let go_on = !results.is_empty();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": content}));
    messages.push(json!({"role": "user", "content": results}));
    go_on
}

#[tokio::test(start_paused = true)]
async fn a_script_drives_an_agent_loop() {
    let (_engine, client) = start(config()).await;
    let mut body = ask(
        r#"[[script: say first & Read {"path":"a"}; Read {"path":"b"} & Bash {"command":"c"}; say done]]"#,
    );
    body["tools"] =
        json!([{"name": "Read", "input_schema": {}}, {"name": "Bash", "input_schema": {}}]);
    let mut turns = Vec::new();
    loop {
        let reply = client.post("/v1/messages", &body).await.json();
        let content = &reply["content"];
        let names: Vec<String> = content
            .as_array()
            .unwrap()
            .iter()
            .map(|block| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None => format!("{} {}", block["name"].as_str().unwrap(), block["input"]),
            })
            .collect();
        turns.push((names, reply["stop_reason"].clone()));
        if !take_turn(&mut body, content) {
            break;
        }
    }
    let turn = |names: &[&str], reason: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        (names, json!(reason))
    };
    assert_eq!(
        turns,
        [
            turn(&["first", r#"Read {"path":"a"}"#], "tool_use"),
            turn(
                &[r#"Read {"path":"b"}"#, r#"Bash {"command":"c"}"#],
                "tool_use"
            ),
            turn(&["done"], "end_turn"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_streamed_call_comes_as_json_pieces() {
    let (_engine, client) = start(config()).await;
    let mut body = ask_stream(r#"[[script: Read {"path":"some/long/path"}]]"#);
    body["tools"] = json!([{"name": "Read", "input_schema": {}}]);
    let reply = client.post("/v1/messages", &body).await;
    let events: Vec<Value> = reply
        .events()
        .iter()
        .map(super::http::Event::json)
        .collect();
    let starts: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "content_block_start")
        .collect();
    assert_eq!(starts.len(), 1);
    assert_eq!(starts[0]["content_block"]["type"], "tool_use");
    assert_eq!(starts[0]["content_block"]["name"], "Read");
    assert_eq!(starts[0]["content_block"]["input"], json!({}));
    let pieces: Vec<_> = events
        .iter()
        .filter_map(|event| event["delta"]["partial_json"].as_str())
        .collect();
    assert!(pieces.len() > 3);
    assert_eq!(pieces.concat(), r#"{"path":"some/long/path"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_demanded_tool_is_called() {
    let (_engine, client) = start(config()).await;
    let mut body = ask("hello");
    body["tools"] = json!([{"name": "Read", "input_schema": {
        "type": "object", "required": ["path"], "properties": {"path": {"type": "string"}},
    }}]);
    for (choice, reason) in [
        (json!({"type": "any"}), "tool_use"),
        // vLLM says "stop" for a tool that the client named.
        (json!({"type": "tool", "name": "Read"}), "end_turn"),
    ] {
        body["tool_choice"] = choice;
        let reply = client.post("/v1/messages", &body).await.json();
        assert_eq!(reply["content"][0]["input"], json!({"path": "text"}));
        assert_eq!(reply["stop_reason"], reason);
    }
    body["tool_choice"] = json!({"type": "none"});
    let reply = client.post("/v1/messages", &body).await.json();
    assert_eq!(reply["content"][0]["type"], "text");
}

#[tokio::test(start_paused = true)]
async fn count_tokens_counts_what_the_prompt_takes() {
    let (_engine, client) = start(config()).await;
    let mut body = ask("hello");
    body["system"] = json!([{"type": "text", "text": "Be brief."}]);
    let counted = client.post("/v1/messages/count_tokens", &body).await.json();
    let mut plain = body.clone();
    plain["stream"] = json!(true);
    let events = client.post("/v1/messages", &plain).await.events();
    let prompt = &events[0].json()["message"]["usage"]["input_tokens"];
    assert_eq!(&counted["input_tokens"], prompt);
    assert_eq!(
        &counted["context_management"]["original_input_tokens"],
        prompt
    );
}
