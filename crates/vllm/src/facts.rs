//! What the gateway needs to know of a request body, found in one pass over its bytes.

use std::{borrow::Cow, ops::Range};

use crate::Dialect;

/// Facts of one request body. Strings borrow from it where they hold no escape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFacts<'a> {
    /// Top-level `model`.
    pub model: Cow<'a, str>,
    /// Where the value of `model` stands, quotes included: the only bytes an alias replaces.
    pub model_span: Range<usize>,
    /// Top-level `stream`, false where absent.
    pub stream: bool,
    /// Top-level `max_tokens` / `max_completion_tokens` / `max_output_tokens`.
    pub max_tokens: Option<u64>,
    /// The session named inside `metadata.user_id` (see [`metadata_session`]).
    pub metadata_session: Option<Cow<'a, str>>,
    /// Top-level `prompt_cache_key`.
    pub prompt_cache_key: Option<Cow<'a, str>>,
    /// Bytes of prompt text: tools, system, and messages / input / prompt.
    pub prompt_bytes: u64,
    /// Of these, tools and system (what other conversations share).
    pub shared_bytes: u64,
    /// Hash of tools + system, `cache_control` and the billing block left out; 0 where both are absent.
    pub lineage: u64,
    /// Hash of everything through the first assistant message, in prompt order (tools, system,
    /// messages), string and list content alike; `None` before there is one. Always `None` for
    /// plain completions.
    pub first_turn_hash: Option<u64>,
    /// Hash of the whole prompt in prompt order: the fingerprint of the stable prefix that the
    /// next turn should extend.
    pub prompt_hash: u64,
    /// Messages (or input items) in the prompt.
    pub messages: u32,
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

/// Reads the facts out of a body. Never allocates in proportion to it.
pub fn scan(_dialect: Dialect, _body: &[u8]) -> Result<BodyFacts<'_>, BodyError> {
    todo!()
}

/// The session id inside a Claude Code `metadata.user_id`: the `session_id` of a JSON string (2.1),
/// or what follows `_session_` (2.0). Any other form names none.
pub fn metadata_session(_user_id: &str) -> Option<Cow<'_, str>> {
    todo!()
}

/// The body in three pieces (before, new value, after) with the value of `model` replaced;
/// everything else stays byte for byte.
pub fn splice_model<'a>(
    _body: &'a [u8],
    _span: &Range<usize>,
    _model: &str,
) -> (&'a [u8], String, &'a [u8]) {
    todo!()
}
