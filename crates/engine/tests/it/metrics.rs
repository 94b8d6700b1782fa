use engine::Config;

use crate::{
    config,
    http::{Client, ask, ask_stream, text},
    start,
};

/// A rank that holds 30 blocks of 16 tokens.
fn small() -> Config {
    Config {
        num_gpu_blocks: Some(31),
        max_model_len: Some(480),
        ..config()
    }
}

async fn first_rank(client: &Client, name: &str) -> f64 {
    client.metric(name, "").await[&0]
}

#[tokio::test(start_paused = true)]
async fn gauges_follow_what_runs_and_waits() {
    let mut one = small();
    one.max_num_seqs = Some(1);
    let (_engine, client) = start(one).await;
    let mut body = ask_stream("[[script: write 300]]");
    body["max_tokens"] = 300.into();
    let running = client.open("/v1/messages", &[], &body).await;
    client.until("num_requests_running", 1.0).await;
    let waiting = client.open("/v1/messages", &[], &body).await;
    client.until("num_requests_waiting", 1.0).await;
    let usage = first_rank(&client, "kv_cache_usage_perc").await;
    assert!(usage > 0.0 && usage < 1.0);
    let by_reason = "num_requests_waiting_by_reason";
    assert_eq!(client.metric(by_reason, "capacity").await[&0], 1.0);
    drop(running);
    let (events, clean) = waiting.rest().await;
    assert!(clean && events.len() > 300);
    client.until("num_requests_running", 0.0).await;
    assert_eq!(first_rank(&client, "kv_cache_usage_perc").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_request_counts_its_lookups_again_at_each_step() {
    let (_engine, client) = start(small()).await;
    let mut running = ask_stream("[[script: write 200]]");
    running["max_tokens"] = 200.into();
    let running = client.open("/v1/messages", &[], &running).await;
    client.until("num_requests_running", 1.0).await;
    let mut blocked = ask(&text(1, 460));
    blocked["max_tokens"] = 1.into();
    let (reply, _) = tokio::join!(client.post("/v1/messages", &blocked), running.rest());
    assert_eq!(reply.status, 200);
    let prompts = first_rank(&client, "prompt_tokens_total").await;
    let queries = first_rank(&client, "prefix_cache_queries_total").await;
    assert!(queries > 50.0 * prompts, "{queries} for {prompts}");
}

#[tokio::test(start_paused = true)]
async fn counters_and_histograms_add_up_to_usage() {
    let (_engine, client) = start(config()).await;
    let (mut prompt, mut cached, mut output) = (0, 0, 0);
    for _ in 0..3 {
        let reply = client
            .post("/v1/messages", &ask(&text(1, 200)))
            .await
            .json();
        let field = |name: &str| reply["usage"][name].as_u64().unwrap();
        cached += field("cache_read_input_tokens");
        prompt += field("cache_read_input_tokens")
            + field("cache_creation_input_tokens")
            + field("input_tokens");
        output += field("output_tokens");
    }
    assert!(cached > 0);
    let by_source = "prompt_tokens_by_source_total";
    for (name, label, expected) in [
        ("prompt_tokens_total", "", prompt),
        ("prompt_tokens_cached_total", "", cached),
        (by_source, "local_cache_hit", cached),
        (by_source, "local_compute", prompt - cached),
        ("generation_tokens_total", "", output),
        ("request_success_total", "finished_reason=\"stop\"", 3),
        ("time_to_first_token_seconds_count", "", 3),
        ("e2e_request_latency_seconds_count", "", 3),
        ("e2e_request_latency_seconds_bucket", "le=\"+Inf\"", 3),
        ("request_generation_tokens_sum", "", output),
        ("inter_token_latency_seconds_count", "", output - 3),
    ] {
        let value = client.metric(name, label).await[&0];
        assert_eq!(value, expected as f64, "{name} {label}");
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_are_summed_over_ranks_and_tokens_are_not() {
    let mut two = small();
    two.data_parallel_size = 2;
    two.served_model_names = vec!["m".to_owned()];
    let (_engine, client) = start(two).await;
    let page = client.get("/metrics").await.text();
    for rank in 0..2 {
        let line = page
            .lines()
            .find(|line| {
                line.starts_with("vllm:cache_config_info")
                    && line.contains(&format!("engine=\"{rank}\""))
            })
            .unwrap();
        assert!(line.contains("num_gpu_blocks=\"62\""), "{line}");
        assert!(line.contains("kv_cache_size_tokens=\"496\""), "{line}");
        assert!(line.contains("block_size=\"16\""), "{line}");
        let gauge = format!("vllm:num_requests_running{{engine=\"{rank}\",model_name=\"m\"}} 0.0");
        assert!(page.lines().any(|line| line == gauge));
    }
    assert!(page.contains("\nprocess_start_time_seconds "));
}

#[tokio::test(start_paused = true)]
async fn preemptions_are_counted_and_survived() {
    let (_engine, client) = start(small()).await;
    let ask = |number| {
        let mut body = ask(&format!("{number} [[script: write 300]]"));
        body["max_tokens"] = 300.into();
        body
    };
    let bodies = [ask(1), ask(2)];
    let (one, two) = tokio::join!(
        client.post("/v1/messages", &bodies[0]),
        client.post("/v1/messages", &bodies[1])
    );
    for reply in [one, two] {
        assert_eq!(reply.json()["usage"]["output_tokens"], 300);
    }
    assert!(first_rank(&client, "num_preemptions_total").await >= 1.0);
}
