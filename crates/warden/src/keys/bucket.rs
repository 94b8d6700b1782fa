//! A budget that refills evenly: so much per minute, and at most a minute's worth at once.

use std::time::Duration;

use routing::Time;

/// See the module. What is left may be less than nothing where the cost is only known afterwards;
/// the debt is then waited off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    per_min: f64,
    left: f64,
    at: Time,
}

impl Bucket {
    /// A full one.
    pub(super) fn full(per_min: u32, now: Time) -> Self {
        Self {
            per_min: f64::from(per_min),
            left: f64::from(per_min),
            at: now,
        }
    }

    /// Another limit from now on. What was used up stays used up.
    pub(super) fn set(&mut self, per_min: u32, now: Time) {
        self.refill(now);
        let used = self.per_min - self.left;
        self.per_min = f64::from(per_min);
        self.left = self.per_min - used;
    }

    fn refill(&mut self, now: Time) {
        let grown = self.per_min * now.since(self.at).as_secs_f64() / 60.0;
        self.left = self.per_min.min(self.left + grown);
        self.at = self.at.max(now);
    }

    /// How long until at least `amount` is there; zero where it is.
    pub(super) fn wait(&mut self, amount: f64, now: Time) -> Duration {
        self.refill(now);
        let missing = (amount - self.left).max(0.0);
        Duration::from_secs_f64(missing / self.per_min * 60.0)
    }

    pub(super) fn take(&mut self, amount: f64, now: Time) {
        self.refill(now);
        self.left -= amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(1_000_000 * (1_000_000 + seconds))
    }

    #[test]
    fn a_minutes_worth_at_once_and_then_evenly() {
        let mut bucket = Bucket::full(6, at(0));
        for _ in 0..6 {
            assert_eq!(bucket.wait(1.0, at(0)), Duration::ZERO);
            bucket.take(1.0, at(0));
        }
        assert_eq!(bucket.wait(1.0, at(0)), Duration::from_secs(10));
        assert_eq!(bucket.wait(1.0, at(4)), Duration::from_secs(6));
        assert_eq!(bucket.wait(1.0, at(10)), Duration::ZERO);
        bucket.take(1.0, at(10));
        // It never holds more than a minute's worth.
        assert_eq!(bucket.wait(6.0, at(1000)), Duration::ZERO);
        bucket.take(6.0, at(1000));
        assert_eq!(bucket.wait(1.0, at(1000)), Duration::from_secs(10));
    }

    #[test]
    fn debt_is_waited_off() {
        let mut bucket = Bucket::full(60, at(0));
        bucket.take(100.0, at(0));
        assert_eq!(bucket.wait(1.0, at(0)), Duration::from_secs(41));
        assert_eq!(bucket.wait(1.0, at(41)), Duration::ZERO);
    }

    #[test]
    fn a_new_limit_forgives_nothing() {
        let mut bucket = Bucket::full(60, at(0));
        bucket.take(60.0, at(0));
        bucket.set(120, at(0));
        assert_eq!(bucket.wait(61.0, at(0)), Duration::from_millis(500));
        bucket.set(10, at(0));
        assert_eq!(bucket.wait(1.0, at(0)), Duration::from_secs(306));
    }

    #[test]
    fn a_clock_that_stands_still_or_returns_gives_nothing() {
        let mut bucket = Bucket::full(60, at(100));
        bucket.take(60.0, at(100));
        assert_eq!(bucket.wait(1.0, at(50)), Duration::from_secs(1));
        assert_eq!(bucket.wait(1.0, at(100)), Duration::from_secs(1));
    }
}
