//! Writes the numbers as Prometheus text, with the labels that vLLM gives them.

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
    /// Seconds since the epoch.
    pub(crate) started_s: f64,
}

/// One family of one number per rank: name, type, help, value.
type Family = (
    &'static str,
    &'static str,
    &'static str,
    fn(&RankNumbers) -> f64,
);

const FAMILIES: [Family; 9] = [
    (
        "num_requests_running",
        "gauge",
        "Requests in model execution batches.",
        |rank| rank.running as f64,
    ),
    (
        "num_requests_waiting",
        "gauge",
        "Requests waiting to be processed.",
        |rank| rank.waiting as f64,
    ),
    (
        "kv_cache_usage_perc",
        "gauge",
        "KV cache usage by active requests, 1 means full.",
        |rank| rank.kv_cache_usage,
    ),
    (
        "prefix_cache_queries_total",
        "counter",
        "Prefix cache queries, in tokens.",
        |rank| rank.counters.prefix_cache_queries as f64,
    ),
    (
        "prefix_cache_hits_total",
        "counter",
        "Prefix cache hits, in tokens.",
        |rank| rank.counters.prefix_cache_hits as f64,
    ),
    ("num_preemptions_total", "counter", "Preemptions.", |rank| {
        rank.counters.preemptions as f64
    }),
    ("prompt_tokens_total", "counter", "Prompt tokens.", |rank| {
        rank.counters.prompt_tokens as f64
    }),
    (
        "prompt_tokens_cached_total",
        "counter",
        "Prompt tokens read from the cache.",
        |rank| rank.counters.prompt_tokens_cached as f64,
    ),
    (
        "generation_tokens_total",
        "counter",
        "Generated tokens.",
        |rank| rank.counters.generation_tokens as f64,
    ),
];

/// The whole page.
pub(crate) fn write<'a>(
    facts: &ServerFacts,
    ranks: impl Iterator<Item = &'a RankMetrics>,
) -> String {
    let ranks: Vec<RankNumbers> = ranks.map(|rank| rank.lock().clone()).collect();
    let mut page = Page {
        out: String::with_capacity(32 * 1024),
        labels: (0..ranks.len())
            .map(|rank| format!("engine=\"{rank}\",model_name=\"{}\"", facts.model))
            .collect(),
    };
    page.family(
        "process_start_time_seconds",
        "gauge",
        "Start of the process.",
    );
    page.line("process_start_time_seconds", "", facts.started_s);
    for (name, kind, help, value) in FAMILIES {
        let name = format!("vllm:{name}");
        page.family(&name, kind, help);
        for (rank, numbers) in ranks.iter().enumerate() {
            page.sample(&name, rank, "", value(numbers));
        }
    }
    page.labelled(&ranks);
    page.histograms(&ranks);
    page.cache_config(facts, ranks.len());
    page.out
}

struct Page {
    out: String,
    /// Labels of each rank.
    labels: Vec<String>,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        // Python prints floats with a point, and so does Rust's debug form.
        let _ = if labels.is_empty() {
            writeln!(self.out, "{name} {value:?}")
        } else {
            writeln!(self.out, "{name}{{{labels}}} {value:?}")
        };
    }

    fn sample(&mut self, name: &str, rank: usize, more: &str, value: f64) {
        let labels = format!("{}{more}", self.labels[rank]);
        self.line(name, &labels, value);
    }

    /// Families with a label besides the rank's.
    fn labelled(&mut self, ranks: &[RankNumbers]) {
        let name = "vllm:num_requests_waiting_by_reason";
        self.family(name, "gauge", "Requests waiting, by reason.");
        for (rank, numbers) in ranks.iter().enumerate() {
            let waiting = numbers.waiting as f64;
            self.sample(name, rank, ",reason=\"capacity\"", waiting);
            self.sample(name, rank, ",reason=\"deferred\"", 0.0);
        }
        let name = "vllm:prompt_tokens_by_source_total";
        self.family(name, "counter", "Prompt tokens, by source.");
        for (rank, numbers) in ranks.iter().enumerate() {
            let cached = numbers.counters.prompt_tokens_cached as f64;
            let computed = numbers.counters.prompt_tokens as f64 - cached;
            self.sample(name, rank, ",source=\"local_compute\"", computed);
            self.sample(name, rank, ",source=\"local_cache_hit\"", cached);
            self.sample(name, rank, ",source=\"external_kv_transfer\"", 0.0);
        }
        let name = "vllm:request_success_total";
        self.family(name, "counter", "Requests that ended, by reason.");
        for (rank, numbers) in ranks.iter().enumerate() {
            for finish in Finish::ALL {
                let reason = format!(",finished_reason=\"{}\"", finish.as_str());
                let count = numbers.finished.get(&finish).copied().unwrap_or(0);
                self.sample(name, rank, &reason, count as f64);
            }
        }
    }

    fn histograms(&mut self, ranks: &[RankNumbers]) {
        type Pick = fn(&Histograms) -> &Histogram;
        let families: [(&str, Pick); 10] = [
            ("time_to_first_token_seconds", |h| &h.time_to_first_token),
            ("inter_token_latency_seconds", |h| &h.inter_token_latency),
            ("e2e_request_latency_seconds", |h| &h.e2e_latency),
            ("request_queue_time_seconds", |h| &h.queue_time),
            ("request_inference_time_seconds", |h| &h.inference_time),
            ("request_prefill_time_seconds", |h| &h.prefill_time),
            ("request_decode_time_seconds", |h| &h.decode_time),
            ("request_prompt_tokens", |h| &h.prompt_tokens),
            ("request_generation_tokens", |h| &h.generation_tokens),
            ("iteration_tokens_total", |h| &h.iteration_tokens),
        ];
        for (name, pick) in families {
            let name = format!("vllm:{name}");
            self.family(&name, "histogram", "Histogram, as the name says.");
            for (rank, numbers) in ranks.iter().enumerate() {
                let histogram = pick(&numbers.histograms);
                let mut total = 0;
                for (bound, count) in histogram.cumulated() {
                    let bound = if bound.is_infinite() {
                        ",le=\"+Inf\"".to_owned()
                    } else {
                        format!(",le=\"{bound:?}\"")
                    };
                    self.sample(&format!("{name}_bucket"), rank, &bound, count as f64);
                    total = count;
                }
                self.sample(&format!("{name}_count"), rank, "", total as f64);
                self.sample(&format!("{name}_sum"), rank, "", histogram.sum());
            }
        }
    }

    /// vLLM's trap: the blocks are summed over the ranks, the tokens are one engine's.
    fn cache_config(&mut self, facts: &ServerFacts, ranks: usize) {
        let name = "vllm:cache_config_info";
        self.family(name, "gauge", "Information of the cache configuration.");
        let blocks = facts.num_gpu_blocks as usize * ranks;
        let tokens = u64::from(facts.num_gpu_blocks) * u64::from(facts.block_size);
        for rank in 0..ranks {
            let labels = format!(
                "block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",\
                 engine=\"{rank}\",gpu_memory_utilization=\"0.9\",kv_cache_size_tokens=\"{tokens}\",\
                 num_gpu_blocks=\"{blocks}\"",
                facts.block_size,
            );
            self.line(name, &labels, 1.0);
        }
    }
}
