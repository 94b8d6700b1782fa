//! Who is speaking: precedence of the ids a client may send, and their keyed hashes.
//!
//! Finding the ids in headers and bodies is the caller's; here they are ranked, checked and hashed. They
//! come from strangers, so they are bounded, kept only as `SipHash` under a secret seed (no id can be
//! chosen to collide with another's conversation), and two owners never share a conversation. A
//! request id is not among the candidates: taking one for a session makes every turn a new one.

use siphasher::sip128::SipHasher24;

/// Longest id that counts, in bytes; a longer one is treated as not sent.
pub const ID_BYTES_MAX: usize = 256;

/// Secret seed of every hash of a stranger's id; persisted beside the homes so that they survive a
/// restart, never logged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 16]);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// Who holds the key a request came with. 0 is the anonymous owner of a gateway without keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerId(pub u32);

/// Keyed 128-bit hash of (owner, model, session id, agent id). The first 16 hex digits are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationKey(pub u128);

impl ConversationKey {
    /// What the 16 digits stand for.
    pub fn shown(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

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
pub enum IdentitySource {
    /// `x-claude-code-session-id`.
    ClaudeCodeHeader,
    /// `x-session-affinity`.
    SessionAffinityHeader,
    /// `session-id` or `session_id`.
    SessionIdHeader,
    /// `x-session-id`.
    XSessionIdHeader,
    /// Body `metadata.user_id`.
    MetadataUserId,
    /// Body `prompt_cache_key`.
    PromptCacheKey,
    /// No id was sent: everything through the first assistant message.
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

/// What a hash is of, so that equal bytes in two roles never give equal hashes.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Domain {
    Session = 1,
    Agent = 2,
    Conversation = 3,
    /// A session named by its first turn, which no client can name by an id of its own.
    PrefixSession = 4,
    PrefixAgent = 5,
    PrefixConversation = 6,
}

impl Identity {
    /// The first valid candidate in the order of precedence, hashed; `None` where no id was sent
    /// and the prompt is a first turn.
    ///
    /// The source is not part of the hash: one session named once by header and once by body is
    /// one conversation.
    pub fn of(seed: &Seed, owner: OwnerId, model: &str, ids: &Candidates<'_>) -> Option<Self> {
        let named = ids.session();
        let prefix = ids.first_turn_hash.map(u64::to_le_bytes);
        let (source, session) = match (&named, &prefix) {
            (Some((source, id)), _) => (*source, *id),
            (None, Some(hash)) => (IdentitySource::PrefixHash, hash.as_slice()),
            (None, None) => return None,
        };
        let agent = ids.agent(source, session);
        let [of_session, of_agent, of_conversation] = if source == IdentitySource::PrefixHash {
            [
                Domain::PrefixSession,
                Domain::PrefixAgent,
                Domain::PrefixConversation,
            ]
        } else {
            [Domain::Session, Domain::Agent, Domain::Conversation]
        };
        let hash = |domain, agent| {
            keyed_hash(
                seed,
                domain,
                owner,
                &[Some(model.as_bytes()), Some(session), agent],
            )
        };
        Some(Self {
            conversation: ConversationKey(hash(of_conversation, agent)),
            session: hash(of_session, None) as u64,
            agent: agent.map(|agent| hash(of_agent, Some(agent)) as u64),
            source,
        })
    }
}

impl<'a> Candidates<'a> {
    /// The first valid session id, in the order of precedence.
    fn session(&self) -> Option<(IdentitySource, &'a [u8])> {
        use IdentitySource as Source;
        [
            (Source::ClaudeCodeHeader, self.claude_code_session_id),
            (Source::SessionAffinityHeader, self.session_affinity),
            (Source::SessionIdHeader, self.session_id),
            (Source::XSessionIdHeader, self.x_session_id),
            (Source::MetadataUserId, self.metadata_session),
            (Source::PromptCacheKey, self.prompt_cache_key),
        ]
        .into_iter()
        .find_map(|(source, id)| Some((source, valid(id)?)))
    }

    /// The agent within the session. Claude Code names it wherever it speaks; a thread counts only
    /// beside the `session-id` it belongs to. Codex's main thread bears the session's own id: that
    /// is the main agent, the same conversation as the session alone.
    fn agent(&self, source: IdentitySource, session: &[u8]) -> Option<&'a [u8]> {
        valid(self.claude_code_agent_id).or_else(|| {
            valid(self.thread_id)
                .filter(|thread| source == IdentitySource::SessionIdHeader && *thread != session)
        })
    }
}

/// The id, unless it is too long, empty or blank.
fn valid(id: Option<&[u8]>) -> Option<&[u8]> {
    id.filter(|id| id.len() <= ID_BYTES_MAX && !id.trim_ascii().is_empty())
}

/// Hashes the parts with their lengths, so that moving a byte from one to the next changes the hash.
fn keyed_hash(seed: &Seed, domain: Domain, owner: OwnerId, parts: &[Option<&[u8]>]) -> u128 {
    use std::hash::Hasher;
    let mut hasher = SipHasher24::new_with_key(&seed.0);
    hasher.write(&[domain as u8]);
    hasher.write(&owner.0.to_le_bytes());
    for part in parts {
        match part {
            None => hasher.write(&u64::MAX.to_le_bytes()),
            Some(bytes) => {
                hasher.write(&(bytes.len() as u64).to_le_bytes());
                hasher.write(bytes);
            }
        }
    }
    siphasher::sip128::Hasher128::finish128(&hasher).as_u128()
}

#[cfg(test)]
mod tests;
