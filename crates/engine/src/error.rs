//! vLLM's error answers: one place turns what went wrong into status and body.
//!
//! Before 0.32 the Messages API answers 500 for most mistakes of the client; the OpenAI APIs answer
//! 400. What FastAPI finds wrong (no JSON, a missing field) has the OpenAI shape on every path; an
//! unknown path or method has FastAPI's own.

mod python;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{StatusCode, header};
use serde::Serialize;

use crate::VllmVersion;

/// Whose shape an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Anthropic,
    OpenAi,
}

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The body is no JSON.
    #[error(
        "1 validation error:\n  {{'type': 'json_invalid', 'loc': ('body', {at}), 'msg': 'JSON decode error', 'input': {{}}, 'ctx': {{'error': 'Expecting value'}}}}"
    )]
    NotJson { at: usize },
    #[error("1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed")]
    NotJsonType,
    /// A field is missing or of a wrong type. vLLM echoes the input.
    #[error(
        "1 validation error:\n  {{'type': '{kind}', 'loc': ('body', '{field}'), 'msg': '{message}', 'input': {input}}}"
    )]
    Field {
        field: &'static str,
        kind: &'static str,
        message: &'static str,
        input: String,
    },
    #[error("The model `{0}` does not exist.")]
    UnknownModel(String),
    /// A client's mistake that vLLM finds while it handles the request.
    #[error("{message}")]
    Client {
        message: String,
        param: Option<&'static str>,
    },
    #[error("EngineCore encountered an issue. See stack trace (above) for the root cause.")]
    EngineDead,
    /// A fault on demand.
    #[error("Injected fault")]
    Injected(u16),
    #[error("{0}")]
    Http(StatusCode),
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    error: OpenAiInfo<'a>,
}

#[derive(Serialize)]
struct OpenAiInfo<'a> {
    message: String,
    r#type: &'a str,
    param: Option<String>,
    code: u16,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'static str,
    error: AnthropicInfo<'a>,
}

#[derive(Serialize)]
struct AnthropicInfo<'a> {
    r#type: &'a str,
    message: String,
}

impl ApiError {
    /// A missing field.
    pub(crate) fn missing(field: &'static str, body: &serde_json::Value) -> Self {
        Self::Field {
            field,
            kind: "missing",
            message: "Field required",
            input: python::repr(body),
        }
    }

    /// A field of a wrong type.
    pub(crate) fn wrong(
        field: &'static str,
        message: &'static str,
        value: &serde_json::Value,
    ) -> Self {
        Self::Field {
            field,
            kind: "value_error",
            message,
            input: python::repr(value),
        }
    }

    /// A client's mistake in `param`.
    pub(crate) fn client(message: String, param: Option<&'static str>) -> Self {
        Self::Client { message, param }
    }

    fn status(&self, shape: Shape, version: VllmVersion) -> StatusCode {
        match self {
            Self::NotJson { .. } | Self::NotJsonType | Self::Field { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::UnknownModel(_) => StatusCode::NOT_FOUND,
            Self::Client { .. }
                if shape == Shape::Anthropic && !version.messages_blame_the_client() =>
            {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::Client { .. } => StatusCode::BAD_REQUEST,
            Self::EngineDead => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Injected(status) => {
                StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::Http(status) => *status,
        }
    }

    fn param(&self) -> Option<String> {
        match self {
            Self::NotJson { at } => Some(format!("body.{at}")),
            Self::Field { field, .. } => Some(format!("body.{field}")),
            Self::UnknownModel(_) => Some("model".to_owned()),
            Self::Client { param, .. } => param.map(str::to_owned),
            _ => None,
        }
    }

    fn is_of_fastapi(&self) -> bool {
        matches!(
            self,
            Self::NotJson { .. } | Self::NotJsonType | Self::Field { .. }
        )
    }

    fn kind(&self, shape: Shape, status: StatusCode) -> &'static str {
        match self {
            Self::UnknownModel(_) => "NotFoundError",
            _ if self.is_of_fastapi() => status.canonical_reason().unwrap_or("Error"),
            _ if status.is_server_error() && shape == Shape::Anthropic => "internal_error",
            _ if status.is_server_error() => "InternalServerError",
            _ => "BadRequestError",
        }
    }

    /// The body, and the status that goes with it.
    pub(crate) fn body(&self, shape: Shape, version: VllmVersion) -> (StatusCode, Vec<u8>) {
        let status = self.status(shape, version);
        let kind = self.kind(shape, status);
        let message = self.to_string();
        let body = if let Self::Http(status) = self {
            let detail = status.canonical_reason().unwrap_or("Error");
            serde_json::to_vec(&serde_json::json!({"detail": detail}))
        } else if shape == Shape::Anthropic && !self.is_of_fastapi() {
            serde_json::to_vec(&AnthropicError {
                r#type: "error",
                error: AnthropicInfo {
                    r#type: kind,
                    message,
                },
            })
        } else {
            serde_json::to_vec(&OpenAiError {
                error: OpenAiInfo {
                    message,
                    r#type: kind,
                    param: self.param(),
                    code: status.as_u16(),
                },
            })
        };
        (status, body.expect("plain strings and numbers serialise"))
    }

    /// What a Messages stream says of an error. Before 0.32 vLLM runs the chat API's error through
    /// the model of a chunk, and tells of that.
    pub(crate) fn messages_event(&self, version: VllmVersion) -> Vec<u8> {
        let message = if version.messages_blame_the_client() {
            self.to_string()
        } else {
            "2 validation errors for ChatCompletionStreamResponse\nmodel\n  Field required \
             [type=missing, input_value={'error': {'message': 'da...am': None, 'code': 400}}, \
             input_type=dict]\n    For further information visit \
             https://errors.pydantic.dev/2.14/v/missing\nchoices\n  Field required \
             [type=missing, input_value={'error': {'message': 'da...am': None, 'code': 400}}, \
             input_type=dict]\n    For further information visit \
             https://errors.pydantic.dev/2.14/v/missing"
                .to_owned()
        };
        let error = AnthropicError {
            r#type: "error",
            error: AnthropicInfo {
                r#type: "internal_error",
                message,
            },
        };
        serde_json::to_vec(&error).expect("strings serialise")
    }

    /// The answer.
    pub(crate) fn answer(&self, shape: Shape, version: VllmVersion) -> Response {
        let (status, body) = self.body(shape, version);
        json(status, body)
    }
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (status, headers, body.into()).into_response()
}

/// A JSON answer of anything that serialises.
pub(crate) fn json_of(value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("replies hold only strings and numbers");
    json(StatusCode::OK, body)
}
