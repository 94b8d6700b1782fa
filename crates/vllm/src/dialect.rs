//! The APIs that carry a prompt, and whose shape their replies and errors have.

/// One of the client APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// `/v1/messages` and `/v1/messages/count_tokens`.
    Messages,
    /// `/v1/chat/completions`.
    ChatCompletions,
    /// `/v1/completions`.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/v1/embeddings`, `/tokenize`, `/detokenize`: OpenAI-shaped errors, no conversation.
    Other,
}

impl Dialect {
    /// The word used in the API's `api` field and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::ChatCompletions => "chat",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Other => "other",
        }
    }
}
