//! Where the scan of a conversation's next turn may go on.
//!
//! A client sends its whole history again on every turn, so nearly all of a body are bytes that were
//! scanned before. A bookmark holds what the scan knew at a boundary between two messages, and a
//! keyed digest of every byte before it: a later body that begins with the same bytes is read from
//! there on, with the same result as a scan of all of it. Digesting the bytes takes a seventh of
//! scanning them.
//!
//! The boundary is the last one that the next turn leaves as it is: the end of the messages, or the
//! place before the first message with a `cache_control`, which clients move along as they go on.

use std::hash::Hasher as _;

use twox_hash::xxhash3_64::Hasher;

use super::body::Found;
use crate::Dialect;

/// Bytes before a bookmark that are compared first, since other conversations differ there.
const NEAR_BYTES: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Bookmark {
    dialect: Dialect,
    /// Bytes before the boundary.
    offset: usize,
    digest: u64,
    /// The last bytes before the boundary.
    near: [u8; NEAR_BYTES],
    /// The member that is the list of messages.
    list: &'static str,
    /// All that was found, the messages up to the boundary included.
    found: Found<'static>,
}

/// A boundary that the scan came past.
#[derive(Debug)]
pub(super) struct Boundary {
    pub(super) offset: usize,
    pub(super) list: &'static str,
    pub(super) found: Found<'static>,
}

/// Looks up and makes the bookmarks of one scan.
pub(super) struct Bookmarker<'a> {
    dialect: Dialect,
    body: &'a [u8],
    seed: u64,
    hasher: Hasher,
    /// Bytes that the hasher has seen.
    hashed: usize,
}

impl<'a> Bookmarker<'a> {
    /// `seed` is the process's secret: who knew it could make up bytes of the same digest.
    pub(super) fn new(dialect: Dialect, body: &'a [u8], seed: u64) -> Self {
        Self {
            dialect,
            body,
            seed,
            hasher: Hasher::with_seed(seed),
            hashed: 0,
        }
    }

    /// Where to go on, if the body begins as the one that the bookmark is from.
    pub(super) fn resume(&mut self, bookmark: &Bookmark) -> Option<Boundary> {
        let before = self.body.get(..bookmark.offset)?;
        if bookmark.dialect != self.dialect || before.last_chunk() != Some(&bookmark.near) {
            return None;
        }
        self.hash_to(bookmark.offset);
        (self.hasher.finish() == bookmark.digest).then(|| Boundary {
            offset: bookmark.offset,
            list: bookmark.list,
            found: bookmark.found.clone(),
        })
    }

    /// A bookmark at a boundary of this body.
    pub(super) fn bookmark(mut self, boundary: Boundary) -> Option<Box<Bookmark>> {
        let Boundary {
            offset,
            list,
            found,
        } = boundary;
        let near = *self.body.get(..offset)?.last_chunk()?;
        if self.hashed > offset {
            self.hasher = Hasher::with_seed(self.seed);
            self.hashed = 0;
        }
        self.hash_to(offset);
        Some(Box::new(Bookmark {
            dialect: self.dialect,
            offset,
            digest: self.hasher.finish(),
            near,
            list,
            found,
        }))
    }

    fn hash_to(&mut self, offset: usize) {
        self.hasher.write(&self.body[self.hashed..offset]);
        self.hashed = offset;
    }
}

impl Bookmark {
    /// A boundary before this gets none: scanning that much costs little more than finding one.
    pub const BYTES_MIN: usize = 32 << 10;

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.found.memory_bytes()
    }
}
