//! Whose fault an engine's 500 is.
//!
//! Before 0.32 vLLM's Messages API answers 500 for mistakes of the client (its handler turns every
//! exception into one), and clients send a 500 again. The status passes as it came, but whoever passes
//! it on can say that the same request will only fail again. Read from the words of 0.26's
//! `SamplingParams` and input processor; what is not among them is taken for a fault of the engine.

use std::borrow::Cow;

use serde::Deserialize;

/// What vLLM says of a request that it cannot serve, whoever asks again.
const MISTAKES: [&str; 6] = [
    "maximum context length is",
    " must be ",
    " must contain ",
    " cannot contain ",
    " is out of range",
    // No messages at all: Python's own words.
    "list index out of range",
];

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    error: Error<'a>,
}

#[derive(Deserialize)]
struct Error<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Whether the body of an engine's 500 names a mistake of the client.
pub fn is_clients_mistake(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|reply: Reply<'_>| {
        let message = reply.error.message;
        MISTAKES.iter().any(|mistake| message.contains(mistake))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(message: &str) -> Vec<u8> {
        let error = serde_json::json!({"type": "internal_error", "message": message});
        serde_json::json!({"type": "error", "error": error})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn a_mistake_is_told_from_a_fault_by_its_words() {
        for mistake in [
            "This model's maximum context length is 16384 tokens. However, you requested 20000 tokens",
            "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
            "data_parallel_rank 7 is out of range [0, 2).",
            "list index out of range",
        ] {
            assert!(is_clients_mistake(&body(mistake)), "{mistake}");
        }
        for fault in [
            "EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "",
        ] {
            assert!(!is_clients_mistake(&body(fault)), "{fault}");
        }
        assert!(!is_clients_mistake(
            b"Internal Server Error: temperature must be non-negative"
        ));
    }
}
