//! One model's settings, resolved.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Vllm;

/// A served model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// What clients ask for.
    pub name: String,
    /// Other names; a `*` in one stands for any text.
    pub aliases: Vec<String>,
    /// What runs it.
    pub engine: Engine,
    /// How its conversations are routed.
    pub routing: Routing,
}

/// What runs a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Engine {
    /// vLLM, started and supervised by the warden.
    Vllm(Vllm),
    /// It runs elsewhere.
    Attached(Attached),
    /// A simulated engine, a child process of the warden.
    Simulated(Simulated),
}

/// An engine that somebody else runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attached {
    /// Where its replicas are reached.
    #[serde(flatten)]
    pub replicas: Replicas,
    /// Concurrent sequences per replica.
    pub max_num_seqs: u32,
    /// Name of the variable with the engine's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The key itself; never printed.
    #[serde(skip)]
    pub api_key: Option<Secret>,
}

/// Where an engine's replicas are. URLs are always `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Replicas {
    /// Data-parallel ranks behind one server.
    Ranks {
        /// The server.
        url: String,
        /// How many ranks.
        data_parallel_size: u16,
    },
    /// One server each.
    Urls {
        /// The servers, without repetition.
        urls: Vec<String>,
    },
}

impl Replicas {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Ranks {
                data_parallel_size, ..
            } => usize::from(*data_parallel_size),
            Self::Urls { urls } => urls.len(),
        }
    }
}

/// A key that no log line and no error can show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A simulated engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    /// Replicas.
    pub data_parallel_size: u16,
    /// Concurrent sequences per replica.
    pub max_num_seqs: u32,
    /// Hardware and model to simulate.
    pub profile: String,
    /// How many times faster than the hardware.
    pub speed: f64,
}

/// How a model's conversations are routed. An operator's change at run time goes before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Routing {
    /// Whether conversations return to the replica that served them.
    pub affinity: bool,
    /// Requests in flight above which conversations spill.
    pub spill_threshold: api::SetThreshold,
    /// Whether conversations may be made to wait.
    pub leases: api::LeasesMode,
    /// Turns that a conversation keeps its place while others wait.
    pub lease_turns: api::SetTurns,
    /// Longest predicted wait that a request is let into; twice that for streams.
    #[serde(rename = "queue_wait_s_max", serialize_with = "as_seconds")]
    pub queue_wait_max: Duration,
    /// Idle time after which a conversation is forgotten.
    #[serde(rename = "session_idle_s", serialize_with = "as_seconds")]
    pub session_idle: Duration,
}

pub(super) fn as_seconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}
