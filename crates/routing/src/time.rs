//! Points in time, handed in by the caller.

use std::time::Duration;

/// Microseconds since the Unix epoch, never running backwards within one process (the warden adds
/// a monotonic clock to the wall time of its start; the simulator counts virtual time from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The time that lies `by` later, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// The time that lies `by` earlier, not before the epoch.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// How long after `earlier` this is; zero where it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
