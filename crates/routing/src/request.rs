//! What the router is told about a request when it arrives and when it is done. Sizes come in bytes,
//! because that is what HTTP shows; the router turns them into tokens by what it learns from usage.

use crate::{Identity, OwnerId};

/// What a client says a request is (`x-claude-code-request-class`), where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestClass {
    /// Not sent: the lineage decides.
    #[default]
    Unknown,
    /// `main`, `subagent`, `workflow`: a turn of the conversation.
    Turn,
    /// `compaction`, `auxiliary`, `side_reply`: a side request.
    Side,
}

/// What the router is told about a request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Whose key it came with.
    pub owner: OwnerId,
    /// The conversation, where one could be named.
    pub identity: Option<Identity>,
    /// An integer `X-data-parallel-rank` of the client's.
    pub pin: Option<i64>,
    /// False where the engine ignores the header on this API.
    pub steerable: bool,
    /// Bytes of prompt text (tools, system, messages).
    pub prompt_bytes: u64,
    /// Of these, bytes that other conversations share (tools and system).
    pub shared_bytes: u64,
    /// Hash of tools + system; 0 where unknown.
    pub lineage: u64,
    /// Hash of everything through the first assistant message; 0 on a first turn or where unknown. A
    /// turn with another one than the turn before does not extend it.
    pub front: u64,
    /// The client's own word on it.
    pub class: RequestClass,
    /// The reply is a stream, which a wait does not time out as soon as a plain one.
    pub streams: bool,
}

/// Token counts that the engine reported for a finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All prompt tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Read from the prefix cache; `None` where the engine did not say.
    pub cached_tokens: Option<u64>,
    /// Generated tokens.
    pub completion_tokens: u64,
}
