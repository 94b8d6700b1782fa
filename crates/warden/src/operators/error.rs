//! Errors of the operators' API: one shape, one place.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::BODY_BYTES_MAX;

/// Why an operator's request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiError {
    /// Theirs: a parameter or a body.
    #[error("{0}")]
    Invalid(String),
    /// Theirs: no such thing.
    #[error("{0}")]
    NotFound(String),
    /// Theirs: not at this moment.
    #[error("{0}")]
    Conflict(String),
    /// Theirs: a body of no use at that size.
    #[error("the body is larger than {BODY_BYTES_MAX} bytes, the most that is taken here")]
    TooLarge,
    /// Another site's page, or a name that is not this machine's.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Ours: in force, but not on disk.
    #[error(
        "the change is in force, but could not be saved, so a restart will lose it: {0}; make room \
         in the data directory and send it again"
    )]
    NotSaved(String),
}

impl ApiError {
    pub(super) fn no_model(name: &str) -> Self {
        Self::NotFound(format!(
            "no model is configured as \"{name}\"; GET /api/v1/models lists them"
        ))
    }

    fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotSaved(_) => (StatusCode::INTERNAL_SERVER_ERROR, "not_saved"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.parts();
        respond(status, code, &self.to_string())
    }
}

pub(super) async fn method_not_allowed() -> Response {
    respond(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not take this method; /api/v1/openapi.json says which it takes",
    )
}

fn respond(status: StatusCode, code: &str, message: &str) -> Response {
    let error = api::ErrorDetail {
        code: code.to_owned(),
        message: message.to_owned(),
    };
    (status, Json(api::Error { error })).into_response()
}
