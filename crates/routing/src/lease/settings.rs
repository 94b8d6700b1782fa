//! What an operator can set about leases, and the rule's constants.

use std::time::Duration;

/// Whether conversations may be made to wait where the contexts outgrow the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaseMode {
    /// Never: routing is sticky whatever happens.
    #[default]
    Off,
    /// Where sticky routing demonstrably thrashes.
    Auto,
}

/// Settings of leases for one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaseSettings {
    /// Whether at all.
    pub mode: LeaseMode,
    /// Turns that a conversation keeps its place while others wait, at least 1; `None` is "auto": 3.
    pub turns: Option<u32>,
    /// Longest wait that a request is let into, predicted on arrival; twice that for streams.
    /// Older than five sixths of it, a waiting request goes to a full replica.
    pub queue_wait_max: Duration,
    /// vLLM's `max_model_len`, tokens: what exceeds it goes to the engine at once, to be refused there.
    pub model_tokens_max: Option<u32>,
    /// The rule's constants.
    pub rule: LeaseRule,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            mode: LeaseMode::Off,
            turns: None,
            queue_wait_max: Duration::from_secs(240),
            model_tokens_max: None,
            rule: LeaseRule::default(),
        }
    }
}

/// The constants of the rule, found on seeds 1 to 5 of the simulated published workload and checked
/// on seeds 101 to 106. No operator sets them; they are data so that the simulator can show what each
/// one is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaseRule {
    /// Share of own tokens missed, over a long window, above which leases begin.
    pub miss_slow_max: f64,
    /// The same over a short window.
    pub miss_fast_max: f64,
    /// Whether leases end where the load falls; `false` begins with leases and keeps them.
    pub switches: bool,
    /// How long an idle lease is held.
    pub hold: Hold,
    /// Whose lease ends where more is leased than fits.
    pub overflow: Overflow,
    /// Turns, as a part of the quantum for each request that waits per lease, that a lease lasts beyond
    /// its first one, however long others have waited.
    pub turns_min_per_waiting: f64,
    /// Requests behind the first that may pass it.
    pub passers_max: u32,
    /// Whether a new conversation that waits alone may take the room of an idle lease.
    pub bets: bool,
    /// Whether a replica's believed capacity follows its misses.
    pub trims: bool,
    /// Turns whose growth a conversation is expected to need when it is let in.
    pub footprint_turns: u32,
}

/// How long a lease is held while its conversation is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Three times the conversation's largest recent gap, where that is worth it.
    Measured,
    /// Not at all.
    Zero,
    /// As long as the gap is worth it.
    Worth,
    /// For ever.
    Endless,
}

/// Whose lease ends where a replica has more leased than fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Nobody's: the cache drops what was used last.
    Ignored,
    /// That of whoever finishes a turn next.
    Anyone,
    /// That of the next to finish a turn that has waited no longer in all than the replica's holders
    /// have on average: so the waits of conversations come near to each other.
    WaitedLess,
}

impl Default for LeaseRule {
    fn default() -> Self {
        Self {
            miss_slow_max: 0.60,
            miss_fast_max: 0.85,
            switches: true,
            hold: Hold::Measured,
            overflow: Overflow::WaitedLess,
            turns_min_per_waiting: 0.6,
            passers_max: 4,
            bets: true,
            trims: true,
            footprint_turns: 1,
        }
    }
}
