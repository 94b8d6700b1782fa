//! The operators' side: API (`/api/v1`), metrics and pages, for everything that is no client's
//! path. It reads the routers' snapshots and telemetry's figures and puts them into the API's
//! types; it keeps no figure of its own.

mod conversations;
mod engines;
mod error;
mod events;
mod extract;
mod gpus;
mod guard;
mod history;
mod keys;
mod lease_metrics;
mod leases;
mod metrics;
mod models;
mod overrides;
mod pages;
mod panel;
mod requests;
mod routing;
mod session;
mod stats;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    routing::{get, patch, post},
};

pub use self::overrides::{Overrides, OverridesError};
use crate::{
    fleet::Fleet, gpus::Gpus, history::History, keys::Access, reload::Reloader,
    supervisor::Supervisor, telemetry::Telemetry,
};
use ::routing::Seed;

/// Largest body of an operator's request.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What the handlers work on.
#[derive(Debug)]
pub struct Operators {
    /// The served models.
    pub fleet: Arc<Fleet>,
    /// What became of requests.
    pub telemetry: Arc<Telemetry>,
    /// What became of them earlier, on disk.
    pub history: Arc<History>,
    /// Operators' changes to routing, kept over restarts.
    pub overrides: Arc<Overrides>,
    /// Engines that were started here.
    pub supervisor: Arc<Supervisor>,
    /// Reads the configuration again.
    pub reloader: Arc<Reloader>,
    /// Who may come in here.
    pub access: Arc<Access>,
    /// The machine's cards.
    pub gpus: Arc<Gpus>,
    /// What clients' ids are hashed with.
    pub seed: Seed,
}

/// The service that answers operators.
pub fn service(operators: Operators) -> Router {
    let api = Router::new()
        .route("/models", get(models::list))
        .route("/models/{name}", get(models::one))
        .route("/models/{name}/routing", patch(routing::change))
        .route("/models/{name}/start", post(engines::start))
        .route("/models/{name}/stop", post(engines::stop))
        .route("/models/{name}/restart", post(engines::restart))
        .route("/models/{name}/drain", post(engines::drain))
        .route("/models/{name}/logs", get(engines::logs))
        .route("/reload", post(engines::reload))
        .route("/gpus", get(gpus::get))
        .route(
            "/models/{name}/replicas/{replica}/drain",
            post(routing::drain),
        )
        .route(
            "/models/{name}/replicas/{replica}/undrain",
            post(routing::undrain),
        )
        .route("/stats", get(stats::get))
        .route("/history", get(history::get))
        .route("/requests", get(requests::list))
        .route("/conversations", get(conversations::list))
        .route(
            "/conversations/{id}",
            get(conversations::one).delete(conversations::forget),
        )
        .route("/conversations/{id}/move", post(conversations::r#move))
        .route("/events", get(events::stream))
        .route("/keys", get(keys::list))
        .route("/session", get(session::get))
        .route("/login", post(session::login))
        .route("/logout", post(session::logout))
        .route("/openapi.json", get(pages::openapi));
    let access = Arc::clone(&operators.access);
    Router::new()
        .nest("/api/v1", api)
        .route("/metrics", get(metrics::get))
        .method_not_allowed_fallback(error::method_not_allowed)
        .fallback(pages::get)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(access, guard::check))
        .with_state(Arc::new(operators))
}
