//! When leases begin and when they end.
//!
//! They begin on proof, not on arithmetic: conversations came back to the replica of their last turn
//! and found most of what they left there gone. Up to about half of it, sticky routing is simply good,
//! since an LRU cache drops tails first: a small overflow costs a small prefill. They end when the
//! footprints of all that want to run come near to fitting again.

use std::time::Duration;

use crate::Time;

use super::LeaseRule;

/// Finishes over which the long window remembers.
const SLOW_FINISHES: f64 = 96.0;

/// The same for the short one.
const FAST_FINISHES: f64 = 16.0;

/// Finishes since the last switch before the long window counts.
const SLOW_FINISHES_MIN: u32 = 48;

/// The same for the short one.
const FAST_FINISHES_MIN: u32 = 8;

/// Time constant of the load's average, seconds.
const LOAD_S: f64 = 20.0;

/// Shortest time that leases last.
const LEASE_MIN: Duration = Duration::from_secs(20);

/// Load, in capacities, below which leases always end.
const LOAD_END: f64 = 1.10;

/// Part of the load at the beginning below which they end sooner.
const LOAD_END_OF_ENTRY: f64 = 0.93;

/// Sum of what was missed and of what could have been found, with an exponential memory.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    missed: f64,
    expected: f64,
}

impl Window {
    fn note(&mut self, missed: u32, expected: u32, finishes: f64) {
        let keep = 1.0 - 1.0 / finishes;
        self.missed = self.missed * keep + f64::from(missed);
        self.expected = self.expected * keep + f64::from(expected);
    }

    fn ratio(self) -> f64 {
        self.missed / self.expected.max(1.0)
    }
}

/// Whether sticky routing thrashes.
#[derive(Debug, Default)]
pub(super) struct Switch {
    slow: Window,
    fast: Window,
    finishes: u32,
    contended: Option<Contended>,
}

/// Since when there are leases, and the load then and now.
#[derive(Debug, Clone, Copy)]
struct Contended {
    since: Time,
    load_then: f64,
    load_mean: f64,
    load_last: f64,
    updated: Time,
}

impl Switch {
    pub(super) fn is_contended(&self) -> bool {
        self.contended.is_some()
    }

    pub(super) fn contended_since(&self) -> Option<Time> {
        self.contended.map(|contended| contended.since)
    }

    /// Share of what conversations left behind that they did not find again, 0..1.
    pub(super) fn miss_ratio(&self) -> f64 {
        self.slow.ratio()
    }

    /// A turn came back to its replica and missed so much of what could have been there.
    pub(super) fn note_finish(&mut self, missed: u32, expected: u32) {
        self.slow.note(missed, expected, SLOW_FINISHES);
        self.fast.note(missed, expected, FAST_FINISHES);
        self.finishes = self.finishes.saturating_add(1);
    }

    /// Whether it is time for leases.
    pub(super) fn should_begin(&self, rule: &LeaseRule) -> bool {
        if self.is_contended() {
            return false;
        }
        !rule.switches
            || (self.finishes >= SLOW_FINISHES_MIN && self.slow.ratio() > rule.miss_slow_max)
            || (self.finishes >= FAST_FINISHES_MIN && self.fast.ratio() > rule.miss_fast_max)
    }

    /// Leases begin, at this load in capacities.
    pub(super) fn begin(&mut self, now: Time, load: f64) {
        self.contended = Some(Contended {
            since: now,
            load_then: load,
            load_mean: load,
            load_last: load,
            updated: now,
        });
    }

    /// The load is another from now on.
    pub(super) fn note_load(&mut self, now: Time, load: f64) {
        if let Some(contended) = &mut self.contended {
            let passed_s = now.since(contended.updated).as_secs_f64();
            let keep = (-passed_s / LOAD_S).exp();
            contended.load_mean =
                contended.load_last + (contended.load_mean - contended.load_last) * keep;
            contended.load_last = load;
            contended.updated = now;
        }
    }

    /// Whether the contexts come near to fitting again.
    pub(super) fn should_end(&self, now: Time, rule: &LeaseRule) -> bool {
        rule.switches
            && self.contended.is_some_and(|contended| {
                let limit = LOAD_END.min(LOAD_END_OF_ENTRY * contended.load_then);
                now.since(contended.since) >= LEASE_MIN && contended.load_mean < limit
            })
    }

    /// Sticky again: what was missed before says nothing about what will be.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
