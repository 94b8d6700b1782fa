//! Mutants of kept inputs, the same in every run: what `cargo test` can afford.

/// An endless series of mutants.
#[derive(Debug)]
pub struct Mutants<'a> {
    corpus: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Mutants<'a> {
    /// Mutants of these inputs, of which there must be one.
    pub fn of(corpus: &'a [Vec<u8>], seed: u64) -> Self {
        assert!(!corpus.is_empty(), "nothing to mutate");
        Self {
            corpus,
            state: seed,
        }
    }

    /// The next number of a splitmix64 series, below `end`; 0 where `end` is.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % end.max(1)
    }

    fn parent(&mut self) -> &'a [u8] {
        &self.corpus[self.below(self.corpus.len())]
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
            2 => bytes.truncate(at),
            3 => {
                let to = (at + 1 + self.below(16)).min(bytes.len());
                bytes.drain(at.min(to)..to);
            }
            4 => bytes.insert(at, self.below(256) as u8),
            _ => {
                let other = self.parent();
                let from = self.below(other.len());
                let to = (from + self.below(64)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
}

impl Iterator for Mutants<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.parent().to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes);
        }
        Some(bytes)
    }
}
