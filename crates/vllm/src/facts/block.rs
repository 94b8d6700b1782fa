//! Finds bytes in blocks of 64, as bits of an integer, and tells which of them are escaped.
//!
//! Text of agents is dense with escapes (source code, tool output), so a search that stops at each
//! of them costs more than one that takes a whole block at once without a branch.
//! `fearless_simd` gives the widest vectors of the processor at hand without `unsafe`: what is
//! generic over [`Simd`] here must be inlined into a function that was dispatched.

#![expect(
    clippy::inline_always,
    reason = "only what is inlined into a dispatched function gets its vector instructions"
)]

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x16, u8x64};

/// How many bytes a block has.
pub(super) const BYTES: usize = 64;

/// What [`short_string`] looks at.
const SHORT_BYTES: usize = 16;

/// Some bytes of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<S: Simd>(u8x64<S>);

/// What backslashes do in a block: one bit per byte, the first byte's the lowest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escapes {
    /// All of them.
    pub backslashes: u64,
    /// The bytes that stand behind the backslash of an escape.
    pub escaped: u64,
    /// 1 where the block's last byte begins an escape, whose second byte is the next block's
    /// first; otherwise 0.
    pub torn: u64,
}

impl<S: Simd> Block<S> {
    /// The first bytes; what they lack of a block is filled with zeros.
    #[inline(always)]
    pub(super) fn of(simd: S, bytes: &[u8]) -> Self {
        if let Some(block) = bytes.first_chunk::<BYTES>() {
            return Self(u8x64::simd_from(simd, *block));
        }
        let mut block = [0; BYTES];
        block[..bytes.len()].copy_from_slice(bytes);
        Self(u8x64::simd_from(simd, block))
    }

    /// Where this byte stands.
    #[inline(always)]
    pub(super) fn find(&self, byte: u8) -> u64 {
        self.0.simd_eq(byte).to_bitmask()
    }

    /// Which bytes are escaped, where `torn` tells of the block before. Of a run of backslashes every
    /// second one is, and what follows the run if its length is odd: a subtraction borrows through
    /// each run and so tells its bytes apart by their place (the method of simdjson).
    #[inline(always)]
    pub(super) fn escapes(&self, torn: u64) -> Escapes {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        let backslashes = self.find(b'\\');
        let begins = backslashes & !torn;
        let in_or_behind_run = (begins << 1 | ODD).wrapping_sub(begins) ^ ODD;
        Escapes {
            backslashes,
            escaped: in_or_behind_run ^ (backslashes | torn),
            torn: (in_or_behind_run & backslashes) >> (BYTES - 1),
        }
    }
}

/// The least bytes of some blocks, which tell whether any may be a control byte: one instruction a
/// vector, where a search for them would take a pass of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Least<S: Simd>(u8x64<S>);

impl<S: Simd> Least<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self(u8x64::splat(simd, u8::MAX))
    }

    #[inline(always)]
    pub(super) fn add(&mut self, block: &Block<S>) {
        self.0 = self.0.min(block.0);
    }

    /// Whether a control byte is among the bytes added; what filled up a block counts as one.
    #[inline(always)]
    pub(super) fn may_be_control(self) -> bool {
        self.0.simd_lt(0x20).any_true()
    }
}

/// Length of a string, up to its closing quote, that ends in these bytes and has neither an escape
/// nor a control byte.
///
/// Keys and short words are too many to dispatch each of them, so this takes the vectors that every
/// processor of the target has; which those are is known when it is compiled.
#[inline]
pub(super) fn short_string(bytes: &[u8; SHORT_BYTES]) -> Option<usize> {
    let (quotes, other) = dispatch!(Level::baseline(), simd => {
        let bytes = u8x16::simd_from(simd, *bytes);
        let other = bytes.simd_eq(b'\\') | bytes.simd_le(0x1F);
        (bytes.simd_eq(b'"').to_bitmask(), other.to_bitmask())
    });
    let length = quotes.trailing_zeros();
    (length < other.trailing_zeros()).then_some(length as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escapes_are_told_apart_as_one_by_one(
            bytes in prop::collection::vec(prop::sample::select(b"\\\\\\\"nx".to_vec()), 0..=3 * BYTES)
        ) {
            let (mut torn, mut is_escape) = (0, false);
            for chunk in bytes.chunks(BYTES) {
                let (escapes, quotes) = dispatch!(Level::new(), simd => {
                    let block = Block::of(simd, chunk);
                    (block.escapes(torn), block.find(b'"'))
                });
                for (at, byte) in chunk.iter().enumerate() {
                    prop_assert_eq!(escapes.escaped >> at & 1 == 1, is_escape);
                    prop_assert_eq!(quotes >> at & 1 == 1, *byte == b'"');
                    is_escape = !is_escape && *byte == b'\\';
                }
                torn = escapes.torn;
                prop_assert_eq!(torn == 1, is_escape && chunk.len() == BYTES);
            }
        }

        #[test]
        fn short_strings_end_as_one_by_one(
            bytes in prop::array::uniform16(prop_oneof![
                prop::sample::select(b"\\\"\n !~\x1f\xa2\xff\0".to_vec()), any::<u8>()
            ])
        ) {
            let stop = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
            let expected = stop.filter(|at| bytes[*at] == b'"');
            prop_assert_eq!(short_string(&bytes), expected);
        }
    }
}
