//! What an operator changes about routing: settings, and draining a replica. In force from the next
//! request on; settings also survive a restart.

use std::sync::Arc;

use axum::{Json, extract::State};
use routing::{Event, ReplicaIndex};

use super::{
    Operators,
    error::ApiError,
    extract::{InBody, InPath, object},
    panel,
};
use crate::{
    clock,
    config::{THRESHOLD, TURNS},
    fleet::{Model, lease_mode, lease_turns, threshold},
};

pub(super) async fn change(
    State(operators): State<Arc<Operators>>,
    InPath(name): InPath<String>,
    InBody(body): InBody,
) -> Result<Json<api::Routing>, ApiError> {
    let model = operators.model(&name)?;
    let patch = parse(&body)?;
    let (overrides, changed) = (Arc::clone(&operators.overrides), Arc::clone(model));
    let saved = tokio::task::spawn_blocking(move || overrides.change(&changed, patch)).await;
    operators.telemetry.changes().model(&model.name);
    operators.mark(&model.name, said(patch));
    tracing::info!(model = %model.name, ?patch, "routing changed by an operator");
    match saved {
        Ok(Ok(())) => Ok(Json(panel::routing(
            model,
            &operators.telemetry,
            clock::now(),
        ))),
        Ok(Err(error)) => Err(ApiError::NotSaved(error.to_string())),
        Err(error) => Err(ApiError::NotSaved(error.to_string())),
    }
}

fn parse(body: &[u8]) -> Result<api::PatchRouting, ApiError> {
    let holds = "any of \"affinity\" (true or false), \"spill_threshold\" (\"auto\" or a number), \
                 \"leases\" (\"auto\" or \"off\") and \"lease_turns\" (\"auto\" or a number)";
    let patch: api::PatchRouting = object(body, holds)?;
    if let Some(api::SetThreshold::Requests(requests)) = patch.spill_threshold
        && !THRESHOLD.contains(&i64::from(requests))
    {
        return Err(ApiError::Invalid(format!(
            "spill_threshold = {requests}: must be \"auto\" or {} to {}",
            THRESHOLD.start(),
            THRESHOLD.end()
        )));
    }
    if let Some(api::SetTurns::Turns(turns)) = patch.lease_turns
        && !TURNS.contains(&i64::from(turns))
    {
        return Err(ApiError::Invalid(format!(
            "lease_turns = {turns}: must be \"auto\" or {} to {}",
            TURNS.start(),
            TURNS.end()
        )));
    }
    Ok(patch)
}

/// A change in words.
fn said(patch: api::PatchRouting) -> String {
    let affinity = patch.affinity.map(|on| {
        let word = if on { "on" } else { "off" };
        format!("affinity {word}")
    });
    let threshold = patch.spill_threshold.map(|set| match set {
        api::SetThreshold::Requests(requests) => format!("spill threshold {requests}"),
        api::SetThreshold::Word(api::AutoWord::Auto) => "spill threshold auto".to_owned(),
    });
    let parts: Vec<String> = affinity.into_iter().chain(threshold).collect();
    parts.join(", ")
}

/// Puts a change in force.
pub(super) fn apply(model: &Model, patch: api::PatchRouting) {
    let mut router = model.router.lock();
    let mut settings = router.settings().clone();
    if let Some(affinity) = patch.affinity {
        settings.affinity = affinity;
    }
    if let Some(set) = patch.spill_threshold {
        settings.spill_threshold = threshold(set);
    }
    if let Some(mode) = patch.leases {
        settings.leases.mode = lease_mode(mode);
    }
    if let Some(turns) = patch.lease_turns {
        settings.leases.turns = lease_turns(turns);
    }
    router.configure(settings);
}

pub(super) async fn drain(
    state: State<Arc<Operators>>,
    path: InPath<(String, u16)>,
) -> Result<Json<api::Routing>, ApiError> {
    tell(&state.0, path.0, (Event::Drain, "drained"))
}

pub(super) async fn undrain(
    state: State<Arc<Operators>>,
    path: InPath<(String, u16)>,
) -> Result<Json<api::Routing>, ApiError> {
    tell(&state.0, path.0, (Event::Undrain, "takes requests again"))
}

fn tell(
    operators: &Operators,
    (name, replica): (String, u16),
    (event, word): (fn(ReplicaIndex) -> Event, &str),
) -> Result<Json<api::Routing>, ApiError> {
    let model = operators.model(&name)?;
    let replicas = model.replica_ids.len();
    if usize::from(replica) >= replicas {
        return Err(ApiError::NotFound(format!(
            "\"{name}\" has no replica {replica}: its replicas are 0 to {}",
            replicas.saturating_sub(1)
        )));
    }
    let event = event(ReplicaIndex(replica));
    model.router.lock().observe(clock::now(), event);
    tracing::info!(model = %name, ?event, "by an operator");
    operators.mark(&name, format!("replica {replica} {word}"));
    operators.telemetry.changes().model(&name);
    Ok(Json(panel::routing(
        model,
        &operators.telemetry,
        clock::now(),
    )))
}
