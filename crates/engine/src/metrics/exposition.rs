//! Writes the numbers as Prometheus text, with vLLM's names and labels.

use std::fmt::Write;

use super::{Histogram, Histograms, RankMetrics, RankNumbers};
use crate::generation::Finish;

/// What `/metrics` tells of the server as a whole.
#[derive(Debug)]
pub(crate) struct ServerFacts {
    pub(crate) model: String,
    pub(crate) block_size: u32,
    /// KV blocks of one rank.
    pub(crate) num_gpu_blocks: u32,
    /// Seconds since the epoch; told with a single API server only, since Python's multi-process
    /// mode, which several need, leaves the process's own metrics out.
    pub(crate) started_s: Option<f64>,
}

/// One number per rank: name, type, help, value.
type Family = (
    &'static str,
    &'static str,
    &'static str,
    fn(&RankNumbers) -> f64,
);

#[rustfmt::skip] // a table
const FAMILIES: [Family; 13] = [
    ("prefix_cache_queries_total", "counter", "Prefix cache queries, in tokens.", |rank| rank.counters.prefix_cache_queries as f64),
    ("prefix_cache_hits_total", "counter", "Prefix cache hits, in tokens.", |rank| rank.counters.prefix_cache_hits as f64),
    ("external_prefix_cache_queries_total", "counter", "No KV connector: none.", |_| 0.0),
    ("external_prefix_cache_hits_total", "counter", "No KV connector: none.", |_| 0.0),
    ("mm_cache_queries_total", "counter", "No multi-modal cache: none.", |_| 0.0),
    ("mm_cache_hits_total", "counter", "No multi-modal cache: none.", |_| 0.0),
    ("num_preemptions_total", "counter", "Preemptions.", |rank| rank.counters.preemptions as f64),
    ("prompt_tokens_total", "counter", "Prompt tokens.", |rank| rank.counters.prompt_tokens as f64),
    ("prompt_tokens_cached_total", "counter", "Prompt tokens read from the cache.", |rank| rank.counters.prompt_tokens_cached as f64),
    ("generation_tokens_total", "counter", "Generated tokens.", |rank| rank.counters.generation_tokens as f64),
    ("num_requests_running", "gauge", "Requests in execution.", |rank| rank.running as f64),
    ("num_requests_waiting", "gauge", "Requests waiting.", |rank| rank.waiting as f64),
    ("kv_cache_usage_perc", "gauge", "KV cache held by active requests; 1 is all of it.", |rank| rank.kv_cache_usage),
];

type HistogramFamily = (&'static str, fn(&Histograms) -> &Histogram);

const HISTOGRAMS: [HistogramFamily; 12] = [
    ("request_prompt_tokens", |h| &h.prompt_tokens),
    ("request_generation_tokens", |h| &h.generation_tokens),
    ("iteration_tokens_total", |h| &h.iteration_tokens),
    ("time_to_first_token_seconds", |h| &h.time_to_first_token),
    ("inter_token_latency_seconds", |h| &h.inter_token_latency),
    ("request_time_per_output_token_seconds", |h| {
        &h.time_per_output_token
    }),
    ("e2e_request_latency_seconds", |h| &h.e2e_latency),
    ("request_queue_time_seconds", |h| &h.queue_time),
    ("request_inference_time_seconds", |h| &h.inference_time),
    ("request_prefill_time_seconds", |h| &h.prefill_time),
    ("request_decode_time_seconds", |h| &h.decode_time),
    ("request_prefill_kv_computed_tokens", |h| {
        &h.prefill_kv_computed
    }),
];

/// Reasons that vLLM knows beside those that happen here.
const OTHER_REASONS: [&str; 2] = ["error", "repetition"];

/// The whole page.
pub(crate) fn write<'a>(
    facts: &ServerFacts,
    ranks: impl Iterator<Item = &'a RankMetrics>,
) -> String {
    let ranks: Vec<RankNumbers> = ranks.map(|rank| rank.lock().clone()).collect();
    let mut page = Page {
        out: String::with_capacity(64 * 1024),
        model: &facts.model,
    };
    if let Some(started_s) = facts.started_s {
        let name = "process_start_time_seconds";
        page.family(
            name,
            "gauge",
            "Start of the process, in seconds since the epoch.",
        );
        let _ = writeln!(page.out, "{name} {started_s:?}");
    }
    for (name, kind, help, value) in FAMILIES {
        let name = format!("vllm:{name}");
        page.family(&name, kind, help);
        for (rank, numbers) in ranks.iter().enumerate() {
            page.sample(&name, rank, None, value(numbers));
        }
    }
    page.waiting_by_reason(&ranks);
    page.prompt_tokens_by_source(&ranks);
    page.request_success(&ranks);
    page.sleep_state(ranks.len());
    for family in HISTOGRAMS {
        page.histogram(family, &ranks);
    }
    page.cache_config(facts, ranks.len());
    page.out
}

struct Page<'a> {
    out: String,
    model: &'a str,
}

impl Page<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A line. Labels are sorted; floats have a point, in Python as in Rust's debug form.
    fn sample(&mut self, name: &str, rank: usize, label: Option<(&str, &str)>, value: f64) {
        let model = self.model;
        let _ = match label {
            None => writeln!(
                self.out,
                "{name}{{engine=\"{rank}\",model_name=\"{model}\"}} {value:?}"
            ),
            Some((key, label)) if key < "model_name" => writeln!(
                self.out,
                "{name}{{engine=\"{rank}\",{key}=\"{label}\",model_name=\"{model}\"}} {value:?}"
            ),
            Some((key, label)) => writeln!(
                self.out,
                "{name}{{engine=\"{rank}\",model_name=\"{model}\",{key}=\"{label}\"}} {value:?}"
            ),
        };
    }

    fn waiting_by_reason(&mut self, ranks: &[RankNumbers]) {
        let name = "vllm:num_requests_waiting_by_reason";
        self.family(name, "gauge", "Requests waiting, by reason.");
        for (rank, numbers) in ranks.iter().enumerate() {
            let waiting = numbers.waiting as f64;
            self.sample(name, rank, Some(("reason", "capacity")), waiting);
            self.sample(name, rank, Some(("reason", "deferred")), 0.0);
        }
    }

    fn prompt_tokens_by_source(&mut self, ranks: &[RankNumbers]) {
        let name = "vllm:prompt_tokens_by_source_total";
        self.family(name, "counter", "Prompt tokens, by source.");
        for (rank, numbers) in ranks.iter().enumerate() {
            let counters = numbers.counters;
            let cached = counters.prompt_tokens_cached as f64;
            let computed = counters.prompt_tokens as f64 - cached;
            for (source, tokens) in [
                ("local_compute", computed),
                ("local_cache_hit", cached),
                ("external_kv_transfer", 0.0),
            ] {
                self.sample(name, rank, Some(("source", source)), tokens);
            }
        }
    }

    fn request_success(&mut self, ranks: &[RankNumbers]) {
        let name = "vllm:request_success_total";
        self.family(name, "counter", "Requests that ended, by reason.");
        for (rank, numbers) in ranks.iter().enumerate() {
            for finish in Finish::ALL {
                let count = numbers.finished.get(&finish).copied().unwrap_or(0);
                let label = ("finished_reason", finish.as_str());
                self.sample(name, rank, Some(label), count as f64);
            }
            for reason in OTHER_REASONS {
                self.sample(name, rank, Some(("finished_reason", reason)), 0.0);
            }
        }
    }

    fn sleep_state(&mut self, ranks: usize) {
        let name = "vllm:engine_sleep_state";
        self.family(name, "gauge", "Whether the engine sleeps, and how deeply.");
        for rank in 0..ranks {
            for (state, value) in [
                ("awake", 1.0),
                ("weights_offloaded", 0.0),
                ("discard_all", 0.0),
            ] {
                self.sample(name, rank, Some(("sleep_state", state)), value);
            }
        }
    }

    fn histogram(&mut self, (name, pick): HistogramFamily, ranks: &[RankNumbers]) {
        let name = format!("vllm:{name}");
        self.family(&name, "histogram", "What the name says.");
        for (rank, numbers) in ranks.iter().enumerate() {
            let histogram = pick(&numbers.histograms);
            let mut total = 0;
            for (bound, count) in histogram.cumulated() {
                let bound = if bound.is_infinite() {
                    "+Inf".to_owned()
                } else {
                    format!("{bound:?}")
                };
                let label = Some(("le", bound.as_str()));
                self.sample(&format!("{name}_bucket"), rank, label, count as f64);
                total = count;
            }
            self.sample(&format!("{name}_count"), rank, None, total as f64);
            self.sample(&format!("{name}_sum"), rank, None, histogram.sum());
        }
    }

    /// vLLM's trap: the blocks are summed over the ranks, the tokens are one engine's.
    fn cache_config(&mut self, facts: &ServerFacts, ranks: usize) {
        let name = "vllm:cache_config_info";
        self.family(name, "gauge", "Information of the cache configuration.");
        let blocks = facts.num_gpu_blocks as usize * ranks;
        let block_size = facts.block_size;
        let tokens = u64::from(facts.num_gpu_blocks) * u64::from(block_size);
        for rank in 0..ranks {
            let _ = writeln!(
                self.out,
                "{name}{{block_size=\"{block_size}\",cache_dtype=\"auto\",\
                 enable_prefix_caching=\"True\",engine=\"{rank}\",\
                 gpu_memory_utilization=\"0.92\",kv_cache_size_tokens=\"{tokens}\",\
                 num_gpu_blocks=\"{blocks}\",prefix_caching_hash_algo=\"sha256\",\
                 sliding_window=\"None\"}} 1.0",
            );
        }
    }
}
