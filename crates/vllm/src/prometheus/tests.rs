//! What is read out of expositions in the form that vLLM writes, and out of damaged ones.

use proptest::prelude::*;

use super::*;

const TWO_RANKS: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="demo"} 3.0
vllm:num_requests_running{engine="1",model_name="demo"} 0.0
vllm:num_requests_waiting{engine="0",model_name="demo"} 2.0
vllm:num_requests_waiting{engine="1",model_name="demo"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="demo",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="demo"} 0.4266666666666667
vllm:kv_cache_usage_perc{engine="1",model_name="demo"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="demo"} 240100.0
vllm:prefix_cache_queries_created{engine="0",model_name="demo"} 1.7959722e+09
vllm:prefix_cache_hits_total{engine="0",model_name="demo"} 1520.0
vllm:prompt_tokens_total{engine="0",model_name="demo"} 6100.0
vllm:prompt_tokens_total{engine="1",model_name="demo"} 1.2e+06
vllm:prompt_tokens_cached_total{engine="0",model_name="demo"} 1520.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="demo",source="local_compute"} 9.0
vllm:generation_tokens_total{engine="0",model_name="demo"} 811.0
vllm:num_preemptions_total{engine="0",model_name="demo"} 4.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="demo"} 5.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="demo"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="demo"} 7.0
vllm:request_prompt_tokens_sum{engine="0",model_name="demo"} 6100.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",kv_cache_size_tokens="17600",num_gpu_blocks="2200"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",kv_cache_size_tokens="17600",num_gpu_blocks="2200"} 1.0
process_start_time_seconds 1.79597221234e+09
"#;

/// So many engines.
fn running(engines: u32) -> String {
    let line = |engine| format!("vllm:num_requests_running{{engine=\"{engine}\"}} 1\n");
    (0..engines).map(line).collect::<Vec<_>>().concat()
}

fn one(line: &str) -> EngineMetrics {
    let scrape = parse_metrics(line.as_bytes());
    scrape.engines.get(&0).copied().unwrap_or_default()
}

#[test]
fn ranks_are_told_apart() {
    let scrape = parse_metrics(TWO_RANKS.as_bytes());
    assert_eq!(scrape.process_start_time_s, Some(1_795_972_212.34));
    assert_eq!(scrape.engines.len(), 2);
    let expected = EngineMetrics {
        running: Some(3.0),
        waiting: Some(2.0),
        kv_cache_usage: Some(0.426_666_666_666_666_7),
        prefix_cache_queries: Some(240_100.0),
        prefix_cache_hits: Some(1520.0),
        prompt_tokens: Some(6100.0),
        prompt_tokens_cached: Some(1520.0),
        generation_tokens: Some(811.0),
        preemptions: Some(4.0),
        requests_finished: Some(7.0),
        kv_tokens: Some(17_600),
    };
    assert_eq!(scrape.engines[&0], expected);
    let other = EngineMetrics {
        running: Some(0.0),
        waiting: Some(1.0),
        kv_cache_usage: Some(0.0),
        prompt_tokens: Some(1_200_000.0),
        kv_tokens: Some(17_600),
        ..EngineMetrics::default()
    };
    assert_eq!(
        scrape.engines[&1], other,
        "what it does not report is unknown, not 0"
    );
}

#[test]
fn counters_are_read_with_and_without_their_suffix() {
    assert_eq!(one("vllm:prompt_tokens 5").prompt_tokens, Some(5.0));
    assert_eq!(one("vllm:prompt_tokens_total 5").prompt_tokens, Some(5.0));
    assert_eq!(one("vllm:num_preemptions 5").preemptions, Some(5.0));
    assert_eq!(
        one("vllm:num_requests_running_total 5"),
        EngineMetrics::default(),
        "no counter"
    );
    assert_eq!(
        one("vllm:prompt_tokens_created 5"),
        EngineMetrics::default()
    );
}

#[test]
fn a_series_that_comes_twice_is_added_up() {
    let text = r#"vllm:prompt_tokens_total{engine="0",model_name="a"} 5
vllm:prompt_tokens_total{engine="0",model_name="b"} 6
vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.5
vllm:kv_cache_usage_perc{engine="0",model_name="b"} 0.25"#;
    assert_eq!(one(text).prompt_tokens, Some(11.0));
    assert_eq!(one(text).kv_cache_usage, Some(0.5));
}

#[test]
fn tokens_of_the_cache_in_every_form() {
    let tokens = |engines: u32, info: &str| {
        let text = running(engines) + "vllm:cache_config_info" + info + " 1.0\n";
        let scrape = parse_metrics(text.as_bytes());
        scrape
            .engines
            .values()
            .map(|engine| engine.kv_tokens)
            .collect::<Vec<_>>()
    };
    let blocks = r#"{block_size="16",engine="0",num_gpu_blocks="2200"}"#;
    assert_eq!(tokens(1, blocks), [Some(35_200)]);
    assert_eq!(
        tokens(2, blocks),
        [Some(17_600); 2],
        "blocks are summed over ranks"
    );
    let size = r#"{block_size="16",engine="0",kv_cache_size_tokens="17600",num_gpu_blocks="2200"}"#;
    assert_eq!(
        tokens(2, size),
        [Some(17_600); 2],
        "the size is each engine's"
    );
    let unset = r#"{block_size="16",engine="0",kv_cache_size_tokens="None",num_gpu_blocks="2200"}"#;
    assert_eq!(tokens(2, unset), [Some(17_600); 2]);
    for unknown in [
        r#"{block_size="16",engine="0",num_gpu_blocks="None"}"#,
        r#"{engine="0",num_gpu_blocks="2200"}"#,
        r#"{block_size="99999999999",engine="0",num_gpu_blocks="9999999999999"}"#,
        "",
    ] {
        assert_eq!(tokens(1, unknown), [None], "{unknown}");
    }
}

#[test]
fn lines_it_cannot_read_are_skipped() {
    for bad in [
        "vllm:num_requests_running",
        "vllm:num_requests_running ",
        "vllm:num_requests_running three",
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running +Inf",
        r#"vllm:num_requests_running{engine="zero"} 3"#,
        r#"vllm:num_requests_running{engine="-1"} 3"#,
        r#"vllm:num_requests_running{engine="0" 3"#,
        r#"vllm:num_requests_running{engine="0} 3"#,
        "# vllm:num_requests_running 3",
        "num_requests_running 3",
    ] {
        let text = format!("{bad}\nvllm:num_requests_waiting 1\n");
        let expected = EngineMetrics {
            waiting: Some(1.0),
            ..EngineMetrics::default()
        };
        assert_eq!(one(&text), expected, "{bad}");
    }
    let odd = "vllm:num_requests_running{ model_name=\"a}\\\"b, engine=\\\"7\" , engine=\"0\" } 3 1795972212\r\n";
    assert_eq!(
        one(odd).running,
        Some(3.0),
        "a value may hold anything, a time may follow"
    );
    let latin = b"vllm:x{a=\"\xE9\"} 1\nvllm:num_requests_running 3";
    assert_eq!(parse_metrics(latin).engines[&0].running, Some(3.0));
}

#[test]
fn engines_are_bounded() {
    let text = running(5000);
    assert_eq!(parse_metrics(text.as_bytes()).engines.len(), ENGINES_MAX);
}

proptest! {
    #[test]
    fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_metrics(&text);
    }

    #[test]
    fn any_run_of_tokens_is_read(tokens in prop::collection::vec(prop::sample::select(vec![
        "vllm:", "num_requests_running", "cache_config_info", "{", "}", "engine", "=", "\"", "\\",
        "0", "1.5", ",", " ", "\n", "#", "é", "block_size=\"16\"", "num_gpu_blocks=\"9\"",
    ]), 0..40)) {
        parse_metrics(tokens.concat().as_bytes());
    }

    #[test]
    fn a_line_of_anything_else_changes_nothing(line in "[^\n]{0,60}", at: prop::sample::Index) {
        let known = ["vllm:", "process_start_time_seconds"];
        prop_assume!(known.iter().all(|name| !line.trim_start().starts_with(name)));
        let mut lines: Vec<_> = TWO_RANKS.lines().collect();
        lines.insert(at.index(lines.len() + 1), &line);
        prop_assert_eq!(parse_metrics(lines.join("\n").as_bytes()), parse_metrics(TWO_RANKS.as_bytes()));
    }
}
