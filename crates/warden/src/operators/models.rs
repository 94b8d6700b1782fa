//! `GET /models` and `GET /models/{name}`.

use std::sync::Arc;

use axum::{Json, extract::State};

use super::{Operators, error::ApiError, extract::InPath, panel};
use crate::{clock, fleet::Model};

pub(super) async fn list(State(operators): State<Arc<Operators>>) -> Json<api::Models> {
    let now = clock::now();
    let models = operators.fleet.models.iter();
    let started = operators.telemetry.started();
    Json(api::Models {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: clock::epoch_s(started),
        uptime_s: now.since(started).as_secs_f64(),
        models: models
            .map(|model| panel::model(model, &operators.telemetry, now))
            .collect(),
    })
}

pub(super) async fn one(
    State(operators): State<Arc<Operators>>,
    InPath(name): InPath<String>,
) -> Result<Json<api::Model>, ApiError> {
    let model = operators.model(&name)?;
    Ok(Json(panel::model(
        model,
        &operators.telemetry,
        clock::now(),
    )))
}

impl Operators {
    /// The model that is configured under this name.
    pub(super) fn model(&self, name: &str) -> Result<&Arc<Model>, ApiError> {
        self.fleet.get(name).ok_or_else(|| ApiError::no_model(name))
    }

    /// Notes on the time axis what an operator changed, unless that is nothing.
    pub(super) fn mark(&self, model: &str, text: String) {
        if !text.is_empty() {
            let kind = api::MarkKind::SettingChanged;
            self.telemetry.mark(kind, Some(model), text);
        }
    }
}
