//! Whether a replica still makes progress: what tells a wedged engine from a busy one.
//!
//! A wedged replica answers probes and accepts connections, and since nothing finishes there, it
//! looks idle to every measure but this one (peers lost 84 % of their requests to one such
//! replica). Proof of a wedge are scrapes that show no change while requests are in flight; where
//! scrapes fail there is no proof, and that is left to the probes.

use std::time::Duration;

use crate::{Gauges, Time};

/// Silence that is never called a wedge.
const WEDGED_MIN: Duration = Duration::from_secs(10);

/// Silence in estimated step times that is a wedge.
const WEDGED_STEPS: u32 = 3;

/// Weight of the newest interval in the estimated step time.
const STEP_WEIGHT: f64 = 0.2;

/// Longest interval that counts as a step: one recovery from a wedge must not hide the next.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Age at which the engine's gauges stop counting.
pub(super) const GAUGES_AGE_MAX: Duration = Duration::from_secs(3);

/// What a replica's scrapes and replies say about its progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    gauges: Option<(Gauges, Time)>,
    last: Time,
    /// When the gauges last changed.
    changed: Time,
    /// Mean interval between changes while requests run: as HTTP shows no steps, this bounds the
    /// step time from above (never under the interval between scrapes).
    step: Duration,
}

impl Progress {
    pub(super) fn new(now: Time) -> Self {
        Self {
            gauges: None,
            last: now,
            changed: now,
            step: Duration::ZERO,
        }
    }

    /// The last scrape and when it was.
    pub(super) fn gauges(&self) -> Option<(Gauges, Time)> {
        self.gauges
    }

    /// Requests running and waiting in the engine, where a scrape has told since then.
    pub(super) fn running_since(&self, since: Time) -> u32 {
        match self.gauges {
            Some((gauges, at)) if at >= since => gauges.running.saturating_add(gauges.waiting),
            _ => 0,
        }
    }

    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// A reply moved, or there is nothing to do.
    pub(super) fn note(&mut self, now: Time) {
        self.last = self.last.max(now);
    }

    /// A scrape; `busy` while the warden has requests in flight there.
    pub(super) fn scraped(&mut self, now: Time, gauges: Gauges, busy: bool) {
        let before = self.gauges.replace((gauges, now));
        let changed = before.is_none_or(|(before, _)| differs(&before, &gauges));
        if changed && before.is_some_and(|(before, _)| before.running > 0) {
            let interval = now.since(self.changed).min(STEP_MAX);
            self.step = if self.step.is_zero() {
                interval
            } else {
                self.step.mul_f64(1.0 - STEP_WEIGHT) + interval.mul_f64(STEP_WEIGHT)
            };
        }
        if changed {
            self.changed = now;
        }
        if changed || !busy {
            self.note(now);
        }
    }

    /// Another engine process: nothing that was seen of the old one counts.
    pub(super) fn restart(&mut self, now: Time) {
        *self = Self::new(now);
    }

    /// Whether scrapes prove that nothing moved for too long, given that requests are in flight.
    pub(super) fn is_stalled(&self) -> bool {
        let limit = WEDGED_MIN.max(self.step * WEDGED_STEPS);
        self.gauges
            .is_some_and(|(_, scraped)| scraped.since(self.last) >= limit)
    }
}

/// Whether anything moved between two scrapes. A long prefill moves only the cache usage.
fn differs(a: &Gauges, b: &Gauges) -> bool {
    a.tokens_total != b.tokens_total
        || a.running != b.running
        || a.waiting != b.waiting
        || a.kv_cache_usage.to_bits() != b.kv_cache_usage.to_bits()
}
