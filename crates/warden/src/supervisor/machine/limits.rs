//! How long the owner of an engine waits for anything, and how often it tries.

use std::time::Duration;

use crate::fleet::DRAIN_MAX;

/// Bounds of every wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From spawn to serving. Large models on slow disks need many minutes.
    pub start_max: Duration,
    /// For requests in flight, before SIGTERM.
    pub drain_max: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate_max: Duration,
    /// Deaths in a row after which the engine stays failed.
    pub deaths_max: u32,
    /// First pause before a restart; doubles with each death in a row.
    pub pause_min: Duration,
    /// Longest pause.
    pub pause_max: Duration,
    /// Serving for this long ends a row of deaths.
    pub settled_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start_max: Duration::from_secs(30 * 60),
            drain_max: DRAIN_MAX,
            terminate_max: Duration::from_secs(20),
            deaths_max: 5,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
            settled_after: Duration::from_secs(10 * 60),
        }
    }
}

impl Limits {
    /// The pause before the start that follows the `deaths`-th death in a row (1 or more).
    pub(super) fn pause(&self, deaths: u32) -> Duration {
        let doublings = deaths.saturating_sub(1).min(16);
        self.pause_min
            .saturating_mul(1 << doublings)
            .min(self.pause_max)
    }
}
