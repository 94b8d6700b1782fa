use engine::VllmVersion;
use http::Method;
use serde_json::{Value, json};

use crate::{
    config,
    http::{Client, Reply, ask, text},
    start,
};

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

async fn post_raw(client: &Client, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let body = body.to_owned();
    let response = client.send(Method::POST, path, headers, body).await;
    Reply::read(response).await
}

fn openai_error(reply: &Reply) -> Value {
    let error = reply.json()["error"].clone();
    assert_eq!(error["code"], reply.status);
    error
}

#[tokio::test(start_paused = true)]
async fn what_is_no_json_gets_400_in_the_openai_shape_on_every_path() {
    let (_engine, client) = start(config()).await;
    for path in ["/v1/messages", "/v1/chat/completions", "/v1/responses"] {
        for body in ["", "{", "nonsense"] {
            let reply = post_raw(&client, path, JSON, body).await;
            assert_eq!(reply.status, 400);
            assert_eq!(openai_error(&reply)["type"], "Bad Request");
        }
        let reply = post_raw(&client, path, &[("content-type", "text/plain")], "{}").await;
        assert_eq!(reply.status, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_field_is_named_and_the_body_is_echoed() {
    let (_engine, client) = start(config()).await;
    for (path, field) in [
        ("/v1/messages", "max_tokens"),
        ("/v1/messages", "messages"),
        ("/v1/messages", "model"),
        ("/v1/chat/completions", "messages"),
        ("/v1/completions", "prompt"),
        ("/v1/responses", "input"),
        ("/tokenize", "prompt"),
        ("/detokenize", "tokens"),
    ] {
        let mut body = ask("hello");
        body["secret"] = json!("echoed");
        let object = body.as_object_mut().unwrap();
        object.remove(field);
        if path == "/tokenize" {
            object.remove("messages");
        }
        let reply = client.post(path, &body).await;
        assert_eq!(reply.status, 400, "{path} {field}");
        let error = openai_error(&reply);
        assert_eq!(error["param"], format!("body.{field}"));
        assert!(error["message"].as_str().unwrap().contains("echoed"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_model_gets_404_in_the_apis_shape() {
    let (_engine, client) = start(config()).await;
    let mut body = ask("hello");
    body["model"] = json!("other");
    let message = "The model `other` does not exist.";
    let reply = client.post("/v1/messages", &body).await;
    assert_eq!(reply.status, 404);
    assert_eq!(
        reply.json(),
        json!({"type": "error", "error": {"type": "NotFoundError", "message": message}})
    );
    let reply = client.post("/v1/chat/completions", &body).await;
    assert_eq!(reply.status, 404);
    assert_eq!(
        reply.json(),
        json!({"error": {"message": message, "type": "NotFoundError", "param": "model", "code": 404}})
    );
}

#[tokio::test(start_paused = true)]
async fn an_overlong_prompt_is_told_in_vllms_words() {
    for (version, messages_status) in [(26, 500), (32, 400)] {
        let mut config = config();
        config.max_model_len = Some(1000);
        config.vllm_version = VllmVersion::new(0, version, 0);
        let (_engine, client) = start(config).await;
        let mut body = ask(&text(1, 900));
        body["max_tokens"] = json!(200);
        for (path, status) in [
            ("/v1/messages", messages_status),
            ("/v1/chat/completions", 400),
        ] {
            let reply = client.post(path, &body).await;
            assert_eq!(reply.status, status);
            let message = reply.json()["error"]["message"].clone();
            let message = message.as_str().unwrap();
            assert!(
                message.starts_with("This model's maximum context length is 1000 tokens."),
                "{message}"
            );
        }
        body["max_tokens"] = json!(50);
        assert_eq!(client.post("/v1/messages", &body).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn other_mistakes_in_messages_are_500_before_0_32() {
    let mut empty = ask("hello");
    empty["messages"] = json!([]);
    let mut cold = ask("hello");
    cold["temperature"] = json!(-1);
    for (version, status) in [(26, 500), (32, 400)] {
        let mut config = config();
        config.vllm_version = VllmVersion::new(0, version, 0);
        let (_engine, client) = start(config).await;
        for body in [&empty, &cold] {
            let reply = client.post("/v1/messages", body).await;
            assert_eq!(reply.status, status);
            assert_eq!(reply.json()["type"], "error");
        }
        let reply = client.post("/v1/chat/completions", &cold).await;
        assert_eq!(reply.status, 400);
        let error = &reply.json()["error"];
        assert_eq!(error["param"], "temperature", "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_and_methods() {
    let (_engine, client) = start(config()).await;
    let reply = client.get("/ready").await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json(), json!({"detail": "Not Found"}));
    let reply = client.get("/v1/messages").await;
    assert_eq!(reply.status, 405);
    assert_eq!(reply.json(), json!({"detail": "Method Not Allowed"}));
    assert_eq!(reply.headers["allow"], "POST");
    let reply = client.post("/reset_prefix_cache", &json!({})).await;
    assert_eq!(reply.status, 404, "closed without the developers' mode");
}

#[tokio::test(start_paused = true)]
async fn the_key_counts_as_a_bearer_token_only() {
    let mut config = config();
    config.api_key = Some("secret".to_owned());
    let (_engine, client) = start(config).await;
    let body = ask("hello");
    for headers in [
        vec![],
        vec![("x-api-key", "secret")],
        vec![("authorization", "Bearer wrong")],
        vec![("authorization", "secret")],
    ] {
        let reply = client.post_with("/v1/messages", &headers, &body).await;
        assert_eq!(reply.status, 401, "{headers:?}");
        assert_eq!(reply.json(), json!({"error": "Unauthorized"}));
    }
    let headers = [("authorization", "bearer secret")];
    let reply = client.post_with("/v1/messages", &headers, &body).await;
    assert_eq!(reply.status, 200);
    let open = json!({"model": "demo", "prompt": "hello"});
    assert_eq!(client.post("/tokenize", &open).await.status, 200);
    assert_eq!(client.get("/metrics").await.status, 200);
}
