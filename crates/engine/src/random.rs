//! A small seeded generator (SplitMix64), so that the same seed and the same requests give the
//! same replies on every machine. Not for secrets.

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one item of a family, e.g. the n-th connection.
    pub(crate) fn derived(seed: u64, item: u64) -> Self {
        let mut parent = Self(seed ^ item.wrapping_mul(0xA24B_AED4_963E_E407));
        Self(parent.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `0..bound`; the bias for bounds far below 2^64 is negligible. `bound` > 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// 16 hexadecimal digits, as vLLM's ids end in.
    pub(crate) fn hex(&mut self) -> String {
        format!("{:016x}", self.next())
    }
}
