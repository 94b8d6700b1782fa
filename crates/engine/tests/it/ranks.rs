use engine::{Config, VllmVersion};
use serde_json::json;

use crate::{
    config,
    http::{Client, ask, ask_stream},
    start,
};

fn four_ranks() -> Config {
    Config {
        data_parallel_size: 4,
        ..config()
    }
}

/// Finished requests by rank.
async fn finished(client: &Client) -> [f64; 4] {
    let finished = client.metric("request_success_total", "").await;
    [0, 1, 2, 3].map(|rank| finished[&rank])
}

#[tokio::test(start_paused = true)]
async fn an_integer_pins_and_anything_else_is_ignored() {
    let (_engine, client) = start(four_ranks()).await;
    for value in ["3", " 3 ", "+3"] {
        let headers = [("X-Data-Parallel-Rank", value)];
        for path in ["/v1/messages", "/v1/chat/completions"] {
            client.post_with(path, &headers, &ask("hello")).await;
        }
    }
    assert_eq!(finished(&client).await, [0.0, 0.0, 0.0, 6.0]);
    for value in ["abc", "", "1.0", "3x"] {
        let headers = [("X-Data-Parallel-Rank", value)];
        client
            .post_with("/v1/messages", &headers, &ask("hello"))
            .await;
    }
    assert_eq!(finished(&client).await, [1.0, 1.0, 1.0, 7.0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_header_each_api_server_goes_round() {
    let (_engine, client) = start(four_ranks()).await;
    for number in 0..8 {
        client
            .post("/v1/messages", &ask(&format!("{number}")))
            .await;
    }
    assert_eq!(finished(&client).await, [2.0; 4]);
}

/// The ranks that requests on connections of their own go to.
async fn spread(seed: u64) -> Vec<usize> {
    let mut config = four_ranks();
    config.api_server_count = None;
    config.seed = seed;
    let (engine, client) = start(config).await;
    let mut ranks = Vec::new();
    for _ in 0..24 {
        let before = finished(&client).await;
        // A pooled connection would stay with its API server.
        let fresh = Client::new(&engine);
        fresh.post("/v1/messages", &ask("hello")).await;
        let after = finished(&client).await;
        ranks.extend((0..4).find(|rank| after[*rank] > before[*rank]));
    }
    ranks
}

#[tokio::test(start_paused = true)]
async fn connections_spread_over_the_api_servers_at_random() {
    let ranks = spread(1).await;
    assert!((0..4).all(|rank| ranks.contains(&rank)), "{ranks:?}");
    let rotates = ranks.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 4);
    assert!(!rotates, "{ranks:?}");
    assert_eq!(ranks, spread(1).await);
    assert_ne!(ranks, spread(2).await);
}

#[tokio::test(start_paused = true)]
async fn from_0_27_on_the_least_loaded_rank_is_taken() {
    let mut config = four_ranks();
    config.vllm_version = VllmVersion::new(0, 27, 0);
    let (_engine, client) = start(config).await;
    let mut busy = Vec::new();
    for rank in ["0", "1", "3"] {
        let headers = [("x-data-parallel-rank", rank)];
        let body = ask_stream("[[script: write 50000]]");
        busy.push(client.open("/v1/messages", &headers, &body).await);
    }
    for _ in 0..4 {
        client.post("/v1/messages", &ask("hello")).await;
    }
    assert_eq!(finished(&client).await, [0.0, 0.0, 4.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_rank_out_of_range_is_an_error() {
    let out = [("x-data-parallel-rank", "4")];
    let below = [("x-data-parallel-rank", "-1")];
    for (version, status) in [(26, 500), (32, 400)] {
        let mut config = four_ranks();
        config.vllm_version = VllmVersion::new(0, version, 0);
        let (_engine, client) = start(config).await;
        let reply = client.post_with("/v1/messages", &out, &ask("hello")).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.json()["type"], "error");
        let message = &reply.json()["error"]["message"];
        assert_eq!(message, "data_parallel_rank 4 is out of range [0, 4).");
        let reply = client
            .post_with("/v1/chat/completions", &below, &ask("hello"))
            .await;
        assert_eq!(reply.status, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_streams_rank_out_of_range_is_an_error_event_after_200() {
    let (_engine, client) = start(four_ranks()).await;
    let out = [("x-data-parallel-rank", "4")];
    let reply = client
        .post_with("/v1/messages", &out, &ask_stream("hello"))
        .await;
    assert_eq!(reply.status, 200);
    let events = reply.events();
    assert_eq!(events.len(), 1, "no message_stop");
    assert_eq!(events[0].name, "error");
    assert_eq!(events[0].json()["error"]["type"], "internal_error");
    let mut chat = ask("hello");
    chat["stream"] = json!(true);
    let events = client
        .post_with("/v1/chat/completions", &out, &chat)
        .await
        .events();
    assert_eq!(events[0].json()["error"]["code"], 400);
    assert_eq!(events[1].data, "[DONE]");
}
