use engine::{Config, ConfigError, Engine, VllmVersion};
use serde_json::json;

use crate::{
    config,
    http::{Client, ask_stream},
    start,
};

#[tokio::test(start_paused = true)]
async fn health_version_and_models() {
    let mut config = config();
    config.served_model_names = vec!["first".to_owned(), "second".to_owned()];
    config.vllm_version = VllmVersion::new(0, 33, 1);
    config.max_model_len = Some(4096);
    let (_engine, client) = start(config).await;
    for path in ["/health", "/ping"] {
        let reply = client.get(path).await;
        assert_eq!((reply.status, reply.body.len()), (200, 0));
    }
    let version = client.get("/version").await.json();
    assert_eq!(version, json!({"version": "0.33.1"}));
    let models = client.get("/v1/models").await.json();
    let ids: Vec<_> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| (model["id"].clone(), model["max_model_len"].clone()))
        .collect();
    assert_eq!(
        ids,
        [
            (json!("first"), json!(4096)),
            (json!("second"), json!(4096))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn load_counts_what_is_in_flight() {
    let (_engine, client) = start(config()).await;
    let load = async |client: &Client| client.get("/load").await.json()["server_load"].clone();
    assert_eq!(load(&client).await, 0);
    let body = ask_stream("[[script: write 50000]]");
    let stream = client.open("/v1/messages", &[], &body).await;
    assert_eq!(load(&client).await, 1);
    drop(stream);
    client.until("num_requests_running", 0.0).await;
    assert_eq!(load(&client).await, 0);
}

#[tokio::test(start_paused = true)]
async fn tokens_go_there_and_back() {
    let (_engine, client) = start(config()).await;
    let text = "Grüße aus 世界, a text of some length.";
    let body = json!({"model": "demo", "prompt": text, "return_token_strs": true});
    let tokenized = client.post("/tokenize", &body).await.json();
    let count = text.len().div_ceil(4);
    assert_eq!(tokenized["count"], count);
    assert_eq!(tokenized["token_strs"].as_array().unwrap().len(), count);
    let body = json!({"model": "demo", "tokens": tokenized["tokens"]});
    let back = client.post("/detokenize", &body).await.json();
    assert_eq!(back, json!({"prompt": text}));
    let chat = json!({"model": "demo", "messages": [{"role": "user", "content": "hello"}]});
    let tokenized = client.post("/tokenize", &chat).await.json();
    let body = json!({"tokens": tokenized["tokens"]});
    let back = client.post("/detokenize", &body).await.json();
    assert_eq!(
        back["prompt"],
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[tokio::test(start_paused = true)]
async fn embeddings_depend_on_the_text_alone() {
    let (_engine, client) = start(config()).await;
    let body = json!({"model": "demo", "input": ["a", "b", "a"]});
    let reply = client.post("/v1/embeddings", &body).await.json();
    let vector = |index: usize| reply["data"][index]["embedding"].clone();
    assert_eq!(vector(0), vector(2));
    assert_ne!(vector(0), vector(1));
    assert_eq!(vector(0).as_array().unwrap().len(), 8);
}

#[tokio::test]
async fn settings_out_of_range_are_named() {
    let start = async |config: Config| match Engine::start(config).await {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let mut none = config();
    none.data_parallel_size = 0;
    assert!(start(none).await.contains("data_parallel_size is 0"));
    let mut long = config();
    long.max_model_len = Some(1_000_000);
    assert!(start(long).await.contains("max_model_len"));
    let mut backwards = config();
    backwards.speed = -1.0;
    assert!(start(backwards).await.contains("speed is -1"));
    let mut nameless = config();
    nameless.served_model_names.clear();
    assert_eq!(nameless.validate(), Err(ConfigError::NoModelName));
    let mut faulty = config();
    faulty.faults = vec!["wedge:rank=7".parse().unwrap()];
    assert!(start(faulty).await.contains("no rank 7"));
}
