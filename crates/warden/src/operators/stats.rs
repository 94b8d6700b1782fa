//! `GET /stats`.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{Operators, error::ApiError, extract::InQuery};
use crate::{
    clock,
    telemetry::{BUCKET, HISTORY},
};

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    range: Option<String>,
    step: Option<String>,
    model: Option<String>,
}

pub(super) async fn get(
    State(operators): State<Arc<Operators>>,
    InQuery(parameters): InQuery<Parameters>,
) -> Result<Json<api::Stats>, ApiError> {
    let step = duration("step", parameters.step.as_deref(), MINUTE)?;
    let range = duration("range", parameters.range.as_deref(), HISTORY)?;
    let multiple = |of: Duration, what: Duration| what.as_secs().is_multiple_of(of.as_secs());
    if step < BUCKET || !multiple(BUCKET, step) {
        return Err(ApiError::Invalid(format!(
            "step = {} s: must be a multiple of {} s",
            step.as_secs(),
            BUCKET.as_secs()
        )));
    }
    if range < step || range > HISTORY || !multiple(step, range) {
        return Err(ApiError::Invalid(format!(
            "range = {} s: must be a multiple of step ({} s) and at most {} s, which is as long as \
             figures are kept",
            range.as_secs(),
            step.as_secs(),
            HISTORY.as_secs()
        )));
    }
    let model = parameters.model.as_deref();
    if let Some(model) = model {
        operators.model(model)?;
    }
    Ok(Json(operators.telemetry.stats(
        clock::now(),
        range,
        step,
        model,
    )))
}

/// A duration as people write it: `90s`, `15m`, `1h`, or seconds.
fn duration(name: &str, text: Option<&str>, default: Duration) -> Result<Duration, ApiError> {
    let Some(text) = text else {
        return Ok(default);
    };
    let (number, unit_s) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_s))
        .map(Duration::from_secs)
        .ok_or_else(|| {
            ApiError::Invalid(format!("{name} = \"{text}\": must be like 90s, 15m or 1h"))
        })
}
