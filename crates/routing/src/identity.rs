//! Who is speaking: precedence of the ids a client may send, and their keyed hashes.

/// Secret seed of every hash of a stranger's id; persisted beside the homes so that they survive a
/// restart, never logged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 16]);

/// Who holds the key a request came with. 0 is the anonymous owner of a gateway without keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerId(pub u32);

/// Keyed 128-bit hash of (owner, model, session id, agent id). The first 16 hex digits are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationKey(pub u128);

/// Every id that a request carries, as raw bytes from headers or from these exact body paths.
/// Longer than 256 bytes, empty or blank counts as not sent. A request id is not among them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates<'a> {
    /// Header `x-claude-code-session-id`.
    pub claude_code_session_id: Option<&'a [u8]>,
    /// Header `x-claude-code-agent-id`.
    pub claude_code_agent_id: Option<&'a [u8]>,
    /// Header `x-session-affinity`.
    pub session_affinity: Option<&'a [u8]>,
    /// Header `session-id` or `session_id`.
    pub session_id: Option<&'a [u8]>,
    /// Header `thread-id`: the agent id that goes with `session-id`.
    pub thread_id: Option<&'a [u8]>,
    /// Header `x-session-id`.
    pub x_session_id: Option<&'a [u8]>,
    /// The session inside body `metadata.user_id`, already taken out of its two forms.
    pub metadata_session: Option<&'a [u8]>,
    /// Body `prompt_cache_key`.
    pub prompt_cache_key: Option<&'a [u8]>,
    /// Hash of the prompt through the first assistant message; `None` on a first turn.
    pub first_turn_hash: Option<u64>,
}

/// Which candidate named the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IdentitySource {
    ClaudeCodeHeader,
    SessionAffinityHeader,
    SessionIdHeader,
    XSessionIdHeader,
    MetadataUserId,
    PromptCacheKey,
    PrefixHash,
}

/// A conversation's identity, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Key of the conversation (session and agent).
    pub conversation: ConversationKey,
    /// Keyed hash of (owner, model, session id): equal for a session's main agent and its subagents.
    pub session: u64,
    /// Keyed hash of the agent id, where one was sent.
    pub agent: Option<u64>,
    /// What named it.
    pub source: IdentitySource,
}

impl Identity {
    /// The first valid candidate in the order of precedence, hashed; `None` where no id was sent
    /// and the prompt is a first turn.
    pub fn of(_seed: &Seed, _owner: OwnerId, _model: &str, _ids: &Candidates<'_>) -> Option<Self> {
        todo!()
    }
}
