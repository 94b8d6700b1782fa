//! Errors that the warden itself answers, in the shape of the API that was called.

use serde::{Deserialize, Serialize};

use crate::Dialect;

/// What kind of error, in terms that both shapes can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400
    InvalidRequest,
    /// 401
    Authentication,
    /// 403
    Permission,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 413
    TooLarge,
    /// 429
    RateLimit,
    /// 431
    HeadersTooLarge,
    /// 502, or 500 where the fault is the warden's own
    Api,
    /// 503
    Overloaded,
    /// 504, or 408 where the client was too slow
    Timeout,
}

impl ErrorKind {
    /// The HTTP status that goes with it; the first one where the kind names two.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Authentication => 401,
            Self::Permission => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::TooLarge => 413,
            Self::RateLimit => 429,
            Self::HeadersTooLarge => 431,
            Self::Api => 502,
            Self::Overloaded => 503,
            Self::Timeout => 504,
        }
    }

    /// The kind that a status of an engine's stands for.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Authentication,
            403 => Self::Permission,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            413 => Self::TooLarge,
            429 => Self::RateLimit,
            431 => Self::HeadersTooLarge,
            503 | 529 => Self::Overloaded,
            408 | 504 => Self::Timeout,
            400..=499 => Self::InvalidRequest,
            _ => Self::Api,
        }
    }

    /// `error.type` of the Messages API.
    fn anthropic_type(self) -> &'static str {
        match self {
            Self::InvalidRequest | Self::MethodNotAllowed | Self::HeadersTooLarge => {
                "invalid_request_error"
            }
            Self::Authentication => "authentication_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::TooLarge => "request_too_large",
            Self::RateLimit => "rate_limit_error",
            Self::Api => "api_error",
            Self::Overloaded => "overloaded_error",
            Self::Timeout => "timeout_error",
        }
    }

    /// `error.type` and `error.code` of the OpenAI APIs.
    fn openai_type_and_code(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::InvalidRequest => ("invalid_request_error", None),
            Self::Authentication => ("authentication_error", Some("invalid_api_key")),
            Self::Permission => ("permission_error", None),
            Self::NotFound => ("invalid_request_error", Some("not_found")),
            Self::MethodNotAllowed => ("invalid_request_error", Some("method_not_allowed")),
            Self::TooLarge => ("invalid_request_error", Some("request_too_large")),
            Self::RateLimit => ("rate_limit_error", Some("rate_limit_exceeded")),
            Self::HeadersTooLarge => ("invalid_request_error", Some("headers_too_large")),
            Self::Api => ("server_error", None),
            Self::Overloaded => ("server_error", Some("overloaded")),
            Self::Timeout => ("server_error", Some("timeout")),
        }
    }
}

#[derive(Serialize)]
struct Messages<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: MessagesError<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct MessagesError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct OpenAi<'a> {
    /// `error` in a Responses stream, whose events name their type; absent elsewhere.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

/// The JSON body. `param` and `code` appear in the OpenAI shape only, `request_id` in that of the
/// Messages API only (the others' clients read it from the header).
pub fn error_body(
    dialect: Dialect,
    kind: ErrorKind,
    message: &str,
    param: Option<&str>,
    request_id: &str,
) -> Vec<u8> {
    if dialect == Dialect::Messages {
        return messages_error(kind, message, request_id);
    }
    to_json(&OpenAi {
        kind: None,
        error: openai_error(kind, message, param),
    })
}

/// A whole server-sent event with that error, for a stream that has begun (OpenAI shapes: a data
/// event with an `error` object; Messages: `event: error`). On Responses it is both.
pub fn error_event(dialect: Dialect, kind: ErrorKind, message: &str, request_id: &str) -> Vec<u8> {
    let named = matches!(dialect, Dialect::Messages | Dialect::Responses);
    let data = if dialect == Dialect::Messages {
        messages_error(kind, message, request_id)
    } else {
        let error = openai_error(kind, message, None);
        to_json(&OpenAi {
            kind: named.then_some("error"),
            error,
        })
    };
    [
        if named { "event: error\n" } else { "" }.as_bytes(),
        b"data: ",
        &data,
        b"\n\n",
    ]
    .concat()
}

/// The message in an engine's error body: `error.message` of both shapes, or `message` at the root as
/// older vLLM has it. `None` where it is another kind of body.
pub fn error_message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Told>,
        message: Option<String>,
    }
    #[derive(Deserialize)]
    struct Told {
        message: String,
    }
    let body: Body = serde_json::from_slice(body).ok()?;
    body.error.map(|error| error.message).or(body.message)
}

fn messages_error(kind: ErrorKind, message: &str, request_id: &str) -> Vec<u8> {
    let error = MessagesError {
        kind: kind.anthropic_type(),
        message,
    };
    to_json(&Messages {
        kind: "error",
        error,
        request_id,
    })
}

fn openai_error<'a>(kind: ErrorKind, message: &'a str, param: Option<&'a str>) -> OpenAiError<'a> {
    let (kind, code) = kind.openai_type_and_code();
    OpenAiError {
        message,
        kind,
        param,
        code,
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings serialise")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const KINDS: [ErrorKind; 11] = [
        ErrorKind::InvalidRequest,
        ErrorKind::Authentication,
        ErrorKind::Permission,
        ErrorKind::NotFound,
        ErrorKind::MethodNotAllowed,
        ErrorKind::TooLarge,
        ErrorKind::RateLimit,
        ErrorKind::HeadersTooLarge,
        ErrorKind::Api,
        ErrorKind::Overloaded,
        ErrorKind::Timeout,
    ];

    fn every_kind(dialect: Dialect, param: Option<&str>) -> String {
        KINDS.iter().fold(String::new(), |mut all, kind| {
            let body = error_body(dialect, *kind, "say \"why\"\nand how", param, "req_1");
            let _ = writeln!(
                all,
                "{} {}",
                kind.status(),
                String::from_utf8(body).unwrap()
            );
            all
        })
    }

    #[test]
    fn an_engines_message_is_found_in_every_shape() {
        let check = |body: &[u8], message: Option<&str>| {
            assert_eq!(error_message(body).as_deref(), message);
        };
        for dialect in [Dialect::Messages, Dialect::ChatCompletions] {
            let body = error_body(dialect, ErrorKind::Api, "too long", None, "req_1");
            check(&body, Some("too long"));
        }
        check(
            br#"{"object":"error","message":"old","code":400}"#,
            Some("old"),
        );
        check(br#"{"detail":"Not Found"}"#, None);
        check(b"Internal Server Error", None);
    }

    #[test]
    fn a_kind_of_each_status_is_told_with_it() {
        for kind in KINDS {
            assert_eq!(ErrorKind::of_status(kind.status()), kind);
        }
        assert_eq!(ErrorKind::of_status(422), ErrorKind::InvalidRequest);
        assert_eq!(ErrorKind::of_status(500), ErrorKind::Api);
    }

    #[test]
    fn messages_bodies() {
        insta::assert_snapshot!("messages", every_kind(Dialect::Messages, Some("model")));
    }

    #[test]
    fn openai_bodies() {
        let chat = every_kind(Dialect::ChatCompletions, Some("model"));
        for same in [Dialect::Completions, Dialect::Responses, Dialect::Other] {
            assert_eq!(every_kind(same, Some("model")), chat);
        }
        insta::assert_snapshot!("openai", chat);
    }

    #[test]
    fn events() {
        let event = |dialect| {
            let bytes = error_event(dialect, ErrorKind::Api, "the engine\nbroke off", "req_1");
            let event = String::from_utf8(bytes).unwrap();
            assert!(
                event.ends_with("}\n\n"),
                "the blank line makes clients act on it"
            );
            event
        };
        assert_eq!(event(Dialect::ChatCompletions), event(Dialect::Completions));
        insta::assert_snapshot!("event-messages", event(Dialect::Messages));
        insta::assert_snapshot!("event-openai", event(Dialect::ChatCompletions));
        insta::assert_snapshot!("event-responses", event(Dialect::Responses));
    }
}
