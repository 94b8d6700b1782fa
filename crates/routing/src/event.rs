//! What the router is told between requests: replies, scrapes, probes, operators' commands. It learns
//! nothing in any other way, so a recorded sequence of requests and events replays exactly.

use crate::{HostTier, ReplicaIndex, Ticket, Usage};

/// One scrape of an engine's gauges and counters for one replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauges {
    /// `vllm:num_requests_running`.
    pub running: u32,
    /// `vllm:num_requests_waiting`.
    pub waiting: u32,
    /// `vllm:kv_cache_usage_perc`, 0..1, active requests only.
    pub kv_cache_usage: f64,
    /// Sum of the token counters (prompt and generation); any change is progress.
    pub tokens_total: u64,
}

/// What happened, in the order it happened. Events with an unknown ticket are ignored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The first body byte of a request's reply arrived.
    FirstByte(Ticket),
    /// Further body bytes of a reply arrived (at most once a second per request).
    Progress(Ticket),
    /// The reply ended well; usage where the engine gave it.
    Finished(Ticket, Option<Usage>),
    /// It ended otherwise: client gone, engine error, broken stream.
    Aborted(Ticket),
    /// A scrape succeeded.
    Scraped(ReplicaIndex, Gauges),
    /// The engine told how many tokens its KV cache holds.
    KvTokens(ReplicaIndex, u64),
    /// What host memory keeps of what the KV cache evicts became known.
    HostTier(ReplicaIndex, Option<HostTier>),
    /// A TCP connect to the replica failed: out at once, even as the last one.
    ConnectFailed(ReplicaIndex),
    /// Its health probe failed. A probe alone never empties the set.
    ProbeFailed(ReplicaIndex),
    /// Its health probe succeeded.
    ProbeSucceeded(ReplicaIndex),
    /// Its engine process is another than before: what its cache held is gone.
    EngineRestarted(ReplicaIndex),
    /// Operator: nothing new goes there, conversations move when they next speak.
    Drain(ReplicaIndex),
    /// Operator: the end of that.
    Undrain(ReplicaIndex),
}
