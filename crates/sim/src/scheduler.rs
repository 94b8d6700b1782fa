//! vLLM's V1 scheduler with prefix caching, step for step.

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
}

/// What one step does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Requests and how many tokens of each, in schedule order.
    pub scheduled: Vec<ScheduledRequest>,
    /// Preempted in this step, in order.
    pub preempted: Vec<RequestId>,
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

/// The scheduler and its block pool.
#[derive(Debug)]
pub struct Scheduler {}

impl Scheduler {
    /// An empty engine.
    pub fn new(_config: SchedulerConfig) -> Self {
        todo!()
    }
    /// Appends a request to the waiting queue. `output_max` ends it by length.
    pub fn add(&mut self, _id: RequestId, _prompt: Vec<u32>, _output_max: u32) {
        todo!()
    }
    /// Schedules one step; `None` where nothing runs or waits, or nothing waiting can ever fit.
    pub fn step(&mut self) -> Option<Step> {
        todo!()
    }
    /// The model's outputs for a step come back: one token per sampling request, in order, and
    /// whether that token stops it. Returns the requests that finished (by stop or by length).
    pub fn complete(&mut self, _step: &Step, _tokens: &[(RequestId, u32, bool)]) -> Vec<RequestId> {
        todo!()
    }
    /// The client left: frees the request wherever it is. Unknown ids are ignored.
    pub fn abort(&mut self, _id: RequestId) {
        todo!()
    }
    /// Prompt tokens found in the cache when the request was first admitted; `None` while it waits.
    pub fn cached_tokens(&self, _id: RequestId) -> Option<u32> {
        todo!()
    }
    /// Requests running.
    pub fn running(&self) -> usize {
        todo!()
    }
    /// Requests waiting.
    pub fn waiting(&self) -> usize {
        todo!()
    }
    /// Blocks on the free list.
    pub fn free_blocks(&self) -> usize {
        todo!()
    }
}
