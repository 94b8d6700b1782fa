//! Chained hashes of a request's full blocks.
//!
//! A block's hash covers its tokens and the hash of the block before it, so that equal hashes mean
//! equal prefixes (up to a collision of 64 bits, which a simulation may ignore). A salt stands in the place of
//! the block before the first, so that requests with different salts share no block, as in vLLM.

use super::block_pool::UNHASHED;
use twox_hash::XxHash3_64;

/// The hashes of all blocks that a growing list of tokens has filled.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrefixHashes {
    hashes: Vec<u64>,
    /// What the first block's hash begins with.
    salt: u64,
}

impl PrefixHashes {
    /// None yet, apart from those of any other salt.
    pub(super) fn salted(salt: u64) -> Self {
        Self {
            hashes: Vec::new(),
            salt,
        }
    }

    /// Hashes the blocks of `tokens` that were not full before. `tokens` is the same list as in
    /// earlier calls, only longer.
    pub(crate) fn extend(&mut self, tokens: &[u32], block_size: u32) {
        let block_size = block_size as usize;
        let done = self.hashes.len() * block_size;
        if tokens.len() - done < block_size {
            return;
        }
        let mut bytes = Vec::with_capacity(4 * block_size);
        for block in tokens[done..].chunks_exact(block_size) {
            bytes.clear();
            for token in block {
                bytes.extend_from_slice(&token.to_le_bytes());
            }
            let parent = self.hashes.last().copied().unwrap_or(self.salt);
            self.hashes
                .push(XxHash3_64::oneshot_with_seed(parent, &bytes).max(UNHASHED + 1));
        }
    }

    /// Hashes of the full blocks, first block first.
    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.hashes
    }
}
