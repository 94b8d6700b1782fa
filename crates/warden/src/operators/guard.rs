//! The operators' door: an admin's key, or none where none is required (`keys::access` has the
//! rules).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::error::ApiError;
use crate::keys::{self, Access};

/// What leads to a key, and so cannot ask for one.
const OPEN_SESSION: &str = "/api/v1/session";
const OPEN_LOGIN: &str = "/api/v1/login";
const OPEN_LOGOUT: &str = "/api/v1/logout";

pub(super) async fn check(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let host = keys::host(request.headers(), request.uri());
    let headers = request.headers();
    let passed = match request.uri().path() {
        OPEN_SESSION | OPEN_LOGIN | OPEN_LOGOUT => access.page(headers, host),
        path if path.starts_with("/api/") || path == "/metrics" => {
            access.admin(request.method(), headers, host).map(drop)
        }
        _ => access.page(headers, host),
    };
    match passed {
        Ok(()) => next.run(request).await,
        Err(denied) => ApiError::Denied(denied).into_response(),
    }
}
