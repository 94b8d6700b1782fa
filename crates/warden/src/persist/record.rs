//! One record of a journal of homes: length, checksum, content. All numbers are little-endian.
//!
//! A record that was torn by a crash, or whose bits changed, is told from a whole one by its
//! checksum. Replicas are written by their stable names, never by position.

use routing::{ConversationKey, HomeRecord, Identity, IdentitySource, OwnerId, Time};
use twox_hash::XxHash3_64;

/// Bytes before the content: its length (2) and the low half of its hash (4).
const HEAD_BYTES: usize = 6;
/// Longest name of a replica that fits; URLs are far shorter.
const REPLICA_BYTES_MAX: usize = 512;
/// No content is longer. What claims to be is none, and need not be hashed to tell.
const CONTENT_BYTES_MAX: usize = 128 + REPLICA_BYTES_MAX;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A conversation's home, under the replica's stable name.
    Set { home: HomeRecord, replica: String },
    /// The conversation is forgotten.
    Forget(ConversationKey),
}

impl Record {
    pub(super) fn key(&self) -> ConversationKey {
        match self {
            Self::Set { home, .. } => home.identity.conversation,
            Self::Forget(key) => *key,
        }
    }

    /// Appends the record.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; HEAD_BYTES]);
        match self {
            Self::Set { home, replica } => {
                out.push(1);
                out.extend(home.identity.conversation.0.to_le_bytes());
                out.extend(home.identity.session.to_le_bytes());
                out.push(source_code(home.identity.source));
                out.push(u8::from(home.identity.agent.is_some()));
                out.extend(home.identity.agent.unwrap_or(0).to_le_bytes());
                out.extend(home.owner.0.to_le_bytes());
                out.extend(home.last_active.0.to_le_bytes());
                out.extend(home.context_tokens.to_le_bytes());
                out.extend(home.own_tokens.to_le_bytes());
                out.extend(home.turns.to_le_bytes());
                out.extend(home.lineage.to_le_bytes());
                out.extend(&replica.as_bytes()[..replica.len().min(REPLICA_BYTES_MAX)]);
            }
            Self::Forget(key) => {
                out.push(0);
                out.extend(key.0.to_le_bytes());
            }
        }
        let content = &out[start + HEAD_BYTES..];
        let length = u16::try_from(content.len()).expect("the longest record is under 1 KiB");
        let hash = XxHash3_64::oneshot(content) as u32;
        out[start..start + 2].copy_from_slice(&length.to_le_bytes());
        out[start + 2..start + HEAD_BYTES].copy_from_slice(&hash.to_le_bytes());
    }

    /// Takes one record off the front; `None` where there is no whole one.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut rest = *bytes;
        let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let hash = u32::from_le_bytes(take(&mut rest)?);
        if length > CONTENT_BYTES_MAX {
            return None;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        if XxHash3_64::oneshot(content) as u32 != hash {
            return None;
        }
        let record = parse(content)?;
        *bytes = rest;
        Some(record)
    }
}

fn parse(mut content: &[u8]) -> Option<Record> {
    let rest = &mut content;
    let [kind] = take(rest)?;
    let key = ConversationKey(u128::from_le_bytes(take(rest)?));
    if kind == 0 {
        return rest.is_empty().then_some(Record::Forget(key));
    }
    let session = u64::from_le_bytes(take(rest)?);
    let [source, has_agent] = take(rest)?;
    let agent = u64::from_le_bytes(take(rest)?);
    let home = HomeRecord {
        identity: Identity {
            conversation: key,
            session,
            agent: (has_agent == 1).then_some(agent),
            source: SOURCES.get(usize::from(source)).copied()?,
        },
        owner: OwnerId(u32::from_le_bytes(take(rest)?)),
        last_active: Time(u64::from_le_bytes(take(rest)?)),
        context_tokens: u64::from_le_bytes(take(rest)?),
        own_tokens: u64::from_le_bytes(take(rest)?),
        turns: u32::from_le_bytes(take(rest)?),
        lineage: u64::from_le_bytes(take(rest)?),
        // Found by the name that follows.
        home: routing::ReplicaIndex(0),
    };
    let replica = String::from_utf8(rest.to_vec()).ok()?;
    Some(Record::Set { home, replica })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

/// By the code that stands in the file; new ones go to the end.
const SOURCES: [IdentitySource; 7] = [
    IdentitySource::ClaudeCodeHeader,
    IdentitySource::SessionAffinityHeader,
    IdentitySource::SessionIdHeader,
    IdentitySource::XSessionIdHeader,
    IdentitySource::MetadataUserId,
    IdentitySource::PromptCacheKey,
    IdentitySource::PrefixHash,
];

fn source_code(source: IdentitySource) -> u8 {
    let code = SOURCES.iter().position(|known| *known == source);
    code.expect("every source stands in the table") as u8
}
