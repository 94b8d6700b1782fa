//! `GET /requests`.

use std::sync::Arc;

use axum::{Json, extract::State};
use routing::{Candidates, Identity, OwnerId, Time};
use serde::Deserialize;

use super::{Operators, error::ApiError, extract::InQuery};
use crate::{
    history::{Cursor, RequestsQuery, Sort, WINDOW},
    telemetry,
};

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;
const WORDS_BYTES_MAX: usize = 200;

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    limit: Option<usize>,
    before: Option<String>,
    offset: Option<u64>,
    sort: Option<String>,
    session: Option<String>,
    model: Option<String>,
    route: Option<api::Route>,
    end: Option<api::RequestEnd>,
    in_flight: Option<bool>,
    replica: Option<u16>,
    ended_from: Option<f64>,
    ended_to: Option<f64>,
    q: Option<String>,
}

pub(super) async fn list(
    State(operators): State<Arc<Operators>>,
    InQuery(parameters): InQuery<Parameters>,
) -> Result<Json<api::Requests>, ApiError> {
    if let Some(model) = &parameters.model {
        operators.model(model)?;
    }
    let query = query(&operators, parameters)?;
    let committed = || {
        let committed = operators.history.committed_up_to();
        operators.telemetry.unwritten(committed)
    };
    let page = operators.history.requests(query, committed).await?;
    Ok(Json(page))
}

fn query(operators: &Operators, parameters: Parameters) -> Result<RequestsQuery, ApiError> {
    let limit = limit(parameters.limit)?;
    let offset = offset(parameters.offset)?;
    let before = |text: String| {
        Cursor::parse(&text).ok_or_else(|| {
            ApiError::Invalid(format!(
                "before = \"{text}\": must be the \"next\" of a page"
            ))
        })
    };
    let sort = |text: String| {
        Sort::parse(&text).ok_or_else(|| {
            ApiError::Invalid(format!(
                "sort = \"{text}\": must be one of {}, with - before it for the largest first",
                Sort::names().join(", ")
            ))
        })
    };
    let (mut session, mut sessions) = (None, None);
    match parameters.session {
        Some(id) if is_shown_id(&id) => session = Some(id),
        Some(id) => sessions = Some(of_client(operators, parameters.model.as_deref(), &id)),
        None => {}
    }
    Ok(RequestsQuery {
        model: parameters.model,
        session,
        sessions,
        route: parameters.route,
        end: parameters.end,
        in_flight: parameters.in_flight.unwrap_or(false),
        replica: parameters.replica,
        ended_from: time("ended_from", parameters.ended_from)?,
        ended_to: time("ended_to", parameters.ended_to)?,
        words: parameters.q.as_deref().map(words).transpose()?,
        before: parameters.before.map(before).transpose()?,
        sort: parameters.sort.map(sort).transpose()?.unwrap_or_default(),
        offset,
        limit: limit as u64,
    })
}

/// An id as it is shown, or its beginning.
fn is_shown_id(id: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (1..=16).contains(&id.len()) && id.bytes().all(hex)
}

/// The shown ids of the sessions that a client calls so: the id is kept hashed, with its owner's and
/// the model's name, so it is hashed for each that there is.
fn of_client(operators: &Operators, model: Option<&str>, id: &str) -> Vec<String> {
    let mut owners = vec![OwnerId::default()];
    let holders = operators.access.ring().holders();
    owners.extend(holders.iter().map(|holder| holder.key.id.owner()));
    let candidates = Candidates {
        x_session_id: Some(id.as_bytes()),
        ..Candidates::default()
    };
    let names = operators
        .fleet
        .models
        .iter()
        .map(|model| model.name.as_str());
    names
        .filter(|name| model.is_none_or(|model| model == *name))
        .flat_map(|name| {
            owners
                .iter()
                .filter_map(move |owner| Identity::of(&operators.seed, *owner, name, &candidates))
        })
        .map(|identity| telemetry::words::hash(identity.session))
        .collect()
}

pub(super) fn words(text: &str) -> Result<String, ApiError> {
    if text.len() > WORDS_BYTES_MAX {
        return Err(ApiError::Invalid(format!(
            "q: must be at most {WORDS_BYTES_MAX} bytes"
        )));
    }
    Ok(text.to_lowercase())
}

fn time(name: &str, epoch_s: Option<f64>) -> Result<Option<Time>, ApiError> {
    match epoch_s {
        None => Ok(None),
        Some(epoch_s) if (0.0..1e11).contains(&epoch_s) => {
            Ok(Some(Time((epoch_s * 1e6).round() as u64)))
        }
        Some(other) => Err(ApiError::Invalid(format!(
            "{name} = {other}: must be a time in epoch seconds"
        ))),
    }
}

/// How many entries are left out first.
pub(super) fn offset(asked: Option<u64>) -> Result<u64, ApiError> {
    match asked.unwrap_or(0) {
        offset @ 0..=WINDOW => Ok(offset),
        offset => Err(ApiError::Invalid(format!(
            "offset = {offset}: must be at most {WINDOW}; filter, or go on with before="
        ))),
    }
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
