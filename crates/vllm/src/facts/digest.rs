//! Digests of prompt parts.
//!
//! XXH3 over a part's bytes as they stand, then a cheap chain over the parts' digests. They tell
//! prompts of one client apart and are no secret: `routing` hashes identities again with its seed.
//! Strings are hashed with their escapes as written, since one client writes one text one way.

use twox_hash::XxHash3_64;

/// Start of every chain; not 0, which means *absent* to [`super::BodyFacts::lineage`].
pub(super) const START: u64 = 0x6A09_E667_F3BC_C908;

/// Digest of some text.
pub(super) fn of(text: &str) -> u64 {
    XxHash3_64::oneshot(text.as_bytes())
}

/// Appends one part's digest to a chain: the order matters.
pub(super) fn chain(chain: u64, part: u64) -> u64 {
    let mixed = (chain.rotate_left(23) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

/// Digest of an object's member. Members are added up, so that their order does not matter.
pub(super) fn member(key: &str, value: u64) -> u64 {
    chain(of(key), value)
}
