//! Blocks that vLLM keeps in host memory (`--kv-offloading-size`, native backend of 0.26).
//!
//! vLLM copies a block to host memory as soon as a step has filled it, and never clears its copy when
//! the GPU's is evicted: the tier holds what was used last, up to its size, whatever the GPU holds. A
//! waiting request whose chain goes on in host memory gets GPU blocks for it, and the copies are read
//! back over `PCIe` before it runs. Where the copying to host memory cannot keep pace, or two requests
//! wait for the same block, vLLM is a little worse than this model, in which a block is there from the
//! step that fills it.

use super::block_pool::{BlockHash, Identity};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

/// The host's copies, least recently used first.
#[derive(Debug, Clone, Default)]
pub(super) struct HostTier {
    blocks_max: usize,
    used: u64,
    last_use: HashMap<BlockHash, u64, BuildHasherDefault<Identity>>,
    by_use: BTreeMap<u64, BlockHash>,
}

impl HostTier {
    /// A tier of so many blocks; 0 is none.
    pub(super) fn new(blocks_max: usize) -> Self {
        Self {
            blocks_max,
            ..Self::default()
        }
    }

    /// How many blocks of this chain, from its beginning on, it holds.
    pub(super) fn chain(&self, chain: &[BlockHash]) -> usize {
        chain
            .iter()
            .take_while(|hash| self.last_use.contains_key(hash))
            .count()
    }

    /// The chain was asked for: its head counts as used last, since most requests share it.
    pub(super) fn touch(&mut self, chain: &[BlockHash]) {
        for hash in chain.iter().rev() {
            if self.last_use.contains_key(hash) {
                self.mark(*hash);
            }
        }
    }

    /// A block was filled; what was used longest ago makes room for its copy.
    pub(super) fn store(&mut self, hash: BlockHash) {
        if self.blocks_max == 0 {
            return;
        }
        self.mark(hash);
        if self.last_use.len() > self.blocks_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
    }

    fn mark(&mut self, hash: BlockHash) {
        self.used += 1;
        if let Some(before) = self.last_use.insert(hash, self.used) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.used, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_used_last_and_finds_chains_from_their_beginning() {
        let mut tier = HostTier::new(3);
        for hash in [1, 2, 3] {
            tier.store(hash);
        }
        assert_eq!(tier.chain(&[1, 2, 3, 4]), 3);
        tier.touch(&[1, 2]);
        tier.store(4);
        assert_eq!(tier.chain(&[1, 2, 3]), 2, "3 was used longest ago");
        tier.store(5);
        assert_eq!(tier.chain(&[1, 2]), 1, "the tail of a chain goes first");
        assert_eq!(tier.chain(&[2, 1]), 0);
    }

    #[test]
    fn a_tier_of_no_size_holds_nothing() {
        let mut tier = HostTier::new(0);
        tier.store(1);
        assert_eq!(tier.chain(&[1]), 0);
    }
}
