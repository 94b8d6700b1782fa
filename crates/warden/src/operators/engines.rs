//! Commands to a model's engine, its log, and reading the configuration again.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{
    Operators,
    error::ApiError,
    extract::{InPath, InQuery},
    panel,
};
use crate::{
    clock,
    fleet::Model,
    supervisor::{ControlError, Supervisor},
};

/// Lines of a log in one answer, at most and by default.
const LINES_MAX: usize = 2000;
const LINES: usize = 200;

type Answer = Result<Json<api::Model>, ApiError>;

pub(super) async fn start(state: State<Arc<Operators>>, name: InPath<String>) -> Answer {
    command(&state.0, &name.0, "start", Supervisor::start_model)
}

pub(super) async fn stop(state: State<Arc<Operators>>, name: InPath<String>) -> Answer {
    command(&state.0, &name.0, "stop", Supervisor::stop_model)
}

pub(super) async fn restart(state: State<Arc<Operators>>, name: InPath<String>) -> Answer {
    command(&state.0, &name.0, "restart", Supervisor::restart_model)
}

pub(super) async fn drain(state: State<Arc<Operators>>, name: InPath<String>) -> Answer {
    command(&state.0, &name.0, "drain", |supervisor, model| {
        supervisor.drain_model(model);
        Ok(())
    })
}

fn command(
    operators: &Operators,
    name: &str,
    what: &'static str,
    carry_out: impl Fn(&Supervisor, &Model) -> Result<(), ControlError>,
) -> Answer {
    let model = operators.model(name)?;
    carry_out(&operators.supervisor, model).map_err(|error| match error {
        ControlError::RunsElsewhere { .. } => ApiError::Invalid(error.to_string()),
        ControlError::Rolling { .. } => ApiError::Conflict(error.to_string()),
    })?;
    tracing::info!(model = %name, what, "by an operator");
    Ok(Json(panel::model(
        model,
        &operators.telemetry,
        clock::now(),
    )))
}

/// Which lines of a log.
#[derive(Debug, Deserialize)]
pub(super) struct Lines {
    after: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn logs(
    State(operators): State<Arc<Operators>>,
    InPath(name): InPath<String>,
    InQuery(query): InQuery<Lines>,
) -> Result<Json<api::Logs>, ApiError> {
    let model = operators.model(&name)?;
    let limit = query.limit.unwrap_or(LINES);
    if !(1..=LINES_MAX).contains(&limit) {
        return Err(ApiError::Invalid(format!(
            "limit = {limit}: must be 1 to {LINES_MAX}"
        )));
    }
    let lines = model.logs.after(query.after.unwrap_or(0), limit);
    let lines = lines.into_iter().map(|line| api::LogLine {
        number: line.number,
        server: line.server,
        text: line.text,
    });
    Ok(Json(api::Logs {
        lines: lines.collect(),
    }))
}

pub(super) async fn reload(
    State(operators): State<Arc<Operators>>,
) -> Result<Json<api::Reloaded>, ApiError> {
    let reload = move || operators.reloader.reload();
    match tokio::task::spawn_blocking(reload).await {
        Ok(Ok(changed)) => Ok(Json(api::Reloaded {
            routing: changed.routing,
            restarted: changed.restarted,
        })),
        Ok(Err(error)) => Err(ApiError::Invalid(error.to_string())),
        Err(error) => Err(ApiError::NotSaved(error.to_string())),
    }
}
