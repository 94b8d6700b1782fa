//! Paths that the warden answers itself.

use std::sync::PoisonError;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::{Gateway, body::Body, endpoint, error::GatewayError};
use crate::fleet::{Model, ModelState};

/// `GET /v1/models`: one object that both dialects read.
pub(super) fn models(gateway: &Gateway) -> Response<Body> {
    let data: Vec<Value> = gateway
        .fleet
        .models
        .iter()
        .flat_map(|model| names(model).map(|name| entry(model, name)))
        .collect();
    let id = |entry: Option<&Value>| entry.map_or(Value::Null, |entry| entry["id"].clone());
    let body = json!({
        "object": "list",
        "has_more": false,
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "data": data,
    });
    respond(StatusCode::OK, &body)
}

/// `GET /v1/models/{id}`: a name that globs may match, too.
pub(super) fn model(gateway: &Gateway, path: &str) -> Result<Response<Body>, GatewayError> {
    let asked = endpoint::model_id(path);
    match gateway.model(&asked) {
        Some((model, _)) => Ok(respond(StatusCode::OK, &entry(model, &asked))),
        None => Err(GatewayError::UnknownModel {
            known: gateway.names_listed(),
            asked,
        }),
    }
}

/// `GET /health`: this process serves.
pub(super) fn health() -> Response<Body> {
    Response::new(Body::empty())
}

/// `GET /ready`: a model serves.
pub(super) fn ready(gateway: &Gateway) -> Response<Body> {
    let serving = gateway.fleet.models.iter().any(|model| {
        let state = model.state.read().unwrap_or_else(PoisonError::into_inner);
        matches!(&*state, ModelState::Ready | ModelState::Degraded(_))
    });
    if serving {
        return respond(StatusCode::OK, &json!({"ready": true}));
    }
    let mut response = respond(StatusCode::SERVICE_UNAVAILABLE, &json!({"ready": false}));
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("3"));
    response
}

/// `GET /version`: the warden's, and the engines' as far as they are known.
pub(super) fn version(gateway: &Gateway) -> Response<Body> {
    let engines: serde_json::Map<String, Value> = gateway
        .fleet
        .models
        .iter()
        .map(|model| {
            let version = model
                .engine_version
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            (model.name.clone(), json!(*version))
        })
        .collect();
    let body = json!({"version": env!("CARGO_PKG_VERSION"), "engines": engines});
    respond(StatusCode::OK, &body)
}

/// Names that a client can ask for as they stand: globs are none.
pub(super) fn names(model: &Model) -> impl Iterator<Item = &str> {
    let aliases = model.aliases.iter().map(String::as_str);
    let plain = aliases.filter(|alias| !alias.ends_with('*') && *alias != model.name);
    std::iter::once(model.name.as_str()).chain(plain)
}

/// Both dialects' fields: `object`, `created`, `owned_by` for the one, `type`, `display_name`,
/// `created_at` for the other.
fn entry(model: &Model, id: &str) -> Value {
    let max_model_len = *model
        .max_model_len
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    json!({
        "id": id,
        "object": "model",
        "created": 0,
        "owned_by": "lm-warden",
        "type": "model",
        "display_name": model.name,
        "created_at": "1970-01-01T00:00:00Z",
        "max_model_len": max_model_len,
    })
}

fn respond(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
