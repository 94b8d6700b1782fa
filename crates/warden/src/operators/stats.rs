//! `GET /stats`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{Operators, error::ApiError, extract::InQuery};
use crate::{
    clock,
    history::{POINTS_MAX, StatsQuery},
};

const HOUR_S: u64 = 3600;
/// Steps are made of roll-ups of 10 s or more.
const STEP_S_MIN: u64 = 10;
const RANGE_S_MAX: u64 = 3650 * 24 * HOUR_S;

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
    let range_s = seconds("range", parameters.range.as_deref())?.unwrap_or(HOUR_S);
    let step_s = seconds("step", parameters.step.as_deref())?;
    if let Some(model) = &parameters.model {
        operators.model(model)?;
    }
    let query = StatsQuery {
        now: clock::now(),
        range_s,
        step_s: step_s.unwrap_or_else(|| usual_step_s(range_s)),
        model: parameters.model,
    };
    check(&query)?;
    Ok(Json(operators.history.stats(query).await?))
}

/// The shortest step that gives at most 170 bars.
fn usual_step_s(range_s: u64) -> u64 {
    let steps_s = [10, 60, 300, 900, HOUR_S, 6 * HOUR_S, 24 * HOUR_S];
    let fits = |step_s: &u64| range_s.is_multiple_of(*step_s) && range_s / step_s <= 170;
    let shortest = steps_s.into_iter().find(fits);
    shortest.unwrap_or(24 * HOUR_S)
}

fn check(query: &StatsQuery) -> Result<(), ApiError> {
    let StatsQuery {
        range_s, step_s, ..
    } = *query;
    if step_s < STEP_S_MIN || !step_s.is_multiple_of(STEP_S_MIN) {
        return Err(ApiError::Invalid(format!(
            "step = {step_s} s: must be a multiple of {STEP_S_MIN} s"
        )));
    }
    if range_s < step_s || !range_s.is_multiple_of(step_s) || range_s > RANGE_S_MAX {
        return Err(ApiError::Invalid(format!(
            "range = {range_s} s: must be a multiple of step ({step_s} s), and at most 10 years"
        )));
    }
    if range_s / step_s > POINTS_MAX {
        return Err(ApiError::Invalid(format!(
            "range = {range_s} s: has more than {POINTS_MAX} steps of {step_s} s; choose a longer \
             step"
        )));
    }
    match query.reach_s() {
        Some(reach_s) if range_s > reach_s => Err(ApiError::Invalid(format!(
            "step = {step_s} s: figures this fine are kept for {reach_s} s only; choose a step that \
             is a multiple of {} s",
            if step_s.is_multiple_of(60) {
                HOUR_S
            } else {
                60
            }
        ))),
        _ => Ok(()),
    }
}

/// A duration as people write it: `90s`, `15m`, `1h`, `7d`, or seconds.
fn seconds(name: &str, text: Option<&str>) -> Result<Option<u64>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let (number, unit_s) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], HOUR_S),
        Some((at, 'd')) => (&text[..at], 24 * HOUR_S),
        _ => (text, 1),
    };
    let number = number.parse::<u64>().ok();
    match number.and_then(|number| number.checked_mul(unit_s)) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(ApiError::Invalid(format!(
            "{name} = \"{text}\": must be like 90s, 15m, 1h or 7d"
        ))),
    }
}
