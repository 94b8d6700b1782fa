//! Whether a replica can be reached, and how fast it is trusted again.
//!
//! A failed connect is proof and takes a replica out at once; a health probe can fail for reasons
//! that say nothing about serving, so it takes two in a row, and the set decides (see
//! [`super::Replicas`]) whether they count at all. One good probe brings it back. It then has the
//! fewest requests in flight and would draw every new conversation to a replica that may fall over
//! again, so for its first seconds it takes only every other one that it would get.

use std::time::Duration;

use crate::Time;

/// Failed probes in a row that take a replica out.
pub(super) const PROBE_FAILURES_MAX: u8 = 2;

/// How long a replica that came back takes new conversations at half rate.
pub(super) const RAMP: Duration = Duration::from_secs(10);

/// Reachability of one replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    up: bool,
    draining: bool,
    probe_failures: u8,
    ramp_until: Option<Time>,
    /// The next placement during the ramp goes elsewhere.
    hold_next: bool,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            up: true,
            draining: false,
            probe_failures: 0,
            ramp_until: None,
            hold_next: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Up and not drained by an operator.
    pub(super) fn is_open(&self) -> bool {
        self.up && !self.draining
    }

    pub(super) fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    pub(super) fn take_out(&mut self) {
        self.up = false;
    }

    /// Counts a failed probe; true once there are enough in a row.
    pub(super) fn probe_failed(&mut self) -> bool {
        self.probe_failures = self.probe_failures.saturating_add(1);
        self.probe_failures >= PROBE_FAILURES_MAX
    }

    /// A good probe: back, if it was out.
    pub(super) fn probe_succeeded(&mut self, now: Time, ramped: bool) {
        self.probe_failures = 0;
        if !std::mem::replace(&mut self.up, true) && ramped {
            self.ramp_until = Some(now.plus(RAMP));
            self.hold_next = false;
        }
    }

    pub(super) fn is_ramping(&self, now: Time) -> bool {
        self.ramp_until.is_some_and(|until| now < until)
    }

    /// Whether a new conversation should go elsewhere, if it can.
    pub(super) fn holds_back(&self, now: Time) -> bool {
        self.is_ramping(now) && self.hold_next
    }

    /// A new conversation was placed here, or held back from here: the next one is treated the other way.
    pub(super) fn alternate(&mut self) {
        self.hold_next = !self.hold_next;
    }
}
