//! vLLM's `/metrics`, by engine label.

use std::collections::BTreeMap;

/// What one engine (data-parallel rank) reports. `None` where a line is missing or not a number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(missing_docs)]
pub struct EngineMetrics {
    pub running: Option<f64>,
    pub waiting: Option<f64>,
    /// 0..1, active requests only.
    pub kv_cache_usage: Option<f64>,
    pub prefix_cache_queries: Option<f64>,
    pub prefix_cache_hits: Option<f64>,
    pub prompt_tokens: Option<f64>,
    pub prompt_tokens_cached: Option<f64>,
    pub generation_tokens: Option<f64>,
    pub preemptions: Option<f64>,
    /// From `cache_config_info`: tokens this engine's KV cache holds (`kv_cache_size_tokens`, which
    /// is per engine; else `num_gpu_blocks` x `block_size` over the number of engines, since
    /// `num_gpu_blocks` is summed over ranks).
    pub kv_tokens: Option<u64>,
}

/// One scrape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scrape {
    /// By the `engine` label; lines without one count as engine 0.
    pub engines: BTreeMap<u32, EngineMetrics>,
    /// `process_start_time_seconds`, which tells one engine process from the next.
    pub process_start_time_s: Option<f64>,
}

/// Reads a Prometheus text exposition; lines it does not know are skipped, bad ones too.
pub fn parse_metrics(_text: &[u8]) -> Scrape {
    todo!()
}
