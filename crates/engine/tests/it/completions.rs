use serde_json::json;

use crate::{config, start};

#[tokio::test(start_paused = true)]
async fn text_and_tokens_are_completed_alike() {
    let (_engine, client) = start(config()).await;
    let prompt = "Once upon a time";
    let tokens = client
        .post("/tokenize", &json!({"model": "demo", "prompt": prompt}))
        .await
        .json()["tokens"]
        .clone();
    let mut texts = Vec::new();
    for prompt in [
        json!(prompt),
        json!([prompt]),
        tokens.clone(),
        json!([tokens]),
    ] {
        let body = json!({"model": "demo", "prompt": prompt, "max_tokens": 7});
        let reply = client.post("/v1/completions", &body).await.json();
        assert_eq!(reply["object"], "text_completion");
        assert_eq!(reply["choices"][0]["finish_reason"], "length");
        assert_eq!(reply["usage"]["completion_tokens"], 7);
        texts.push(reply["choices"][0]["text"].clone());
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_usage_and_done() {
    let (_engine, client) = start(config()).await;
    let body = json!({
        "model": "demo", "prompt": "Once", "stream": true,
        "stream_options": {"include_usage": true},
    });
    let events = client.post("/v1/completions", &body).await.events();
    // 16 tokens where the client sets no limit, then usage, then the end.
    assert_eq!(events.len(), 18);
    assert_eq!(events[15].json()["choices"][0]["finish_reason"], "length");
    assert_eq!(
        events[16].json()["usage"],
        json!({
            "prompt_tokens": 1, "total_tokens": 17, "completion_tokens": 16,
            "prompt_tokens_details": {"cached_tokens": 0},
        })
    );
    assert_eq!(events[17].data, "[DONE]");
}

#[tokio::test(start_paused = true)]
async fn several_prompts_are_refused_in_words() {
    let (_engine, client) = start(config()).await;
    let body = json!({"model": "demo", "prompt": ["a", "b"]});
    let reply = client.post("/v1/completions", &body).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["param"], "prompt");
}
