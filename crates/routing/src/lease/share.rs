//! One replica as leases see it: how much of its cache is promised, and how far its capacity is
//! believed.

use std::collections::BTreeSet;

use super::member::{MemberId, Tier};
use super::shadow::Shadow;

/// Held turns that finish between two looks at what they missed.
const TRIM_FINISHES: u32 = 16;

/// Share missed above which the capacity is believed less.
const TRIM_MISS_MAX: f64 = 0.25;

/// Share missed below which it is believed more, while somebody waits.
const TRIM_MISS_MIN: f64 = 0.03;

const TRIM_DOWN: f64 = 0.9;
const TRIM_UP: f64 = 0.02;
const THETA_MIN: f64 = 0.6;

/// Promises and beliefs about one replica's cache.
#[derive(Debug)]
pub(super) struct Share {
    /// Tokens that may be leased, as of the last look at the replica; `None` where its cache's size
    /// is unknown.
    pub(super) capacity: Option<u64>,
    /// The same if there were no host memory.
    pub(super) kv_capacity: Option<u64>,
    /// Tokens of all leases.
    pub(super) leased: u64,
    pub(super) leases: u32,
    /// Microseconds that those who hold them have waited in all.
    pub(super) waited_us: u64,
    /// Tokens of requests that run without a lease of their own.
    pub(super) charged: u64,
    /// Of these, without a conversation.
    pub(super) anonymous: u64,
    /// Part of the capacity that is believed, 0.6 to 1.
    pub(super) theta: f64,
    /// Idle leases by footprint.
    pub(super) idle: BTreeSet<(u32, MemberId)>,
    /// Counts the engine's restarts.
    pub(super) epoch: u32,
    pub(super) gpu: Shadow,
    pub(super) host: Shadow,
    held_missed: u64,
    held_expected: u64,
    held_finishes: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            capacity: None,
            kv_capacity: None,
            leased: 0,
            leases: 0,
            waited_us: 0,
            charged: 0,
            anonymous: 0,
            theta: 1.0,
            idle: BTreeSet::new(),
            epoch: 0,
            gpu: Shadow::default(),
            host: Shadow::default(),
            held_missed: 0,
            held_expected: 0,
            held_finishes: 0,
        }
    }
}

impl Share {
    /// Tokens promised or in use.
    pub(super) fn used(&self) -> u64 {
        self.leased + self.charged
    }

    /// What one of its caches is believed to hold.
    pub(super) fn shadow(&mut self, tier: Tier) -> &mut Shadow {
        match tier {
            Tier::Gpu => &mut self.gpu,
            Tier::Host => &mut self.host,
        }
    }

    /// Tokens that one more lease may have, of at most so many; an idle replica takes any. `None`
    /// where there may be none.
    pub(super) fn room(&self, seats: u32) -> Option<u64> {
        if self.leases == 0 && self.charged == 0 {
            return Some(u64::MAX);
        }
        self.capacity
            .filter(|_| self.leases < seats)?
            .checked_sub(self.used())
    }

    /// A held turn finished. True where the capacity is believed anew.
    pub(super) fn note_held(&mut self, missed: u32, expected: u32, somebody_waits: bool) -> bool {
        self.held_missed += u64::from(missed);
        self.held_expected += u64::from(expected);
        self.held_finishes += 1;
        if self.held_finishes < TRIM_FINISHES {
            return false;
        }
        let ratio = self.held_missed as f64 / self.held_expected.max(1) as f64;
        let before = self.theta;
        if ratio > TRIM_MISS_MAX {
            self.theta = (self.theta * TRIM_DOWN).max(THETA_MIN);
        } else if ratio < TRIM_MISS_MIN && somebody_waits {
            self.theta = (self.theta + TRIM_UP).min(1.0);
        }
        (self.held_missed, self.held_expected, self.held_finishes) = (0, 0, 0);
        self.theta.to_bits() != before.to_bits()
    }

    /// The capacity is what it is said to be, until turns miss.
    pub(super) fn believe_again(&mut self) {
        self.theta = 1.0;
        (self.held_missed, self.held_expected, self.held_finishes) = (0, 0, 0);
    }
}
