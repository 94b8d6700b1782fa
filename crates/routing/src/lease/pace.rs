//! How long a conversation pauses between turns, and how long its lease is worth holding meanwhile.
//!
//! Holding costs the room of a waiting conversation for the length of the gap; giving up costs a
//! prefill. So there is a gap `g*` at which both cost the same: the time to prefill the footprint F,
//! times C / F, which is how many such footprints share the replica.

use std::time::Duration;

use super::Hold;

/// Part of the largest gap that is still remembered a turn later.
const LARGEST_DECAY: f32 = 0.8;

/// Least weight of the newest gap in the mean.
const MEAN_WEIGHT_MIN: f32 = 0.1;

/// Shortest hold, unless there is none at all.
const HOLD_MIN: Duration = Duration::from_millis(500);

/// Gaps that are waited for, in the largest recent one.
const HOLD_GAPS: f32 = 3.0;

/// Gaps between a conversation's turns, or of all of an owner's.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gaps {
    mean_s: f32,
    largest_s: f32,
    count: u16,
}

impl Gaps {
    pub(super) fn note(&mut self, gap: Duration) {
        let gap_s = gap.as_secs_f32();
        self.count = self.count.saturating_add(1);
        let weight = (1.0 / f32::from(self.count)).max(MEAN_WEIGHT_MIN);
        self.mean_s += weight * (gap_s - self.mean_s);
        self.largest_s = gap_s.max(self.largest_s * LARGEST_DECAY);
    }

    pub(super) fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The mean in place of the largest: what can be said of a conversation that has not paused yet
    /// by the gaps of its owner's others.
    pub(super) fn typical(self) -> Self {
        Self {
            largest_s: self.mean_s,
            ..self
        }
    }

    /// How long a lease is held through a gap, where `worth` is the longest gap worth it.
    pub(super) fn hold(self, rule: Hold, worth: Duration) -> Duration {
        match rule {
            Hold::Zero => Duration::ZERO,
            Hold::Worth => worth,
            Hold::Endless => Duration::from_secs(86_400),
            Hold::Measured if self.mean_s > worth.as_secs_f32() => Duration::ZERO,
            Hold::Measured => {
                let gaps = Duration::try_from_secs_f32(HOLD_GAPS * self.largest_s);
                worth.min(gaps.unwrap_or(Duration::MAX).max(HOLD_MIN))
            }
        }
    }
}
