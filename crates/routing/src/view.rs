//! The router's state as pages and metrics read it. Nothing here counts decisions: that is
//! telemetry's, so that no number is counted in two places.

use crate::{Gauges, HomeRecord, LeaseView, Route, Time};

/// One replica as the panel shows it. Counters of decisions are telemetry's, not the router's.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each shown by itself"
)]
pub struct ReplicaView {
    /// Up, not draining, and making progress.
    pub available: bool,
    /// Reached by probes and connects.
    pub up: bool,
    /// An operator drains it.
    pub draining: bool,
    /// Requests in flight without any progress for too long.
    pub wedged: bool,
    /// Shortly back: takes new conversations at half rate.
    pub ramping: bool,
    /// Requests the warden has in flight there.
    pub in_flight: u32,
    /// The last scrape and when it was; `None` before the first.
    pub gauges: Option<(Gauges, Time)>,
    /// Active conversations homed there.
    pub conversations: u32,
    /// Their own tokens and the shared prefixes, each counted once.
    pub committed_tokens: u64,
    /// What its KV cache holds.
    pub kv_tokens: Option<u64>,
    /// When it last made progress (or last had nothing to do).
    pub last_progress: Time,
}

/// The router's state at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// By index.
    pub replicas: Vec<ReplicaView>,
    /// Requests in flight, those without a replica (balanced) included.
    pub in_flight: u32,
    /// Conversations in the table.
    pub conversations: usize,
    /// Who holds, who waits, since when.
    pub leases: LeaseView,
}

/// One conversation as the pages show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConversationView {
    /// What is also persisted.
    pub record: HomeRecord,
    /// Requests in flight.
    pub in_flight: u32,
    /// The rule of its last decision.
    pub last_route: Route,
}
