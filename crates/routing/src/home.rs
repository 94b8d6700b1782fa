//! What outlives the process: where each conversation lives. The router exports changes and takes
//! records back; writing them, under a stable replica id, is the warden's.

use crate::{ConversationKey, Identity, OwnerId, ReplicaIndex, Time};

/// A change to the table of homes, to be written to disk by the warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeChange {
    /// New, moved or touched: replaces what was written under this key.
    Set(HomeRecord),
    /// Forgotten.
    Forget(ConversationKey),
}

/// What is persisted of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeRecord {
    /// The conversation.
    pub identity: Identity,
    /// Its owner.
    pub owner: OwnerId,
    /// Its home (the warden writes the replica's stable id).
    pub home: ReplicaIndex,
    /// When it last spoke.
    pub last_active: Time,
    /// Tokens of its context, shared prefix included.
    pub context_tokens: u64,
    /// Of these, its own.
    pub own_tokens: u64,
    /// Main-lineage turns so far.
    pub turns: u32,
    /// The main lineage.
    pub lineage: u64,
}
