//! What is kept of a prompt's parts while they are read: running digests, sizes and counts.

use super::{chain::Trail, digest};

/// Digest and size of some piece of the prompt.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Piece {
    /// 0 where it is not wanted.
    pub(super) digest: u64,
    pub(super) bytes: u64,
}

/// A run of parts in prompt order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    /// Chain over the parts' digests.
    pub(super) digest: u64,
    /// Prompt text in bytes.
    pub(super) bytes: u64,
    /// How many parts.
    pub(super) parts: u32,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            digest: digest::START,
            bytes: 0,
            parts: 0,
        }
    }
}

impl Section {
    /// Appends a part.
    pub(super) fn part(&mut self, piece: Piece) {
        self.digest = digest::chain(self.digest, piece.digest);
        self.bytes += piece.bytes;
        self.parts = self.parts.saturating_add(1);
    }
}

/// The tools or the system blocks of a prompt.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    /// All of them.
    pub(super) all: Section,
    /// Their boundaries, where the whole prompt is hashed.
    pub(super) trail: Trail,
    /// Digest of the billing block.
    pub(super) billing: Option<u64>,
}

/// The messages (or input items) of a prompt.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    /// All of them.
    pub(super) all: Section,
    /// Of these, the system messages at the front.
    pub(super) front: Section,
    /// The chain through the first one of the assistant's.
    pub(super) through_first_assistant: Option<u64>,
    /// Their boundaries, where the whole prompt is hashed; `None` for what is no list of messages.
    pub(super) trail: Option<Trail>,
}
