//! Errors of the operators' API: one shape, one place.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};

use super::BODY_BYTES_MAX;
use crate::keys::Denied;

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
    /// Theirs: a body that takes too long.
    #[error("the body arrived too slowly")]
    BodyTimeout,
    /// No admin's key, or not from here.
    #[error(transparent)]
    Denied(Denied),
    /// Theirs: too many wrong keys.
    #[error("too many wrong keys from this address; try again in {retry_after_s} s")]
    TooOften {
        /// Seconds, at least 1.
        retry_after_s: u32,
    },
    /// The disk's: nothing to read from at present.
    #[error("{0}")]
    NoHistory(String),
    /// Theirs: asks for more than is looked at in one go.
    #[error("{0}")]
    TooSlow(String),
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
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "body_timeout"),
            Self::Denied(denied) if denied.status() == StatusCode::UNAUTHORIZED => {
                (StatusCode::UNAUTHORIZED, "unauthorized")
            }
            Self::Denied(denied) => (denied.status(), "forbidden"),
            Self::TooOften { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_attempts"),
            Self::NoHistory(_) => (StatusCode::SERVICE_UNAVAILABLE, "no_history"),
            Self::TooSlow(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_slow"),
            Self::NotSaved(_) => (StatusCode::INTERNAL_SERVER_ERROR, "not_saved"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.parts();
        let mut response = respond(status, code, &self.to_string());
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"lm-warden\"");
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Self::TooOften { retry_after_s } = self {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        response
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
