//! Conversations: listed (`listing`), shown, moved, forgotten.

mod listing;

use std::sync::Arc;

use axum::{Json, extract::State};
use http::StatusCode;
use routing::{ConversationView, IdentitySource, ReplicaIndex};

use self::listing::{Parameters, Query};
use super::{
    Operators,
    error::ApiError,
    extract::{InBody, InPath, InQuery, object},
};
use crate::{
    clock::{self, epoch_s},
    fleet::Model,
    telemetry::words,
};

pub(super) async fn list(
    State(operators): State<Arc<Operators>>,
    InQuery(parameters): InQuery<Parameters>,
) -> Result<Json<api::Conversations>, ApiError> {
    let query = Query::parse(&parameters)?;
    let models = match &parameters.model {
        Some(name) => std::slice::from_ref(operators.model(name)?),
        None => &operators.fleet.models[..],
    };
    let now = clock::now();
    let mut known = Vec::new();
    for model in models {
        // Copied out first: the router's lock is for a few milliseconds, not for order and search.
        let views = model.router.lock().conversations(now, usize::MAX);
        known.extend(
            views
                .iter()
                .map(|view| conversation(&operators, &model.name, view)),
        );
    }
    Ok(Json(query.page(known)))
}

pub(super) async fn one(
    State(operators): State<Arc<Operators>>,
    InPath(id): InPath<String>,
) -> Result<Json<api::Conversation>, ApiError> {
    let (model, view) = find(&operators, &id)?;
    Ok(Json(conversation(&operators, &model.name, &view)))
}

pub(super) async fn r#move(
    State(operators): State<Arc<Operators>>,
    InPath(id): InPath<String>,
    InBody(body): InBody,
) -> Result<Json<api::Conversation>, ApiError> {
    let to: api::MoveConversation = object(&body, "\"replica\", a number")?;
    let (model, view) = find(&operators, &id)?;
    let key = view.record.identity.conversation;
    let now = clock::now();
    let mut router = model.router.lock();
    if !router.move_conversation(now, key, ReplicaIndex(to.replica)) {
        return Err(ApiError::Invalid(format!(
            "replica = {}: \"{}\" has replicas 0 to {}",
            to.replica,
            model.name,
            model.replica_ids.len().saturating_sub(1)
        )));
    }
    let moved = router.conversation(now, key).unwrap_or(view);
    drop(router);
    tracing::info!(model = %model.name, conversation = %&id[..8], replica = to.replica, "moved by an operator");
    operators.telemetry.changes().model(&model.name);
    Ok(Json(conversation(&operators, &model.name, &moved)))
}

pub(super) async fn forget(
    State(operators): State<Arc<Operators>>,
    InPath(id): InPath<String>,
) -> Result<StatusCode, ApiError> {
    let (model, view) = find(&operators, &id)?;
    let key = view.record.identity.conversation;
    model.router.lock().forget(key);
    tracing::info!(model = %model.name, conversation = %&id[..8], "forgotten by an operator");
    operators.telemetry.changes().model(&model.name);
    Ok(StatusCode::NO_CONTENT)
}

/// The conversation that is shown under this id.
fn find<'a>(
    operators: &'a Operators,
    id: &str,
) -> Result<(&'a Arc<Model>, ConversationView), ApiError> {
    let unknown = || {
        ApiError::NotFound(format!(
            "no conversation \"{id}\": it was forgotten, or never was; GET /api/v1/conversations \
             lists them"
        ))
    };
    let shown = (id.len() == 16)
        .then(|| u64::from_str_radix(id, 16).ok())
        .flatten()
        .ok_or_else(unknown)?;
    let now = clock::now();
    for model in &operators.fleet.models {
        let found = model.router.lock().conversation_shown_as(now, shown);
        if let Some(view) = found {
            return Ok((model, view));
        }
    }
    Err(unknown())
}

fn conversation(operators: &Operators, model: &str, view: &ConversationView) -> api::Conversation {
    let record = &view.record;
    api::Conversation {
        id: words::conversation(record.identity.conversation),
        model: model.to_owned(),
        session: words::hash(record.identity.session),
        agent: record.identity.agent.map(words::hash),
        named_by: named_by(record.identity.source).to_owned(),
        replica: record.home.0,
        turns: record.turns,
        in_flight: view.in_flight,
        context_tokens: record.context_tokens,
        own_tokens: record.own_tokens,
        last_route: words::route(view.last_route),
        last_active: epoch_s(record.last_active),
        alarm: operators.telemetry.alarm(record.identity.conversation),
    }
}

/// The header or body key that named a conversation.
fn named_by(source: IdentitySource) -> &'static str {
    match source {
        IdentitySource::ClaudeCodeHeader => "x-claude-code-session-id",
        IdentitySource::SessionAffinityHeader => "x-session-affinity",
        IdentitySource::SessionIdHeader => "session-id",
        IdentitySource::XSessionIdHeader => "x-session-id",
        IdentitySource::MetadataUserId => "metadata.user_id",
        IdentitySource::PromptCacheKey => "prompt_cache_key",
        IdentitySource::PrefixHash => "its beginning",
    }
}
