//! `GET /requests`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{Operators, error::ApiError, extract::InQuery};
use crate::telemetry::Filter;

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    limit: Option<usize>,
    session: Option<String>,
    model: Option<String>,
}

pub(super) async fn list(
    State(operators): State<Arc<Operators>>,
    InQuery(parameters): InQuery<Parameters>,
) -> Result<Json<api::Requests>, ApiError> {
    let filter = Filter {
        model: parameters.model,
        session: parameters.session,
        limit: limit(parameters.limit)?,
    };
    if let Some(model) = &filter.model {
        operators.model(model)?;
    }
    Ok(Json(api::Requests {
        requests: operators.telemetry.requests(&filter),
    }))
}

/// How many entries a list has at most.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, ApiError> {
    let limit = asked.unwrap_or(LIMIT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::Invalid(format!(
        "limit = {limit}: must be 1 to {LIMIT_MAX}"
    )))
}
