//! Leases: what happens when the contexts outgrow the caches, who holds a place and who waits for one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::AutoWord;

/// Leases of one model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Leases {
    /// Whether they may be used.
    pub mode: LeasesMode,
    /// Whether they are in use, and if not, why.
    pub state: LeasesState,
    /// Whether conversations contend for cache at this moment.
    pub contended: bool,
    /// Since when they do, in epoch seconds; null where they do not.
    pub contended_since: Option<f64>,
    /// How many turns a conversation keeps its place while others wait.
    pub turns: LeaseTurns,
    /// Requests that wait for a place.
    pub waiting: u32,
    /// Conversations that hold a place.
    pub holding: u32,
    /// Age of the longest wait; null where nobody waits.
    pub oldest_wait_s: Option<f64>,
    /// How long a request that came now would wait, as predicted.
    pub predicted_wait_s: f64,
    /// Of what conversations left in a cache lately, the share that they found gone, 0 to 1.
    pub miss_ratio: f64,
    /// By replica number.
    pub replicas: Vec<LeaseShare>,
    /// Who waits, next one first; at most 50.
    pub waiters: Vec<LeaseWaiter>,
    /// Who holds a place, the longest first; at most 50.
    pub holders: Vec<LeaseHolder>,
    /// Sums since the warden started.
    pub counters: LeaseCounters,
}

/// Whether leases may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeasesMode {
    /// Used where sticky routing thrashes.
    Auto,
    /// Never used.
    #[default]
    Off,
}

/// Whether leases are in use, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeasesState {
    /// The settings say so.
    #[default]
    Off,
    /// Affinity is off, so there is nothing to hold.
    AffinityOff,
    /// An engine has not told how many tokens its KV cache holds.
    KvTokensUnknown,
    /// No engine has told yet how much of a prompt it read from its cache.
    UsageUnknown,
    /// Routing is sticky, and watched: nothing waits.
    Sticky,
    /// Conversations hold their share of a cache, and others wait.
    Contended,
}

/// Turns that a conversation keeps its place while others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LeaseTurns {
    /// The number in force.
    pub value: u32,
    /// Whether it is set, or the warden's own choice.
    pub set: bool,
}

/// Turns to set: a number, at least 1, or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "lease_turns must be \"auto\" or a whole number of turns, at least 1"
)]
pub enum SetTurns {
    /// So many turns.
    Turns(u32),
    /// `"auto"`.
    Word(AutoWord),
}

/// One replica's places.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseShare {
    /// Which replica.
    pub replica: u16,
    /// Conversations that hold a share of its cache.
    pub holding: u32,
    /// Tokens that they hold, beyond the prefixes that all share.
    pub leased_tokens: u64,
    /// Tokens that may be held; null where the cache's size is unknown.
    pub capacity_tokens: Option<u64>,
    /// The part of the cache that is believed to be usable, 0.6 to 1.
    pub theta: f64,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseWaiter {
    /// 16 hex digits of a keyed hash; null where none is named.
    pub conversation: Option<String>,
    /// When its conversation first asked, refused attempts included, in epoch seconds.
    pub since: f64,
    /// How long it is likely to wait still.
    pub remaining_s: f64,
}

/// A conversation that holds a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseHolder {
    /// 16 hex digits of a keyed hash.
    pub conversation: String,
    /// Where.
    pub replica: u16,
    /// Tokens that it holds, beyond the prefixes that all share.
    pub tokens: u64,
    /// Turns that it has had since it got its place.
    pub turns: u32,
    /// Since when, in epoch seconds.
    pub since: f64,
    /// Until when its place is kept while it says nothing, in epoch seconds; null while a turn runs.
    pub held_until: Option<f64>,
}

/// Sums since the warden started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LeaseCounters {
    /// Times that leases began.
    pub contentions: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Requests that were told to come back, as the wait would have been too long.
    pub refused: u64,
    /// Waits that ended as there was room. All that end so and in the five ways that follow, and all
    /// that last, make up `waits`.
    pub ended_room: u64,
    /// As their conversation held a place by then.
    pub ended_held: u64,
    /// As they had lasted too long: the request went to a full replica.
    pub ended_age: u64,
    /// As nobody contended any more, or leases or affinity were switched off.
    pub ended_over: u64,
    /// As no replica was left to wait for.
    pub ended_nowhere: u64,
    /// As the client left, or the warden was being stopped.
    pub ended_left: u64,
    /// Requests that went to a full replica because of their age, some of them on arrival.
    pub over_age: u64,
    /// Places given.
    pub grants: u64,
    /// Turns that found their conversation's place still held.
    pub held_turns: u64,
    /// Places given up because the conversation was silent for too long.
    pub released_silent: u64,
    /// Because others had waited for a quantum of turns.
    pub released_quantum: u64,
    /// Because more was held than fits.
    pub released_overflow: u64,
    /// Because the replica or the conversation was gone, or nobody contended any more.
    pub released_void: u64,
    /// Tokens that conversations had left on their replica and found gone.
    pub missed_tokens: u64,
    /// Tokens that they had left there in all.
    pub expected_tokens: u64,
}
