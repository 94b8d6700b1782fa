//! Health, version, load, metrics, the developers' endpoint, and faults on demand.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use serde_json::json;

use super::Shared;
use crate::{Fault, error::json_of};

/// `GET /health`, `/ping`: 200 and no body. A wedged rank does not show here, as in vLLM.
pub(crate) async fn health() -> StatusCode {
    StatusCode::OK
}

/// `GET /version`.
pub(crate) async fn version(State(core): Shared) -> Response {
    json_of(&json!({"version": core.config.vllm_version.to_string()}))
}

/// `GET /load`: requests in flight, as with `--enable-server-load-tracking`.
pub(crate) async fn load(State(core): Shared) -> Response {
    json_of(&json!({"server_load": core.balancer.in_flight()}))
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(core): Shared) -> Response {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    let headers = [(header::CONTENT_TYPE, content_type)];
    (headers, core.metrics_page()).into_response()
}

/// `POST /reset_prefix_cache`.
pub(crate) async fn reset_prefix_cache(State(core): Shared) -> Response {
    core.reset_prefix_cache();
    json_of(&json!({"success": true}))
}

/// `POST /sim/fault`: the body is a fault as `--fault` takes it.
pub(crate) async fn inject_fault(State(core): Shared, spec: String) -> Response {
    let injected = spec.parse::<Fault>().and_then(|fault| core.inject(fault));
    match injected {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// `DELETE /sim/fault`: ends what is pending and frees wedged ranks.
pub(crate) async fn clear_faults(State(core): Shared) -> StatusCode {
    core.clear_faults();
    StatusCode::NO_CONTENT
}
