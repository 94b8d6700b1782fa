//! Why a turn read again what the turn before it had already read.
//!
//! A turn is cold where the engine did not find in its cache what it had read for the turn before. The
//! causes are asked in the order in which they explain the loss: a cache that is gone for all, a
//! replica that never had it, a prompt that is not the same any more; where none of them holds, the
//! cache was given to others while the conversation was silent. Whether the prompt changed is the
//! caller's to tell.

use std::time::Duration;

use crate::{ReplicaIndex, Route, Time};

/// Fewer tokens than this read again are the ends of blocks and re-rendered messages, and cost a few
/// milliseconds.
const READ_AGAIN_TOKENS_MIN: u64 = 1024;

/// Less of the former prompt than this share is not what makes a turn slow.
const READ_AGAIN_SHARE_MIN: f64 = 0.1;

/// A turn that was served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServedTurn {
    /// Where; `None` where vLLM's balancer chose.
    pub replica: Option<ReplicaIndex>,
    /// By which rule.
    pub route: Route,
    /// When it arrived.
    pub arrived: Time,
    /// When its reply ended.
    pub ended: Time,
    /// All prompt tokens, as the engine counted.
    pub prompt_tokens: u64,
    /// Of these, read from the cache; `None` where the engine did not say.
    pub cached_tokens: Option<u64>,
}

/// How a turn's prompt begins, held against the turn's before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prefix {
    /// As the one before, or so far as it was kept.
    Same,
    /// All that the warden compares is the same, but the client's billing block is not.
    OtherBilling,
    /// Nobody kept what the one before began with.
    Unknown,
    /// A part changed.
    Changed {
        /// Share of the former prompt before that part, 0 to 1.
        kept: f64,
    },
}

/// What made a turn cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColdCause {
    /// Its replica's engine restarted since the turn before.
    Restarted,
    /// vLLM's own balancer chose the replica.
    Balanced,
    /// The home was over its threshold; another replica served it.
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
    /// None of the causes that are known without the turn before's prompt.
    Unknown,
}

/// A cold turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cold {
    /// Why.
    pub cause: ColdCause,
    /// Tokens of the former prompt that were read again.
    pub tokens_read_again: u64,
    /// Whether the engine measured that; else it is told by sizes.
    pub is_measured: bool,
    /// Between the former reply's end and this turn's arrival.
    pub gap: Duration,
}

/// Whether a turn is cold after the turn before, and why. `None` too where nobody can tell: the
/// engine did not say what was cached, and the prompt did not change.
pub fn why_cold(
    before: &ServedTurn,
    now: &ServedTurn,
    is_restarted: bool,
    prefix: Prefix,
) -> Option<Cold> {
    let known_tokens = before.prompt_tokens.min(now.prompt_tokens);
    let kept_tokens = match prefix {
        Prefix::Changed { kept } => (known_tokens as f64 * kept.clamp(0.0, 1.0)) as u64,
        Prefix::Same | Prefix::OtherBilling | Prefix::Unknown => known_tokens,
    };
    let cached_tokens = now.cached_tokens.unwrap_or(kept_tokens);
    let tokens_read_again = known_tokens.saturating_sub(cached_tokens);
    let worth_telling = (known_tokens as f64 * READ_AGAIN_SHARE_MIN) as u64;
    (tokens_read_again >= READ_AGAIN_TOKENS_MIN.max(worth_telling)).then(|| Cold {
        cause: cause(before, now, is_restarted, (prefix, kept_tokens)),
        tokens_read_again,
        is_measured: now.cached_tokens.is_some(),
        gap: now.arrived.since(before.ended),
    })
}

fn cause(
    before: &ServedTurn,
    now: &ServedTurn,
    is_restarted: bool,
    (prefix, kept_tokens): (Prefix, u64),
) -> ColdCause {
    let is_changed = matches!(prefix, Prefix::Changed { .. });
    if is_restarted {
        return ColdCause::Restarted;
    }
    if now.route == Route::Balanced {
        // Where all that was kept was found, the balancer chose the same replica again.
        let found = now.cached_tokens.unwrap_or(kept_tokens);
        let is_explained = is_changed && found.saturating_mul(10) >= kept_tokens.saturating_mul(9);
        return if is_explained {
            ColdCause::PrefixChanged
        } else {
            ColdCause::Balanced
        };
    }
    if now.replica != before.replica {
        return match now.route {
            Route::Spilled => ColdCause::Spilled,
            Route::Moved => ColdCause::Moved,
            Route::Pinned => ColdCause::Pinned,
            Route::New => ColdCause::Forgotten,
            Route::Sticky | Route::Balanced => ColdCause::Returned,
        };
    }
    match prefix {
        Prefix::Changed { .. } => ColdCause::PrefixChanged,
        Prefix::OtherBilling => ColdCause::BillingBlock,
        Prefix::Same => ColdCause::Silence,
        Prefix::Unknown => ColdCause::Unknown,
    }
}

#[cfg(test)]
mod tests;
