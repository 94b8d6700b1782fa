//! Choices that are the same for the same seed, whoever asks first.

/// A splitmix64 series.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// Dice of their own for a thing in a run: what one part draws changes nothing for another.
    pub(super) fn of(seed: u64, thing: &str) -> Self {
        let mut state = seed;
        for byte in thing.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Self(state)
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % end
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
