//! vLLM's HTTP surface: one module per dialect, and the small endpoints.
//!
//! A dialect reads a body into a [`request::Request`] and writes a reply by a
//! [`writer::Writer`]; what happens between is the same for all, and stands in [`generate`].

mod chat;
mod completions;
mod embeddings;
mod generate;
mod messages;
mod models;
mod openai;
mod operations;
mod request;
mod responses;
mod stream;
mod tokenize;
mod writer;

use std::sync::{Arc, atomic::AtomicBool};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use http::{Method, StatusCode, header};

use crate::{
    core::Core,
    error::{ApiError, Shape, json},
};

pub(crate) use generate::DropConnection;

type Shared = State<Arc<Core>>;

/// The connection that a request came by.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    /// The API server that it fell to.
    pub(crate) api_server: usize,
    /// Set to have it reset instead of closed.
    pub(crate) reset: Arc<AtomicBool>,
}

/// All routes.
pub(crate) fn router(core: &Arc<Core>) -> Router {
    let mut router = Router::new()
        .route("/v1/messages", post(messages::create))
        .route("/v1/messages/count_tokens", post(messages::count_tokens))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/embeddings", post(embeddings::create))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/v1/models", get(models::list))
        .route("/health", get(operations::health))
        .route("/ping", get(operations::health).post(operations::health))
        .route("/version", get(operations::version))
        .route("/load", get(operations::load))
        .route("/metrics", get(operations::metrics))
        .route(
            "/sim/fault",
            post(operations::inject_fault).delete(operations::clear_faults),
        );
    if core.config.dev_endpoints {
        let reset = post(operations::reset_prefix_cache);
        router = router.route("/reset_prefix_cache", reset);
    }
    router
        .fallback(async |State(core): Shared| http_error(&core, StatusCode::NOT_FOUND))
        .method_not_allowed_fallback(async |State(core): Shared| {
            http_error(&core, StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(middleware::from_fn_with_state(
            Arc::clone(core),
            authenticate,
        ))
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(core))
}

fn http_error(core: &Core, status: StatusCode) -> Response {
    ApiError::Http(status).answer(Shape::OpenAi, core.config.vllm_version)
}

/// vLLM's `--api-key`: a bearer token, and only on `/v1` paths (`/tokenize` stays open).
async fn authenticate(State(core): Shared, request: Request, next: Next) -> Response {
    if let Some(key) = &core.config.api_key
        && request.uri().path().starts_with("/v1")
        && request.method() != Method::OPTIONS
    {
        let given = request.headers().get(header::AUTHORIZATION);
        let token = given
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if token.is_none_or(|(_, token)| token != key) {
            return json(StatusCode::UNAUTHORIZED, r#"{"error":"Unauthorized"}"#);
        }
    }
    next.run(request).await
}
