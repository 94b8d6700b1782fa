//! vLLM's `/metrics`, by engine label.
//!
//! Reads only the series that routing and the panel use, by their exact names; histograms and
//! whatever else an engine exports are skipped. vLLM keeps its labels with several API servers;
//! where a series comes more than once for one engine all the same, counts add up and the fuller
//! cache counts.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Data-parallel engines in one scrape that are told apart; lines of further ones are skipped.
const ENGINES_MAX: usize = 1024;

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
    /// Requests finished, whatever the reason.
    pub requests_finished: Option<f64>,
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

/// The KV cache as `cache_config_info` describes it.
#[derive(Debug, Clone, Copy, Default)]
struct CacheConfig {
    size_tokens: Option<u64>,
    blocks_of_all_engines: Option<u64>,
    block_tokens: Option<u64>,
}

/// Reads a Prometheus text exposition; lines it does not know are skipped, bad ones too.
pub fn parse_metrics(text: &[u8]) -> Scrape {
    let mut scrape = Scrape::default();
    let mut caches = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(sample) = std::str::from_utf8(line).ok().and_then(Sample::parse) else {
            continue;
        };
        if sample.name == "process_start_time_seconds" {
            scrape.process_start_time_s = Some(sample.value);
        }
        let Some(name) = sample.name.strip_prefix("vllm:") else {
            continue;
        };
        let Some(engine) = sample.engine() else {
            continue;
        };
        if name == "cache_config_info" {
            if caches.len() < ENGINES_MAX {
                caches.insert(engine, CacheConfig::of(&sample));
            }
        } else if scrape.engines.len() < ENGINES_MAX || scrape.engines.contains_key(&engine) {
            let mut unknown = EngineMetrics::default();
            if field(name, &mut unknown).is_some() {
                add(
                    name,
                    sample.value,
                    scrape.engines.entry(engine).or_default(),
                );
            }
        }
    }
    set_kv_tokens(&mut scrape.engines, &caches);
    scrape
}

fn add(name: &str, value: f64, metrics: &mut EngineMetrics) {
    let Some(field) = field(name, metrics) else {
        return;
    };
    *field = Some(match *field {
        Some(before) if name == "kv_cache_usage_perc" => before.max(value),
        Some(before) => before + value,
        None => value,
    });
}

/// Where a series goes. vLLM's exporter adds `_total` to counters; other exporters may not.
fn field<'a>(name: &str, metrics: &'a mut EngineMetrics) -> Option<&'a mut Option<f64>> {
    match name {
        "num_requests_running" => return Some(&mut metrics.running),
        "num_requests_waiting" => return Some(&mut metrics.waiting),
        "kv_cache_usage_perc" => return Some(&mut metrics.kv_cache_usage),
        _ => {}
    }
    match name.strip_suffix("_total").unwrap_or(name) {
        "prefix_cache_queries" => Some(&mut metrics.prefix_cache_queries),
        "prefix_cache_hits" => Some(&mut metrics.prefix_cache_hits),
        "prompt_tokens" => Some(&mut metrics.prompt_tokens),
        "prompt_tokens_cached" => Some(&mut metrics.prompt_tokens_cached),
        "generation_tokens" => Some(&mut metrics.generation_tokens),
        "num_preemptions" => Some(&mut metrics.preemptions),
        "request_success" => Some(&mut metrics.requests_finished),
        _ => None,
    }
}

/// Ranks of one server are alike, so an engine without a line of its own takes the first one's.
fn set_kv_tokens(engines: &mut BTreeMap<u32, EngineMetrics>, caches: &BTreeMap<u32, CacheConfig>) {
    let count = engines.len().max(1) as u64;
    let first = caches.values().next();
    for (engine, metrics) in engines {
        metrics.kv_tokens = caches
            .get(engine)
            .or(first)
            .and_then(|cache| cache.tokens(count));
    }
}

impl CacheConfig {
    fn of(sample: &Sample<'_>) -> Self {
        let number = |name| sample.label(name).and_then(|value| value.parse().ok());
        Self {
            size_tokens: number("kv_cache_size_tokens"),
            blocks_of_all_engines: number("num_gpu_blocks"),
            block_tokens: number("block_size"),
        }
    }

    fn tokens(&self, engines: u64) -> Option<u64> {
        self.size_tokens.or_else(|| {
            Some(
                self.blocks_of_all_engines?
                    .checked_mul(self.block_tokens?)?
                    / engines,
            )
        })
    }
}

/// One line: `name{label="value",…} value [timestamp]`.
#[derive(Debug, Clone, Copy)]
struct Sample<'a> {
    name: &'a str,
    /// Between the braces.
    labels: &'a str,
    /// Finite.
    value: f64,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let name_end = line.find(['{', ' ', '\t'])?;
        let (name, rest) = line.split_at(name_end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => {
                let end = labels_end(rest)?;
                (&rest[..end], &rest[end + 1..])
            }
            None => ("", rest),
        };
        let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        (!name.starts_with('#') && value.is_finite()).then_some(Self {
            name,
            labels,
            value,
        })
    }

    /// A label's value as written; the ones read here never hold an escape.
    fn label(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        loop {
            let (label, after) = rest.trim_start_matches([',', ' ']).split_once("=\"")?;
            let end = string_end(after)?;
            if label.trim() == name {
                return Some(&after[..end]);
            }
            rest = &after[end + 1..];
        }
    }

    /// 0 where the label is absent; `None` where it is no number.
    fn engine(&self) -> Option<u32> {
        self.label("engine")
            .map_or(Some(0), |engine| engine.parse().ok())
    }
}

/// Where the closing quote of a label's value stands.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Where the brace that closes the labels stands: values may hold one too.
fn labels_end(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.as_bytes().get(at)? {
            b'}' => return Some(at),
            b'"' => at += 2 + string_end(&text[at + 1..])?,
            _ => at += 1,
        }
    }
}
