//! Finds bytes in blocks of 64, as bits of an integer, and tells which of them are escaped.
//!
//! Text of agents is dense with escapes (source code, tool output), so a search that stops at each
//! of them costs more than one that takes a whole block at once without a branch. `wide` gives
//! the vector comparisons of the target's base instruction set without `unsafe`.

use wide::u8x16;

/// How many bytes a block has.
pub(super) const BYTES: usize = 64;

/// The size of a vector, and of what [`short_string`] looks at.
const VECTOR_BYTES: usize = 16;

/// Some bytes of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block([u8x16; BYTES / VECTOR_BYTES]);

/// What backslashes do in a block that does not begin inside an escape: one bit per byte, the first
/// byte's the lowest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escapes {
    /// All of them.
    pub backslashes: u64,
    /// The bytes that stand behind the backslash of an escape.
    pub escaped: u64,
    /// Whether the block's last byte begins an escape.
    pub is_torn: bool,
}

impl Block {
    /// The first bytes; what they lack of a block is filled with zeros.
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Self {
        if let Some(block) = bytes.first_chunk::<BYTES>() {
            return Self::of_whole(block);
        }
        let mut block = [0; BYTES];
        block[..bytes.len()].copy_from_slice(bytes);
        Self::of_whole(&block)
    }

    #[inline]
    fn of_whole(block: &[u8; BYTES]) -> Self {
        let (vectors, _) = block.as_chunks::<VECTOR_BYTES>();
        Self(std::array::from_fn(|at| u8x16::new(vectors[at])))
    }

    /// Where any of these bytes stands.
    #[inline]
    pub(super) fn find<const N: usize>(&self, bytes: [u8; N]) -> u64 {
        let bits = |vector: u8x16| {
            let found = bytes.map(|byte| vector.simd_eq(u8x16::splat(byte)));
            let any = found.into_iter().reduce(|any, one| any | one);
            u64::from(any.unwrap_or_default().to_bitmask())
        };
        let [a, b, c, d] = self.0.map(bits);
        a | b << VECTOR_BYTES | c << (2 * VECTOR_BYTES) | d << (3 * VECTOR_BYTES)
    }

    /// Which bytes are escaped. Of a run of backslashes every second one is, and what follows the
    /// run if its length is odd: a subtraction borrows through each run and so tells its bytes apart
    /// by their place (the method of simdjson).
    #[inline]
    pub(super) fn escapes(&self) -> Escapes {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        let backslashes = self.find([b'\\']);
        let in_or_behind_run = (backslashes << 1 | ODD).wrapping_sub(backslashes) ^ ODD;
        Escapes {
            backslashes,
            escaped: in_or_behind_run ^ backslashes,
            is_torn: (in_or_behind_run & backslashes) >> (BYTES - 1) == 1,
        }
    }
}

/// Length of a string, up to its closing quote, that ends in these bytes and has no escape.
#[inline]
pub(super) fn short_string(bytes: &[u8; VECTOR_BYTES]) -> Option<usize> {
    let bytes = u8x16::new(*bytes);
    let find = |byte| bytes.simd_eq(u8x16::splat(byte)).to_bitmask();
    let (quotes, backslashes) = (find(b'"'), find(b'\\'));
    let length = quotes.trailing_zeros();
    (quotes != 0 && length < backslashes.trailing_zeros()).then_some(length as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, byte by byte.
    fn escapes_one_by_one(bytes: &[u8]) -> (u64, bool) {
        let (mut escaped, mut is_escape) = (0, false);
        for (at, byte) in bytes.iter().enumerate() {
            escaped |= u64::from(is_escape) << at;
            is_escape = !is_escape && *byte == b'\\';
        }
        (escaped, is_escape && bytes.len() == BYTES)
    }

    proptest! {
        #[test]
        fn escapes_are_told_apart_as_one_by_one(
            bytes in prop::collection::vec(prop::sample::select(b"\\\\\\\"nx".to_vec()), 0..=BYTES)
        ) {
            let block = Block::of(&bytes);
            let escapes = block.escapes();
            // Behind a text's end nothing matters.
            let mask = if bytes.len() == BYTES { u64::MAX } else { (1 << bytes.len()) - 1 };
            prop_assert_eq!((escapes.escaped & mask, escapes.is_torn), escapes_one_by_one(&bytes));
            let found = block.find(*b"\"n");
            for (at, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(found >> at & 1 == 1, b"\"n".contains(byte));
            }
        }
    }
}
