//! Durations as a histogram that can be merged and stored: what percentiles of any stretch of time
//! are made of, in memory and on disk alike.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Durations, to two digits, in units of 0.1 ms: finer than anything that is asked of them, and a
/// few kilobytes each.
#[derive(Debug, Clone)]
pub struct Distribution {
    tenths_ms: Histogram<u32>,
    sum: Duration,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            tenths_ms: Histogram::new(2).expect("2 digits are within the histogram's range"),
            sum: Duration::ZERO,
        }
    }
}

/// Longer ones count as this long: no request lives for a day.
const LONGEST: Duration = Duration::from_secs(86_400);

impl Distribution {
    pub(crate) fn add(&mut self, duration: Duration) {
        let duration = duration.min(LONGEST);
        self.tenths_ms
            .record(duration.as_micros() as u64 / 100)
            .expect("the histogram grows to what it is given");
        self.sum = self.sum.saturating_add(duration);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.tenths_ms
            .add(&other.tenths_ms)
            .expect("the histogram grows to what it is given");
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.tenths_ms.len()
    }

    /// Their sum.
    pub fn sum_s(&self) -> f64 {
        self.sum.as_secs_f64()
    }

    /// How many were at most this long.
    pub fn count_up_to_s(&self, bound_s: f64) -> u64 {
        self.tenths_ms.count_between(0, (bound_s * 1e4) as u64)
    }

    /// The quantile in milliseconds; `None` where there are none.
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let any = !self.tenths_ms.is_empty();
        any.then(|| self.tenths_ms.value_at_quantile(quantile) as f64 / 10.0)
    }

    /// As it is stored: the sum in microseconds, then each value that occurs (as the distance from
    /// the one before) with its count, all of them LEB128.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.sum.as_micros() as u64);
        let mut before = 0;
        for step in self.tenths_ms.iter_recorded() {
            let value = step.value_iterated_to();
            put(&mut bytes, value - before);
            put(&mut bytes, u64::from(step.count_at_value()));
            before = value;
        }
        bytes
    }

    /// Adds a stored one. Much cheaper than to rebuild it and merge, which is what makes a week's
    /// percentiles a matter of milliseconds. `None`, with a part of it added, where the bytes are
    /// none of [`Self::to_bytes`].
    pub(super) fn merge_bytes(&mut self, mut bytes: &[u8]) -> Option<()> {
        self.sum = (self.sum).saturating_add(Duration::from_micros(take(&mut bytes)?));
        let mut value = 0_u64;
        while !bytes.is_empty() {
            value = value.checked_add(take(&mut bytes)?)?;
            let count = u32::try_from(take(&mut bytes)?).ok()?;
            if u128::from(value) > LONGEST.as_micros() / 50 {
                return None;
            }
            self.tenths_ms.record_n(value, count).ok()?;
        }
        Some(())
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(durations_us: &[u64]) -> Distribution {
        let mut distribution = Distribution::default();
        for us in durations_us {
            distribution.add(Duration::from_micros(*us));
        }
        distribution
    }

    proptest! {
        #[test]
        fn stored_and_merged_is_as_if_counted_together(
            one in prop::collection::vec(0..200_000_000_000_u64, 0..50),
            other in prop::collection::vec(0..1_000_000_u64, 0..50),
        ) {
            let mut merged = Distribution::default();
            prop_assert!(merged.merge_bytes(&of(&one).to_bytes()).is_some());
            prop_assert!(merged.merge_bytes(&of(&other).to_bytes()).is_some());
            let together = of(&[one, other].concat());
            prop_assert_eq!(&merged.tenths_ms, &together.tenths_ms);
            prop_assert_eq!(merged.sum, together.sum);
        }

        #[test]
        fn other_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Distribution::default().merge_bytes(&bytes);
        }
    }
}
