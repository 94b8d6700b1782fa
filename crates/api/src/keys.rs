//! Keys, without their secrets.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyRole {
    /// Use the models.
    Client,
    /// Use the models, and the operators' API, pages and metrics.
    Admin,
}

/// All keys, and whether one is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Keys {
    /// Whether a request without a key is refused.
    pub required: bool,
    /// Why the file of keys cannot be read; the keys known before then still count. Null where it
    /// can.
    pub trouble: Option<String>,
    /// By name.
    pub keys: Vec<Key>,
}

/// One key. Counts run since the warden started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: KeyRole,
    /// When it was made, in epoch seconds.
    pub created: i64,
    /// From when on it is not taken any more, in epoch seconds; null for never.
    pub expires: Option<i64>,
    /// Whether that has passed.
    pub expired: bool,
    /// What it may use.
    pub limits: KeyLimits,
    /// Requests that were let in.
    pub requests: u64,
    /// Requests that a limit turned away (429).
    pub limited: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Prompt tokens that the engine had cached.
    pub prompt_tokens_cached: u64,
    /// Prompt tokens that it read; those that were not measured among them.
    pub prompt_tokens_computed: u64,
    /// Tokens that it generated.
    pub completion_tokens: u64,
    /// When it last asked for a reply, in epoch seconds; null where not since the warden started.
    pub last_used: Option<f64>,
}

/// What a key may use; null is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyLimits {
    /// Requests per minute.
    pub requests_per_min: Option<u32>,
    /// Requests in flight.
    pub concurrent_requests: Option<u32>,
    /// Tokens per minute: prompt tokens that were not cached, and generated ones.
    pub tokens_per_min: Option<u32>,
}

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Whether a request without a key is refused.
    pub required: bool,
    /// The name of the key of this request or session; null without one.
    pub name: Option<String>,
    /// What it may do.
    pub role: Option<KeyRole>,
}

/// An admin's key, for a session of the pages. No `Debug`: nothing may print it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The key.
    pub key: String,
}
