//! What one replica's metrics said, and its counters since the warden started.

use routing::{Gauges, Time};
use vllm::EngineMetrics;

/// One replica's metrics.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// When it was last scraped; `None` before.
    pub scraped: Option<Time>,
    /// The last scrape.
    pub latest: EngineMetrics,
    prompt_tokens: Since,
    prompt_tokens_cached: Since,
    generation_tokens: Since,
}

impl Figures {
    /// Takes note of a scrape. True where the counters say that this is another process than
    /// before: a counter that went down.
    pub(super) fn scraped(&mut self, at: Time, metrics: EngineMetrics) -> bool {
        let fell = [
            self.prompt_tokens.update(metrics.prompt_tokens),
            self.generation_tokens.update(metrics.generation_tokens),
        ];
        self.prompt_tokens_cached
            .update(metrics.prompt_tokens_cached);
        self.scraped = Some(at);
        self.latest = metrics;
        fell.contains(&true)
    }

    /// What the router is told; `None` where the engine does not report its queue.
    pub(super) fn gauges(&self) -> Option<Gauges> {
        let metrics = &self.latest;
        let total = metrics.prompt_tokens.unwrap_or(0.0) + metrics.generation_tokens.unwrap_or(0.0);
        Some(Gauges {
            running: metrics.running? as u32,
            waiting: metrics.waiting? as u32,
            kv_cache_usage: metrics.kv_cache_usage?,
            tokens_total: total as u64,
        })
    }

    /// Cached over all prompt tokens since the warden started, 0..1; `None` where unknown.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.prompt_tokens.total()?;
        let cached = self.prompt_tokens_cached.total()?;
        (all > 0.0).then(|| (cached / all).clamp(0.0, 1.0))
    }
}

/// A counter's growth since it was first seen, over restarts of whoever counts.
#[derive(Debug, Clone, Default)]
struct Since {
    /// What it stood at when it was last taken into account.
    last: Option<f64>,
    grown: f64,
}

impl Since {
    /// True where it fell. What a scrape leaves out is compared with the next that has it: with
    /// several API servers vLLM shows no start time, and a new process begins without samples.
    fn update(&mut self, now: Option<f64>) -> bool {
        let Some(now) = now else {
            return false;
        };
        let last = self.last.replace(now);
        let fell = last.is_some_and(|last| now < last);
        self.grown += match last {
            None => 0.0,
            Some(_) if fell => now,
            Some(last) => now - last,
        };
        fell
    }

    fn total(&self) -> Option<f64> {
        self.last.map(|_| self.grown)
    }
}
