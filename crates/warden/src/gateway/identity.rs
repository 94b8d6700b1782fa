//! Who is asking: what `vllm` finds in headers and body, handed to `routing`, which owns the
//! precedence.

use http::HeaderMap;
use routing::{Candidates, RequestClass};
use vllm::{BodyFacts, HeaderClass, HeaderIds};

/// The data-parallel rank a client may ask for, and the one the warden sends to vLLM.
pub(super) const RANK_HEADER: &str = "x-data-parallel-rank";

/// What the headers say.
pub(super) fn ids(headers: &HeaderMap) -> HeaderIds<'_> {
    let lines = headers.iter();
    HeaderIds::from_headers(lines.map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// Every id this request carries.
pub(super) fn candidates<'a>(ids: &HeaderIds<'a>, facts: &'a BodyFacts<'_>) -> Candidates<'a> {
    Candidates {
        claude_code_session_id: ids.claude_code_session_id,
        claude_code_agent_id: ids.claude_code_agent_id,
        session_affinity: ids.session_affinity,
        session_id: ids.session_id,
        thread_id: ids.thread_id,
        x_session_id: ids.x_session_id,
        metadata_session: facts.metadata_session.as_deref().map(str::as_bytes),
        prompt_cache_key: facts.prompt_cache_key.as_deref().map(str::as_bytes),
        first_turn_hash: facts.first_turn_hash,
    }
}

/// The client's own word on what the request is.
pub(super) fn class(ids: &HeaderIds<'_>) -> RequestClass {
    match ids.class {
        HeaderClass::Unknown => RequestClass::Unknown,
        HeaderClass::Turn => RequestClass::Turn,
        HeaderClass::Side => RequestClass::Side,
    }
}
