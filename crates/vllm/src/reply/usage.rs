//! Token usage in the three forms that vLLM writes.
//!
//! OpenAI's count all prompt tokens and say how many of them were cached. The Messages API leaves
//! cached ones out of `input_tokens`; vLLM does so only where it also gives the cache fields, and in
//! a stream `message_start` has the full prompt while `message_delta` has the split. So figures
//! are merged as they come, and the last word counts.

use serde::Deserialize;

/// What the engine counted for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All prompt tokens, cached ones included (Messages: input + cache read + cache creation).
    pub prompt_tokens: u64,
    /// Read from the prefix cache; `None` where the engine did not say.
    pub cached_tokens: Option<u64>,
    /// Generated tokens.
    pub completion_tokens: u64,
}

impl Usage {
    /// Prompt tokens that were cached and that were computed; what was not measured was computed.
    pub fn split(&self) -> (u64, u64) {
        split_prompt(self.prompt_tokens, self.cached_tokens)
    }
}

/// [`Usage::split`] where only these two are known.
pub fn split_prompt(prompt_tokens: u64, cached_tokens: Option<u64>) -> (u64, u64) {
    // An engine that reports more than there was is broken, and counts as having had it all.
    let cached = cached_tokens.unwrap_or(0).min(prompt_tokens);
    (cached, prompt_tokens - cached)
}

/// A `usage` object of any dialect: their keys do not overlap in meaning.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageObject {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}

impl Usage {
    /// Takes over every figure that a later `usage` object gives.
    pub(super) fn merge(&mut self, object: &UsageObject) {
        let details = object.prompt_tokens_details.or(object.input_tokens_details);
        let read = object.cache_read_input_tokens;
        if let Some(cached) = read.or(details.and_then(|details| details.cached_tokens)) {
            self.cached_tokens = Some(cached);
        }
        if let Some(uncached) = object.input_tokens {
            let created = object.cache_creation_input_tokens.unwrap_or(0);
            self.prompt_tokens = uncached
                .saturating_add(read.unwrap_or(0))
                .saturating_add(created);
        } else if let Some(prompt) = object.prompt_tokens {
            self.prompt_tokens = prompt;
        }
        if let Some(generated) = object.completion_tokens.or(object.output_tokens) {
            self.completion_tokens = generated;
        }
    }
}

/// Merges into what was seen before, if anything.
pub(super) fn merge(usage: &mut Option<Usage>, object: Option<&UsageObject>) {
    if let Some(object) = object {
        usage.get_or_insert_default().merge(object);
    }
}
