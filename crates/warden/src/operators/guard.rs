//! The operators' door: an admin's key, or none where none is required (`keys::access` has the
//! rules).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};

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
    let mut response = match passed {
        Ok(()) => next.run(request).await,
        Err(denied) => ApiError::Denied(denied).into_response(),
    };
    protect(response.headers_mut());
    response
}

/// What browsers shall not do with anything from here. No HSTS: it would hold for every other port
/// of this host too, vLLM's among them.
fn protect(headers: &mut HeaderMap) {
    let mut put = |name, value| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::X_FRAME_OPTIONS, "DENY");
    put(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    put(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    // Figures and errors are of the moment; the pages' files say themselves what may be kept.
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}
