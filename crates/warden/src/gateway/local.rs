//! Paths that the warden answers itself.

use std::sync::PoisonError;

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use vllm::ModelCard;

use super::{Gateway, body::Body, endpoint, error::GatewayError};
use crate::fleet::{Model, ModelState};

/// `GET /v1/models`: one object that both dialects read.
pub(super) fn models(gateway: &Gateway, query: Option<&str>) -> Response<Body> {
    let models = gateway.fleet.models.iter();
    let cards: Vec<ModelCard> = models
        .flat_map(|model| names(model).map(|name| card(gateway, model, name)))
        .collect();
    let limit = query.and_then(|query| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == "limit")?.1.parse().ok()
    });
    respond(StatusCode::OK, vllm::models_body(&cards, limit))
}

/// `GET /v1/models/{id}`: a name that a glob matches is found, too.
pub(super) fn model(gateway: &Gateway, path: &str) -> Result<Response<Body>, GatewayError> {
    let asked = endpoint::model_id(path);
    match gateway.model(&asked) {
        Some((model, _)) => Ok(respond(
            StatusCode::OK,
            vllm::model_body(&card(gateway, model, &asked)),
        )),
        None => Err(gateway.unknown_model(&asked)),
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
        return respond(StatusCode::OK, br#"{"ready":true}"#.to_vec());
    }
    let body = br#"{"ready":false}"#.to_vec();
    let mut response = respond(StatusCode::SERVICE_UNAVAILABLE, body);
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
    respond(StatusCode::OK, body.to_string().into_bytes())
}

/// Names that a client can ask for as they stand: globs are none.
fn names(model: &Model) -> impl Iterator<Item = &str> {
    let aliases = model.aliases.iter().map(String::as_str);
    let plain = aliases.filter(|alias| !vllm::is_glob(alias) && *alias != model.name);
    std::iter::once(model.name.as_str()).chain(plain)
}

fn card(gateway: &Gateway, model: &Model, id: &str) -> ModelCard {
    ModelCard {
        id: id.to_owned(),
        created_s: gateway.started_s,
        max_model_len: *model
            .max_model_len
            .read()
            .unwrap_or_else(PoisonError::into_inner),
    }
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
