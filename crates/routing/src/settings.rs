//! What an operator can set about routing, and what is known about each replica.

use std::time::Duration;

use crate::LeaseSettings;

/// Position of a replica in the model's list (equal to its data-parallel rank where the replicas
/// are ranks of one vLLM server).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaIndex(pub u16);

/// How a request is sent to a chosen replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// All replicas are ranks behind one server; a header names the rank. They fail together.
    Ranks,
    /// Every replica has a URL of its own. They fail one by one.
    Urls,
}

/// One replica, as the configuration or the engine's metrics describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSpec {
    /// Stable name (URL, or `rank:<n>` of a URL): homes are persisted under it, never by position.
    pub id: String,
    /// Tokens that the replica's KV cache holds; `None` until the engine has told.
    pub kv_tokens: Option<u64>,
    /// Its second tier; `None` where it has none, or nothing is known of it.
    pub host: Option<HostTier>,
}

/// Host memory in which an engine keeps a copy of what its KV cache holds, beyond the time when that
/// evicts it (vLLM's `--kv-offloading-size`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostTier {
    /// Tokens that it keeps: those used last, whether the KV cache holds them still or not.
    pub tokens: u64,
    /// Tokens that it can give back in a second, more than 0: bandwidth over the bytes of a token.
    pub tokens_per_s: f64,
}

/// Routing settings of one model. Changing them takes effect with the next request.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Off: every request goes where the engine's own balancer sends it.
    pub affinity: bool,
    /// Requests in flight on a replica above which its conversations spill; `None` is "auto":
    /// a quarter of `max_num_seqs`, at least 1.
    pub spill_threshold: Option<u32>,
    /// vLLM's limit of concurrent sequences per replica.
    pub max_num_seqs: u32,
    /// How replicas are addressed.
    pub steering: Steering,
    /// Idle time after which a conversation is forgotten (default 1 h).
    pub session_idle: Duration,
    /// Most conversations in the table (default 100,000); one owner may hold half of them.
    pub conversations_max: usize,
    /// What happens when the contexts outgrow the caches.
    pub leases: LeaseSettings,
}

impl Settings {
    /// The spill threshold in force: the set one, or a quarter of `max_num_seqs`, at least 1.
    pub fn spill_threshold_effective(&self) -> u32 {
        self.spill_threshold
            .unwrap_or((self.max_num_seqs / 4).max(1))
    }
}
