//! Recent requests and why each went where it went.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of requests, newest first unless asked otherwise, those in flight included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Requests {
    /// Requests.
    pub requests: Vec<Request>,
    /// How many there are, beyond this page. Not counted past 50,000.
    pub matching: u64,
    /// There are more than were counted (or, with an order other than that of arrival or a search
    /// for words, than were looked at: the youngest 50,000).
    pub matching_at_least: bool,
    /// For `before=`: the page after this one; null at the end, and in any order but the newest
    /// first.
    pub next: Option<String>,
}

/// One request. What has not happened yet, or never will, is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Request {
    /// As in the reply's header `x-lm-warden-request-id`.
    pub id: String,
    /// When it arrived, in epoch seconds.
    pub t: f64,
    /// The model.
    pub model: Option<String>,
    /// 16 hex digits of a keyed hash; null where none could be named.
    pub conversation: Option<String>,
    /// 16 hex digits of a keyed hash of its session, which a main agent and its subagents share.
    pub session: Option<String>,
    /// 16 hex digits of a keyed hash of the agent's id; null for the main agent.
    pub agent: Option<String>,
    /// Which API: `messages`, `chat`, `completions`, `responses` or `other`.
    pub api: String,
    /// The rule that chose the replica.
    pub route: Option<Route>,
    /// Why it went there, in words.
    pub reason: Option<String>,
    /// All replicas' figures when the decision was made, by replica number.
    pub scores: Vec<Score>,
    /// Null where vLLM's balancer chose, and before a decision.
    pub replica: Option<u16>,
    /// The conversation's turn, 1 for the first; null without a conversation.
    pub turn: Option<u32>,
    /// Whether it was a side request that shares the conversation's id (a title, the summary of a
    /// page); told when it has ended.
    pub side: bool,
    /// From the end of its conversation's turn before to its arrival; null on a first turn, and until
    /// it has ended.
    pub gap_ms: Option<f64>,
    /// Why it read again what the turn before had read; null where it did not, or nobody can tell.
    pub cold: Option<Cold>,
    /// How long it waited in the warden before it was sent.
    pub queue_ms: Option<f64>,
    /// From its arrival to the first byte of its reply.
    pub ttfb_ms: Option<f64>,
    /// From its arrival to its end.
    pub total_ms: Option<f64>,
    /// All prompt tokens, cached ones included, as the engine counted.
    pub prompt_tokens: Option<u64>,
    /// Of these, read from the prefix cache; null where the engine did not say.
    pub cached_tokens: Option<u64>,
    /// All other prompt tokens; those of which the engine did not say count here.
    pub computed_tokens: Option<u64>,
    /// Generated tokens.
    pub completion_tokens: Option<u64>,
    /// HTTP status; 499 where the client left.
    pub status: Option<u16>,
    /// Null while it is in flight.
    pub end: Option<RequestEnd>,
}

/// The rule that chose the replica.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The client named the replica.
    Pinned,
    /// vLLM's own balancer chose (or round-robin over URLs).
    Balanced,
    /// First request of a conversation.
    New,
    /// The conversation's home.
    Sticky,
    /// The home was over its threshold; another replica served this one request.
    Spilled,
    /// The home was gone; this replica became the new home.
    Moved,
}

/// Why a turn read again what its conversation's turn before had read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cold {
    /// The cause.
    pub why: ColdCause,
    /// Tokens of the former prompt that were read again.
    pub tokens_read_again: u64,
    /// Whether the engine measured that; else it is told by sizes.
    pub measured: bool,
    /// The first part of the prompt that changed, such as `system block 1`; null where none did.
    pub part: Option<String>,
    /// All of it in words.
    pub sentence: String,
}

/// What made a turn cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ColdCause {
    /// Its replica's engine restarted since the turn before.
    Restarted,
    /// vLLM's own balancer chose the replica.
    Balanced,
    /// Its home was over the threshold; another replica served it.
    Spilled,
    /// It has a new home.
    Moved,
    /// The client named another replica.
    Pinned,
    /// The conversation had been forgotten, and was placed anew.
    Forgotten,
    /// It is back at its home; another replica had served the turn before.
    Returned,
    /// The prompt does not begin as it did.
    PrefixChanged,
    /// Claude Code's billing block changed.
    BillingBlock,
    /// Its cache was given to others while it was silent.
    Silence,
    /// The warden restarted since the turn before and cannot compare the prompts; no other cause
    /// explains it.
    Unknown,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    /// Completely.
    Complete,
    /// Refused by the warden; nothing reached the engine.
    Refused,
    /// The engine answered an error.
    EngineError,
    /// The engine broke off after a byte.
    Cut,
    /// The engine broke off before a byte, also at the second attempt.
    Lost,
    /// The client left.
    ClientGone,
    /// The replica made no progress for too long.
    Timeout,
    /// The warden was stopping.
    Shutdown,
    /// A fault of the warden's own.
    Internal,
}

/// One replica's figures at the moment of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Score {
    /// Which replica.
    pub replica: u16,
    /// Whether it could be chosen at all.
    pub available: bool,
    /// Whether its conversations' own tokens and this prompt fit its cache.
    pub fits: bool,
    /// Requests that the warden had in flight there: what the spill threshold is compared with.
    pub in_flight: u32,
    /// Requests running: the larger of the warden's own count and the engine's fresh figures.
    pub running: u32,
    /// Own tokens of its active conversations over its KV tokens; null where that is unknown.
    pub cache_fill: Option<f64>,
    /// Active conversations whose home it is.
    pub conversations: u32,
}
