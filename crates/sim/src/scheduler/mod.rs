//! vLLM's V1 scheduler with prefix caching, step for step.
//!
//! What one engine does is decided by three things: the order of its queues (`queue`), the order
//! of its free blocks (`block_pool`), and which prefixes it finds again (`prefix`). All three
//! follow vLLM 0.26 exactly (fcfs, chunked prefill, watermark 0, the whole prompt must fit at
//! admission); `trace` holds them against recordings. How long a step takes is not decided here,
//! nor what the model says: the caller hands in every token.
//!
//! Synchronous and asynchronous scheduling are the same code: an engine that schedules
//! asynchronously calls [`Scheduler::step`] a second time before it [completes](Scheduler::complete)
//! the first, and so sees a finish one step late, as vLLM does.

mod block_pool;
mod host_tier;
mod prefix;
mod queue;
mod request;
#[cfg(test)]
mod tests;

use block_pool::BlockPool;
use host_tier::HostTier;
pub(crate) use prefix::PrefixHashes;
use request::{Request, Requests, Slot};
use std::collections::VecDeque;

/// The salt of a request that sent none.
pub const UNSALTED: u64 = 0;

/// Identifies a request to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Limits of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// KV blocks, block 0 (the null block) included.
    pub num_blocks: u32,
    /// Tokens per block.
    pub block_size: u32,
    /// Tokens per step.
    pub max_num_batched_tokens: u32,
    /// Sequences that run at once.
    pub max_num_seqs: u32,
    /// Longest prompt plus output.
    pub max_model_len: u32,
    /// Blocks that host memory keeps beside them (`--kv-offloading-size`); 0 without.
    pub host_blocks: u32,
}

/// What one step does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Requests and how many tokens of each, in schedule order.
    pub scheduled: Vec<ScheduledRequest>,
    /// Preempted in this step, in order.
    pub preempted: Vec<RequestId>,
    /// Tokens whose KV is read back from host memory before it, for requests that it admits.
    pub loaded_tokens: u32,
}

/// One request's share of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledRequest {
    /// The request.
    pub id: RequestId,
    /// Tokens computed in this step.
    pub tokens: u32,
    /// Tokens already in the KV cache before it (cached or computed earlier): its context.
    pub context: u32,
    /// Whether the step ends with a new token of this request (its prompt is then complete).
    pub samples: bool,
}

/// Sums since the start, as vLLM's metrics count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// `vllm:prefix_cache_queries_total`: tokens looked up. A request that stays blocked at the head
    /// of the queue is counted again at every step.
    pub prefix_cache_queries: u64,
    /// `vllm:prefix_cache_hits_total`: of these, tokens found, counted again likewise.
    pub prefix_cache_hits: u64,
    /// `vllm:prompt_tokens_total`: prompt tokens of requests when first admitted.
    pub prompt_tokens: u64,
    /// `vllm:prompt_tokens_cached_total`: of these, tokens found in the cache, or in host memory.
    pub prompt_tokens_cached: u64,
    /// Of these, tokens read back from host memory.
    pub prompt_tokens_loaded: u64,
    /// `vllm:generation_tokens_total`.
    pub generation_tokens: u64,
    /// `vllm:num_preemptions_total`.
    pub preemptions: u64,
}

impl Counters {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            prefix_cache_queries: self.prefix_cache_queries - earlier.prefix_cache_queries,
            prefix_cache_hits: self.prefix_cache_hits - earlier.prefix_cache_hits,
            prompt_tokens: self.prompt_tokens - earlier.prompt_tokens,
            prompt_tokens_cached: self.prompt_tokens_cached - earlier.prompt_tokens_cached,
            prompt_tokens_loaded: self.prompt_tokens_loaded - earlier.prompt_tokens_loaded,
            generation_tokens: self.generation_tokens - earlier.generation_tokens,
            preemptions: self.preemptions - earlier.preemptions,
        }
    }
}

/// The scheduler and its block pool.
#[derive(Debug, Clone)]
pub struct Scheduler {
    config: SchedulerConfig,
    pool: BlockPool,
    host: HostTier,
    requests: Requests,
    running: Vec<Slot>,
    waiting: VecDeque<Slot>,
    counters: Counters,
}

impl Scheduler {
    /// An empty engine.
    pub fn new(config: SchedulerConfig) -> Self {
        Self {
            pool: BlockPool::new(config.num_blocks),
            host: HostTier::new(config.host_blocks as usize),
            config,
            requests: Requests::default(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Appends a request to the waiting queue. `output_max` (at least 1) ends it by length. A prompt
    /// that never fits stays at the head for ever, as in vLLM: see [`Self::can_ever_fit`].
    pub fn add(&mut self, id: RequestId, prompt: Vec<u32>, output_max: u32) {
        self.add_salted(id, prompt, output_max, UNSALTED);
    }

    /// The same, of a request that shares cached blocks only with those of the same salt.
    pub fn add_salted(&mut self, id: RequestId, prompt: Vec<u32>, output_max: u32, salt: u64) {
        let mut hashes = PrefixHashes::salted(salt);
        hashes.extend(&prompt, self.config.block_size);
        let request = Request::new(id, prompt, output_max, hashes);
        let slot = self.requests.insert(request);
        self.waiting.push_back(slot);
    }

    /// Whether a prompt of this length can be admitted by an otherwise idle engine.
    pub fn can_ever_fit(&self, prompt_tokens: u32) -> bool {
        prompt_tokens < self.config.max_model_len
            && prompt_tokens.div_ceil(self.config.block_size) < self.config.num_blocks
    }

    /// Schedules one step; `None` where nothing can run before a step in flight completes or a
    /// request arrives. A step that only preempts has an empty [`Step::scheduled`].
    pub fn step(&mut self) -> Option<Step> {
        let mut step = Step::default();
        let mut budget = self.config.max_num_batched_tokens;
        self.schedule_running(&mut step, &mut budget);
        if step.preempted.is_empty() {
            self.admit_waiting(&mut step, &mut budget);
        }
        (!step.scheduled.is_empty() || !step.preempted.is_empty()).then_some(step)
    }

    /// The model's outputs for a step come back: one token per sampling request, in order, and
    /// whether that token stops it. Returns the requests that finished (by stop or by length).
    /// Tokens of requests that are gone meanwhile are dropped.
    pub fn complete(&mut self, _step: &Step, tokens: &[(RequestId, u32, bool)]) -> Vec<RequestId> {
        let mut finished = Vec::new();
        for &(id, token, stops) in tokens {
            let Some(slot) = self.requests.slot_of(id) else {
                continue;
            };
            if self.append_output(slot, token) || stops {
                self.remove(slot);
                finished.push(id);
            }
        }
        finished
    }

    /// The client left: frees the request wherever it is. Unknown ids are ignored.
    pub fn abort(&mut self, id: RequestId) {
        if let Some(slot) = self.requests.slot_of(id) {
            self.remove(slot);
        }
    }

    /// Forgets every cached prefix (`/reset_prefix_cache`).
    pub fn reset_prefix_cache(&mut self) {
        self.pool.forget_all();
    }

    /// Prompt tokens found in the cache (or in host memory) when the request was first admitted; `None` before that and
    /// after its end.
    pub fn cached_tokens(&self, id: RequestId) -> Option<u32> {
        self.requests
            .slot_of(id)
            .and_then(|slot| self.requests.get(slot).cached_at_admission)
    }

    /// Requests running.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Ids of the requests running, in list order.
    pub fn running_ids(&self) -> impl Iterator<Item = RequestId> {
        self.running.iter().map(|slot| self.requests.get(*slot).id)
    }

    /// Requests waiting.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Blocks on the free list.
    pub fn free_blocks(&self) -> usize {
        self.pool.free_count()
    }

    /// Block ids of the free list, head first.
    pub fn free_order(&self) -> Vec<u32> {
        self.pool.free_order()
    }

    /// `vllm:kv_cache_usage_perc`, 0..1: the share of blocks that requests hold. What idle
    /// conversations left in the cache is not in it.
    pub fn kv_cache_usage(&self) -> f64 {
        let usable = self.config.num_blocks.saturating_sub(1).max(1);
        1.0 - self.pool.free_count() as f64 / f64::from(usable)
    }

    /// Sums since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The limits it was made with.
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }
}
