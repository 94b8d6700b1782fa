//! vLLM's `/metrics`: gauges, counters and histograms per rank, in Prometheus text.
//!
//! Counters come from the scheduler itself, so they count as vLLM's do (the prefix cache's queries
//! and hits again at each retry of a blocked request). A rank publishes after each step; between
//! steps, and for ever once it is wedged, the numbers stand still.

mod exposition;
mod histogram;

pub(crate) use exposition::{ServerFacts, write};

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sim::scheduler::{Counters, Scheduler, Step};
use tokio::time::Instant;

use crate::generation::Finish;
use histogram::Histogram;

/// Numbers of one rank.
#[derive(Debug)]
pub(crate) struct RankMetrics(Mutex<RankNumbers>);

#[derive(Debug, Clone)]
struct RankNumbers {
    running: usize,
    waiting: usize,
    kv_cache_usage: f64,
    counters: Counters,
    finished: BTreeMap<Finish, u64>,
    histograms: Histograms,
}

/// Histograms with vLLM's names; seconds or tokens.
#[derive(Debug, Clone)]
struct Histograms {
    time_to_first_token: Histogram,
    inter_token_latency: Histogram,
    e2e_latency: Histogram,
    queue_time: Histogram,
    inference_time: Histogram,
    prefill_time: Histogram,
    decode_time: Histogram,
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
    iteration_tokens: Histogram,
    time_per_output_token: Histogram,
    prefill_kv_computed: Histogram,
}

/// When what happened to a request.
#[derive(Debug)]
pub(crate) struct Timing {
    arrived: Instant,
    scheduled: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    prompt_tokens: usize,
    /// Of the prompt, found in the cache.
    cached_tokens: u32,
    tokens: u32,
}

impl Timing {
    /// A request that arrives now.
    pub(crate) fn new(prompt_tokens: usize) -> Self {
        Self {
            arrived: Instant::now(),
            scheduled: None,
            first_token: None,
            last_token: None,
            prompt_tokens,
            cached_tokens: 0,
            tokens: 0,
        }
    }

    /// A step took it; so many of its prompt's tokens were found in the cache.
    pub(crate) fn scheduled(&mut self, cached_tokens: u32) {
        self.scheduled.get_or_insert_with(Instant::now);
        self.cached_tokens = cached_tokens;
    }
}

impl RankMetrics {
    /// All zero. `max_model_len` decides the buckets of token histograms, as in vLLM.
    pub(crate) fn new(max_model_len: u32) -> Self {
        Self(Mutex::new(RankNumbers {
            running: 0,
            waiting: 0,
            kv_cache_usage: 0.0,
            counters: Counters::default(),
            finished: BTreeMap::new(),
            histograms: Histograms::new(max_model_len),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, RankNumbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the scheduler says of itself.
    pub(crate) fn publish(&self, scheduler: &Scheduler) {
        let mut numbers = self.lock();
        numbers.running = scheduler.running();
        numbers.waiting = scheduler.waiting();
        numbers.kv_cache_usage = scheduler.kv_cache_usage();
        numbers.counters = scheduler.counters();
    }

    /// A step was done.
    pub(crate) fn iteration(&self, step: &Step) {
        let tokens: u32 = step.scheduled.iter().map(|one| one.tokens).sum();
        let histograms = &mut self.lock().histograms;
        histograms.iteration_tokens.observe(f64::from(tokens));
    }

    /// A request got a token.
    pub(crate) fn token(&self, timing: &mut Timing) {
        let now = Instant::now();
        let histograms = &mut self.lock().histograms;
        timing.tokens += 1;
        if let Some(last) = timing.last_token.replace(now) {
            let gap = (now - last).as_secs_f64();
            histograms.inter_token_latency.observe(gap);
        } else {
            timing.first_token = Some(now);
            let latency = (now - timing.arrived).as_secs_f64();
            histograms.time_to_first_token.observe(latency);
        }
    }

    /// A request ended by itself (what clients abort is not counted, as in vLLM).
    pub(crate) fn finished(&self, timing: &Timing, finish: Finish) {
        let now = Instant::now();
        let mut numbers = self.lock();
        *numbers.finished.entry(finish).or_default() += 1;
        let histograms = &mut numbers.histograms;
        let scheduled = timing.scheduled.unwrap_or(now);
        let first = timing.first_token.unwrap_or(now);
        let seconds = |from: Instant, to: Instant| (to - from).as_secs_f64();
        histograms.e2e_latency.observe(seconds(timing.arrived, now));
        histograms
            .queue_time
            .observe(seconds(timing.arrived, scheduled));
        histograms.inference_time.observe(seconds(scheduled, now));
        histograms.prefill_time.observe(seconds(scheduled, first));
        histograms.decode_time.observe(seconds(first, now));
        histograms
            .prompt_tokens
            .observe(timing.prompt_tokens as f64);
        histograms
            .generation_tokens
            .observe(f64::from(timing.tokens));
        let gaps = f64::from(timing.tokens.saturating_sub(1).max(1));
        let per_token = seconds(first, now) / gaps;
        histograms.time_per_output_token.observe(per_token);
        let computed = timing.prompt_tokens as f64 - f64::from(timing.cached_tokens);
        histograms.prefill_kv_computed.observe(computed);
    }

    /// Requests waiting and running, and the KV usage: what vLLM's balancer sees.
    pub(crate) fn load(&self) -> (usize, usize, f64) {
        let numbers = self.lock();
        (numbers.waiting, numbers.running, numbers.kv_cache_usage)
    }
}

impl Histograms {
    fn new(max_model_len: u32) -> Self {
        let latency = || Histogram::new(histogram::REQUEST_LATENCY_S.to_vec());
        let tokens = || Histogram::new(histogram::one_two_five(max_model_len));
        Self {
            time_to_first_token: Histogram::new(histogram::FIRST_TOKEN_S.to_vec()),
            inter_token_latency: Histogram::new(histogram::INTER_TOKEN_S.to_vec()),
            e2e_latency: latency(),
            queue_time: latency(),
            inference_time: latency(),
            prefill_time: latency(),
            decode_time: latency(),
            prompt_tokens: tokens(),
            generation_tokens: tokens(),
            iteration_tokens: Histogram::new(histogram::ITERATION_TOKENS.to_vec()),
            time_per_output_token: Histogram::new(histogram::INTER_TOKEN_S.to_vec()),
            prefill_kv_computed: tokens(),
        }
    }
}
