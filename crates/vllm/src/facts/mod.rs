//! What the gateway needs to know of a request body, found in one pass over its bytes.
//!
//! The pass validates the whole body as JSON and builds no document: long strings are skipped a
//! block of bytes at a time and hashed where they stand, as far as their digests are wanted. Bodies name their parts in any order
//! (Claude Code: model, messages, system, tools), while the prompt's order is tools, system,
//! messages; so each part gets a digest of its own, and the digests are combined at the end. What
//! a fact is used for is `routing`'s to decide.

mod block;
mod body;
mod bookmark;
mod chain;
mod cursor;
mod digest;
mod parts;
mod prompt;
mod session;
mod splice;
#[cfg(test)]
mod tests;
mod text;

use std::{borrow::Cow, ops::Range};

use self::bookmark::Bookmarker;
use crate::Dialect;

pub use bookmark::Bookmark;
pub use chain::{PromptChain, PromptChange, PromptSection};
pub use cursor::DEPTH_MAX;
pub use session::metadata_session;
pub use splice::splice_model;

/// Longest model name taken, in bytes: names come from strangers and end up in messages and logs.
pub const MODEL_BYTES_MAX: usize = 1024;

/// Facts of one request body. Strings borrow from it where they hold no escape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFacts<'a> {
    /// Top-level `model`, at most [`MODEL_BYTES_MAX`].
    pub model: Cow<'a, str>,
    /// Where the value of `model` stands, quotes included: the only bytes an alias replaces.
    pub model_span: Range<usize>,
    /// Top-level `stream`, false where absent.
    pub stream: bool,
    /// The dialect's bound on generated tokens: top-level `max_tokens`, `max_completion_tokens`
    /// (which goes before it on chat) or `max_output_tokens` (Responses).
    pub max_tokens: Option<u64>,
    /// The session named inside `metadata.user_id` (see [`metadata_session`]).
    pub metadata_session: Option<Cow<'a, str>>,
    /// Top-level `prompt_cache_key`; one over 4 KiB counts as not sent.
    pub prompt_cache_key: Option<Cow<'a, str>>,
    /// Top-level `cache_salt`, as it is written.
    pub cache_salt: Option<Cow<'a, str>>,
    /// Bytes of prompt text: tools, system, and messages / input / prompt. Text counts unescaped;
    /// ids, signatures and image data do not count.
    pub prompt_bytes: u64,
    /// Of these, tools and system (what other conversations share). Messages of the roles `system`
    /// and `developer` at the front count as system.
    pub shared_bytes: u64,
    /// Hash of tools + system, `cache_control` and the billing block left out; 0 where both are absent.
    pub lineage: u64,
    /// Hash of everything through the first assistant message, in prompt order (tools, system,
    /// messages), string and list content alike; `None` before there is one. Always `None` for
    /// plain completions.
    pub first_turn_hash: Option<u64>,
    /// Hash of the whole prompt in prompt order: the fingerprint of the stable prefix that the
    /// next turn should extend. `None` unless [`Digests::Prompt`] was asked for.
    pub prompt_hash: Option<u64>,
    /// Messages (or input items) in the prompt; 1 for a prompt that is no list of messages.
    pub messages: u32,
    /// The digests at the parts' boundaries, by which the next turn's prompt is held against this
    /// one. `None` unless [`Digests::Prompt`] was asked for, and for a prompt that is no list of
    /// messages.
    pub chain: Option<Box<PromptChain>>,
}

/// Why a body cannot be used. All of these are the client's fault and answered with 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not JSON; the offset is in bytes.
    #[error("the body is not valid JSON (byte {offset})")]
    Json {
        /// Where it went wrong.
        offset: usize,
    },
    /// Objects and lists inside each other beyond [`DEPTH_MAX`].
    #[error("the body nests deeper than {DEPTH_MAX} levels (byte {offset})")]
    TooDeep {
        /// Where the first level too many opens.
        offset: usize,
    },
    /// JSON, but no object at the top.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// `model` is absent, no string, or empty.
    #[error("\"model\" is required: the name of a model, as listed at /v1/models")]
    MissingModel,
    /// A known key has a value of another type.
    #[error("\"{key}\" must be {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// What it must be, with article.
        expected: &'static str,
    },
}

/// What of the prompt is hashed. Hashing is the part of the pass that grows with the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digests {
    /// Tools, system, and messages through the first one of the assistant's: enough for
    /// [`BodyFacts::lineage`] and [`BodyFacts::first_turn_hash`].
    Identity,
    /// Everything, for [`BodyFacts::prompt_hash`] and [`BodyFacts::chain`].
    Prompt,
}

/// Reads the facts out of a body. Never allocates in proportion to it: all that grows is the chain,
/// within its bounds.
///
/// Of a key that stands twice the last value counts, as in vLLM; an optional key whose value is
/// null counts as absent.
pub fn scan(dialect: Dialect, digests: Digests, body: &[u8]) -> Result<BodyFacts<'_>, BodyError> {
    let (facts, _) = body::scan(dialect, digests, body, None)?;
    Ok(facts)
}

/// The same with all digests, begun where the scan of an earlier body stood if this one begins with the
/// same bytes; and where the next one may begin. The facts are those of [`scan`], bookmark or not.
///
/// `seed` is a secret of the process, the same in every call. Bodies under [`Bookmark::BYTES_MIN`] get no bookmark.
pub fn scan_on<'a>(
    dialect: Dialect,
    body: &'a [u8],
    before: Option<&Bookmark>,
    seed: u64,
) -> Result<(BodyFacts<'a>, Option<Box<Bookmark>>), BodyError> {
    let mut bookmarker = Bookmarker::new(dialect, body, seed);
    let resumed = before.and_then(|before| bookmarker.resume(before));
    let (facts, boundary) = body::scan(dialect, Digests::Prompt, body, resumed)?;
    let bookmark = boundary.and_then(|boundary| bookmarker.bookmark(boundary));
    Ok((facts, bookmark))
}
