//! Models, the panel *Data-parallel routing*, and what an operator can set there.

use crate::{Leases, LeasesMode, SetTurns};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Alarm;

/// All models, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Models {
    /// The warden's version.
    pub version: String,
    /// When this process started, in epoch seconds.
    pub started: f64,
    /// For how long it has run, in seconds.
    pub uptime_s: f64,
    /// The models.
    pub models: Vec<Model>,
}

/// One served model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Model {
    /// What clients ask for.
    pub name: String,
    /// Other names it answers to; one that ends in `*` stands for all names that begin so.
    pub aliases: Vec<String>,
    /// Its state.
    pub state: ModelState,
    /// Since when it is in this state, in epoch seconds.
    pub state_since: f64,
    /// What it is doing or what failed, in words; null when it is ready.
    pub state_reason: Option<String>,
    /// The engine behind it.
    pub engine: Engine,
    /// What its engines do now.
    pub throughput: Throughput,
    /// How its conversations are routed.
    pub routing: Routing,
    /// What its clients do that costs them their cache; null where nothing of that kind was seen.
    pub alarm: Option<Alarm>,
}

/// Tokens per second over the last scrapes (10 s at most), by the engines' own counters: what still
/// runs counts too, which the history counts when it has ended. The sum over the replicas that were
/// scraped within 5 s. An idle engine's zero is measured; what is null is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Throughput {
    /// Over how many seconds; null before an engine's second scrape.
    pub span_s: Option<f64>,
    /// Prompt tokens read from the prefix cache; null where no engine tells.
    pub prompt_tokens_cached_per_s: Option<f64>,
    /// All other prompt tokens (what an engine does not tell apart counts here).
    pub prompt_tokens_computed_per_s: Option<f64>,
    /// Generated tokens.
    pub completion_tokens_per_s: Option<f64>,
}

/// State of a model as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelState {
    /// All replicas serve.
    Ready,
    /// No replica serves yet, or none does any more.
    Loading,
    /// Some replicas are out.
    Degraded,
    /// It will not come back by itself.
    Failed,
    /// An operator stopped it.
    Stopped,
}

/// The engine behind a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Engine {
    /// Who runs it.
    pub kind: EngineKind,
    /// The engine's own name for the model; null until it has told.
    pub model: Option<String>,
    /// Its version; null until it has told.
    pub version: Option<String>,
    /// When its process started, in epoch seconds, the youngest's where there are several; null
    /// where it does not tell.
    pub started: Option<f64>,
    /// Longest prompt and reply together, in tokens; null until it has told.
    pub max_model_len: Option<u64>,
    /// Its limit of concurrent sequences per replica.
    pub max_num_seqs: u32,
    /// Whether `/v1/responses` can be sent to a chosen replica (vLLM 0.33 on, or a URL per replica).
    pub responses_steerable: bool,
}

/// Who runs the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// vLLM, started and supervised by the warden.
    Vllm,
    /// It runs elsewhere.
    Attached,
    /// A simulated engine, a child process of the warden.
    Simulated,
}

/// The panel *Data-parallel routing*.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Routing {
    /// Whether conversations return to the replica that served them.
    pub affinity: bool,
    /// When conversations spill.
    pub spill_threshold: SpillThreshold,
    /// What happens when the machine is full.
    pub leases: Leases,
    /// 100 x sticky / (sticky + spilled + moved) since `counters_since`; null while that is 0 / 0.
    pub sticky_percent: Option<f64>,
    /// Requests in flight, those that vLLM's balancer placed included.
    pub in_flight: u32,
    /// Requests that vLLM's own balancer placed since `counters_since`.
    pub balanced: u64,
    /// Since when the counters run, in epoch seconds.
    pub counters_since: f64,
    /// What the active conversations need of the cache.
    pub working_set: WorkingSet,
    /// By replica number.
    pub replicas: Vec<Replica>,
}

/// Active conversations times their contexts, held against the cache of all replicas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkingSet {
    /// Active conversations.
    pub conversations: u32,
    /// Their own tokens, and the prefixes they share on each replica, each counted once.
    pub tokens: u64,
    /// Tokens that the caches hold; null unless all replicas have told.
    pub kv_tokens: Option<u64>,
    /// `tokens` over `kv_tokens`; null where that is unknown.
    pub fill: Option<f64>,
    /// How many conversations of their mean size the caches hold; null where that is unknown.
    pub conversations_fit: Option<u64>,
    /// Whether the caches cannot hold them all: turns are read again.
    pub is_over: bool,
}

/// Requests in flight on a replica above which its conversations spill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpillThreshold {
    /// The threshold in force.
    pub value: u32,
    /// Where it comes from.
    pub source: ThresholdSource,
}

/// Where a threshold comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdSource {
    /// A quarter of `max_num_seqs`, at least 1.
    Auto,
    /// Set in the configuration or by an operator.
    Set,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Its number, equal to its data-parallel rank where the replicas are ranks of one server.
    pub replica: u16,
    /// Its state.
    pub state: ReplicaState,
    /// Requests that the warden has in flight there.
    pub in_flight: u32,
    /// Requests since `counters_since` that began a conversation here.
    pub new: u64,
    /// That returned to their home here.
    pub sticky: u64,
    /// That were served here because their home was over its threshold.
    pub spilled_in: u64,
    /// That made this their new home because theirs was gone.
    pub moved_in: u64,
    /// That named this replica themselves.
    pub client_pinned: u64,
    /// Requests the engine runs, by its own count; null where it is unknown.
    pub running: Option<u32>,
    /// Requests that wait in the engine; null where it is unknown.
    pub waiting: Option<u32>,
    /// Share of the KV cache that active requests use, 0 to 1; null where it is unknown.
    pub kv_cache_usage: Option<f64>,
    /// Cached over all prompt tokens by the engine's counters since `counters_since`, 0 to 1; null
    /// where it is unknown.
    pub prefix_cache_hit_rate: Option<f64>,
    /// The engine's own counters, as they stood at the last scrape; null before the first.
    pub engine_counters: Option<EngineCounters>,
    /// Active conversations whose home it is.
    pub conversations: u32,
    /// Their own tokens and the prefixes they share, each counted once.
    pub committed_tokens: u64,
    /// Tokens that its KV cache holds; null where it is unknown.
    pub kv_tokens: Option<u64>,
    /// Age of the engine's figures; null before the first.
    pub scrape_age_ms: Option<u64>,
}

/// Counters of an engine since it started; those that it does not give are null. Two readings tell
/// what happened between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EngineCounters {
    /// Prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Of these, read from the prefix cache.
    pub prompt_tokens_cached: Option<u64>,
    /// Tokens looked up in the prefix cache; a request that waits for room counts again at each try.
    pub prefix_cache_queries: Option<u64>,
    /// Of these, tokens found.
    pub prefix_cache_hits: Option<u64>,
    /// Generated tokens.
    pub generation_tokens: Option<u64>,
    /// Requests that had to give up their room and begin anew.
    pub preemptions: Option<u64>,
}

/// State of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    /// It serves.
    Up,
    /// Just back: it takes new conversations at half rate.
    Ramping,
    /// An operator drains it: it takes nothing new.
    Draining,
    /// Requests in flight without any progress for too long: it takes nothing new.
    Wedged,
    /// It cannot be reached.
    Down,
}

/// What to change about a model's routing; what is left out stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchRouting {
    /// Whether conversations return to the replica that served them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<bool>,
    /// When conversations spill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_threshold: Option<SetThreshold>,
    /// Whether conversations may be made to wait where the machine is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeasesMode>,
    /// How many turns a conversation keeps its place while others wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_turns: Option<SetTurns>,
}

/// A threshold to set: a number of requests, at least 1, or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "spill_threshold must be \"auto\" or a whole number of requests, at least 1"
)]
pub enum SetThreshold {
    /// So many requests in flight.
    Requests(u32),
    /// `"auto"`.
    Word(AutoWord),
}

/// The word for a value that the warden chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AutoWord {
    /// A threshold of a quarter of `max_num_seqs`; a place for 3 turns.
    Auto,
}
