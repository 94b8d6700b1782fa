//! What one replica's metrics said, and its counters since the warden started.

use routing::{Gauges, Time};
use serde::{Deserialize, Serialize};
use vllm::EngineMetrics;

use super::throughput::{Sample, Throughput};

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
    throughput: Throughput,
    mark: Mark,
}

/// What tells one engine process from the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// `process_start_time_seconds`; with several API servers vLLM shows none.
    started_s: Option<f64>,
    /// Counters that only grow while a process lives.
    prompt_tokens: Option<f64>,
    generation_tokens: Option<f64>,
}

impl Mark {
    /// Whether `now` is another process than this was.
    fn is_another(&self, now: &Self) -> bool {
        let pairs = |of: fn(&Self) -> Option<f64>| of(self).zip(of(now));
        // The same number, printed twice.
        let starts = pairs(|mark| mark.started_s);
        let counters = [
            pairs(|mark| mark.prompt_tokens),
            pairs(|mark| mark.generation_tokens),
        ];
        starts.is_some_and(|(before, now)| before.to_bits() != now.to_bits())
            || counters
                .into_iter()
                .flatten()
                .any(|(before, now)| now < before)
    }

    /// What a scrape leaves out is compared with the next that has it: a new process begins without
    /// samples.
    fn or(self, before: Self) -> Self {
        Self {
            started_s: self.started_s.or(before.started_s),
            prompt_tokens: self.prompt_tokens.or(before.prompt_tokens),
            generation_tokens: self.generation_tokens.or(before.generation_tokens),
        }
    }
}

impl Figures {
    /// When the engine's process started, in epoch seconds, where it tells.
    pub fn started_s(&self) -> Option<f64> {
        self.mark.started_s
    }

    /// Takes note of a scrape of a process that started at `started_s`. True where this is another
    /// process than before.
    pub(super) fn scraped(
        &mut self,
        at: Time,
        started_s: Option<f64>,
        metrics: EngineMetrics,
    ) -> bool {
        self.prompt_tokens.update(metrics.prompt_tokens);
        self.generation_tokens.update(metrics.generation_tokens);
        self.prompt_tokens_cached
            .update(metrics.prompt_tokens_cached);
        self.throughput.note(Sample {
            at,
            prompt_tokens: self.prompt_tokens.total(),
            prompt_tokens_cached: self.prompt_tokens_cached.total(),
            generation_tokens: self.generation_tokens.total(),
        });
        self.scraped = Some(at);
        self.latest = metrics;
        let mark = Mark {
            started_s,
            prompt_tokens: metrics.prompt_tokens,
            generation_tokens: metrics.generation_tokens,
        };
        let is_another = self.mark.is_another(&mark);
        self.mark = mark.or(self.mark);
        is_another
    }

    /// The process that was last seen.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The process that an earlier warden saw last.
    pub fn remember(&mut self, mark: Mark) {
        self.mark = mark;
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

    /// Tokens per second over the last scrapes; `None` where that is unknown.
    pub fn throughput(&self, now: Time) -> Option<api::Throughput> {
        self.throughput.rates(now)
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
    fn update(&mut self, now: Option<f64>) {
        let Some(now) = now else { return };
        self.grown += match self.last.replace(now) {
            None => 0.0,
            Some(last) if now < last => now,
            Some(last) => now - last,
        };
    }

    fn total(&self) -> Option<f64> {
        self.last.map(|_| self.grown)
    }
}
