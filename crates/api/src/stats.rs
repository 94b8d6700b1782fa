//! What the engines counted, over time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Route;

/// Figures of the last `range_s` seconds in steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Seconds covered.
    pub range_s: u64,
    /// Seconds per point.
    pub step_s: u64,
    /// The model asked for; null for all together.
    pub model: Option<String>,
    /// Oldest first, one per step. The last one is still filling.
    pub points: Vec<Point>,
    /// The range as a whole.
    pub summary: StatsSummary,
    /// What happened within the range, oldest first; the youngest 200.
    pub marks: Vec<Mark>,
}

/// Something that explains a break in the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// When, in epoch seconds.
    pub t: f64,
    /// What kind of thing.
    pub kind: MarkKind,
    /// Whose; null for the warden's own.
    pub model: Option<String>,
    /// What happened, in words.
    pub text: String,
}

/// What explains a break in the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The warden was started.
    WardenStarted,
    /// An engine was started, or came back.
    EngineStarted,
    /// An operator changed a setting, or the configuration was read again.
    SettingChanged,
}

/// Requests that one rule routed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RouteFigures {
    /// The rule; null where no decision was made.
    pub route: Option<Route>,
    /// Requests that ended.
    pub requests: u64,
    /// Median time from arrival to the first byte of the reply.
    pub ttfb_ms_p50: Option<f64>,
    /// 95th percentile of the same.
    pub ttfb_ms_p95: Option<f64>,
}

/// One step. A step without a finished request has null figures: a gap is not a zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// When the step begins, in epoch seconds.
    pub t: f64,
    /// Prompt tokens read from the prefix cache, as the engine measured.
    pub prompt_tokens_cached: Option<u64>,
    /// All other prompt tokens (what the engine did not measure counts here).
    pub prompt_tokens_computed: Option<u64>,
    /// Generated tokens.
    pub completion_tokens: Option<u64>,
    /// Requests that ended.
    pub requests: Option<u64>,
    /// Requests for which the engine reported no usage at all: they count in no token figure.
    pub unmeasured_requests: Option<u64>,
    /// `prompt_tokens_cached` over the step's seconds. A request's tokens count in the step in which
    /// it ended, and the step that is still filling has not had its whole length.
    pub prompt_tokens_cached_per_s: Option<f64>,
    /// `prompt_tokens_computed` over the step's seconds.
    pub prompt_tokens_computed_per_s: Option<f64>,
    /// `completion_tokens` over the step's seconds.
    pub completion_tokens_per_s: Option<f64>,
    /// From a request's arrival to the first byte of its reply.
    pub ttfb_ms_p50: Option<f64>,
    /// 95th percentile of the same.
    pub ttfb_ms_p95: Option<f64>,
    /// The requests by rule; those without any are left out.
    pub routes: Vec<RouteFigures>,
}

/// The range as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsSummary {
    /// 100 x cached / (cached + computed); null while that is 0 / 0.
    pub cache_hit_percent: Option<f64>,
    /// Prompt tokens read from the prefix cache.
    pub prompt_tokens_cached: u64,
    /// All other prompt tokens.
    pub prompt_tokens_computed: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Requests.
    pub requests: u64,
    /// Requests without usage.
    pub unmeasured_requests: u64,
    /// Median time from arrival to the first byte of the reply.
    pub ttfb_ms_p50: Option<f64>,
    /// 95th percentile of the same.
    pub ttfb_ms_p95: Option<f64>,
    /// The requests by rule; those without any are left out.
    pub routes: Vec<RouteFigures>,
}
