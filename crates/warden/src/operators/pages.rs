//! The pages and the `OpenAPI` document, as files: revalidated by `ETag`, compressed where the
//! browser takes it, and with a policy that lets them speak to this server only.

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use vllm::{Dialect, ErrorKind};

use super::error::{self, ApiError};

/// Everything from here only, and nothing inline: the charts set their styles by script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'";

/// Most that an error repeats of a path.
pub(super) const ASKED_CHARS_MAX: usize = 128;

pub(super) async fn openapi() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], api::openapi_json()).into_response()
}

pub(super) async fn get(request: Request) -> Response {
    let path = request.uri().path();
    let Some(asset) = assets::get(path) else {
        let asked: String = path.chars().take(ASKED_CHARS_MAX).collect();
        let message =
            format!("there is nothing at {asked}; the pages begin at /, the API at /api/v1/models");
        return if path.starts_with("/api/") {
            ApiError::NotFound(message).into_response()
        } else {
            nothing(&message)
        };
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return error::method_not_allowed().await;
    }
    let mut response = if has(request.headers(), &header::IF_NONE_MATCH, asset.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if let Some(gzip) = asset
        .gzip
        .filter(|_| has(request.headers(), &header::ACCEPT_ENCODING, "gzip"))
    {
        let encoding = HeaderValue::from_static("gzip");
        ([(header::CONTENT_ENCODING, encoding)], gzip).into_response()
    } else {
        asset.body.into_response()
    };
    let headers = response.headers_mut();
    let mut put = |name, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    put(header::CONTENT_TYPE, asset.content_type);
    put(header::CACHE_CONTROL, asset.cache_control());
    put(header::ETAG, asset.etag);
    put(header::VARY, "accept-encoding");
    put(header::CONTENT_SECURITY_POLICY, POLICY);
    put(header::REFERRER_POLICY, "no-referrer");
    response
}

/// Neither a page nor this API's: perhaps a client that has its base URL wrong, so in the shape that
/// most of them read.
fn nothing(message: &str) -> Response {
    let body = vllm::error_body(Dialect::Other, ErrorKind::NotFound, message, None, "");
    let json = HeaderValue::from_static("application/json");
    let retry = (
        HeaderName::from_static("x-should-retry"),
        HeaderValue::from_static("false"),
    );
    (
        StatusCode::NOT_FOUND,
        [(header::CONTENT_TYPE, json), retry],
        body,
    )
        .into_response()
}

/// Whether a list header holds the item, whatever its weight.
fn has(headers: &HeaderMap, name: &header::HeaderName, item: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| value.to_str().ok()).any(|list| {
        list.split(',')
            .map(|entry| entry.split(';').next().unwrap_or_default().trim())
            .any(|entry| entry.trim_start_matches("W/") == item)
    })
}
