//! What the headers say about who is asking, handed to `routing`, which owns the precedence.

use http::HeaderMap;
use routing::{Candidates, RequestClass};
use vllm::BodyFacts;

/// The data-parallel rank a client may ask for, and the one the warden sends to vLLM.
pub(super) const RANK_HEADER: &str = "x-data-parallel-rank";

/// Every id this request carries. A request id (`x-request-id` and the like) is none of them.
pub(super) fn candidates<'a>(headers: &'a HeaderMap, facts: &'a BodyFacts<'_>) -> Candidates<'a> {
    let header = |name| headers.get(name).map(http::HeaderValue::as_bytes);
    Candidates {
        claude_code_session_id: header("x-claude-code-session-id"),
        claude_code_agent_id: header("x-claude-code-agent-id"),
        session_affinity: header("x-session-affinity"),
        session_id: header("session-id").or_else(|| header("session_id")),
        thread_id: header("thread-id"),
        x_session_id: header("x-session-id"),
        metadata_session: facts.metadata_session.as_deref().map(str::as_bytes),
        prompt_cache_key: facts.prompt_cache_key.as_deref().map(str::as_bytes),
        first_turn_hash: facts.first_turn_hash,
    }
}

/// What the client says this request is.
pub(super) fn class(headers: &HeaderMap) -> RequestClass {
    match headers
        .get("x-claude-code-request-class")
        .map(http::HeaderValue::as_bytes)
    {
        Some(b"main" | b"subagent" | b"workflow") => RequestClass::Turn,
        Some(b"compaction" | b"auxiliary" | b"side_reply") => RequestClass::Side,
        _ => RequestClass::Unknown,
    }
}

/// The client's own choice of a rank. As vLLM reads it: blanks and a sign are allowed, what is no
/// integer is no choice. An integer too large for the type is still one, and out of range.
pub(super) fn pin(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get(RANK_HEADER)?.to_str().ok()?.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_as_vllm_reads_them() {
        let check = |value: &str, expected: Option<i64>| {
            let mut headers = HeaderMap::new();
            headers.insert(RANK_HEADER, value.parse().unwrap());
            assert_eq!(pin(&headers), expected, "{value:?}");
        };
        check("1", Some(1));
        check(" 1 ", Some(1));
        check("+1", Some(1));
        check("-1", Some(-1));
        check("99999999999999999999", Some(i64::MAX));
        check("abc", None);
        check("", None);
        check("1.0", None);
        check("+", None);
        check("0x1", None);
        assert_eq!(pin(&HeaderMap::new()), None);
    }

    #[test]
    fn classes() {
        let check = |value: &str, expected| {
            let mut headers = HeaderMap::new();
            headers.insert("x-claude-code-request-class", value.parse().unwrap());
            assert_eq!(class(&headers), expected, "{value}");
        };
        check("main", RequestClass::Turn);
        check("side_reply", RequestClass::Side);
        check("something new", RequestClass::Unknown);
        assert_eq!(class(&HeaderMap::new()), RequestClass::Unknown);
    }
}
