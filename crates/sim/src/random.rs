//! A small random source with a seed, so that a run can be repeated on any machine.
//!
//! `SplitMix64` (Steele, Lea and Flood 2014): one multiplication chain per number, good enough for
//! ties, jitter and lengths.

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The stream that belongs to a place in a run, whatever was drawn elsewhere before.
    pub fn at(seed: u64, place: &[u64]) -> Self {
        Self(
            place
                .iter()
                .fold(mix(seed), |state, part| mix(state ^ mix(*part))),
        )
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`; 0 where `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A value of a distribution that is given by some of its quantiles, `(share, value)` in
    /// rising order from share 0 to 1; linear between them.
    pub fn quantile(&mut self, quantiles: &[(f64, f64)]) -> f64 {
        let share = self.unit();
        for pair in quantiles.windows(2) {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            if share < to {
                return low + (high - low) * (share - from) / (to - from);
            }
        }
        quantiles.last().map_or(0.0, |(_, value)| *value)
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_and_places_give_equal_streams_and_others_do_not() {
        let draw = |place: &[u64]| Random::at(7, place).bits();
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(Random::new(1).bits(), Random::new(2).bits());
    }

    #[test]
    fn numbers_stay_in_range_and_cover_it() {
        let mut random = Random::new(3);
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(
            seen.iter().all(|count| (800..1200).contains(count)),
            "{seen:?}"
        );
        assert_eq!(random.below(0), 0);
        let quantiles = [(0.0, 1.0), (0.5, 3.0), (1.0, 11.0)];
        let mean = (0..5000).map(|_| random.quantile(&quantiles)).sum::<f64>() / 5000.0;
        assert!((mean - 4.5).abs() < 0.2, "{mean}");
    }
}
