//! `GET /keys`: who has a key, and what each has used.

use std::sync::Arc;

use axum::{Json, extract::State};

use super::Operators;
use crate::{clock, keys::Holder};

pub(super) async fn list(State(operators): State<Arc<Operators>>) -> Json<api::Keys> {
    let ring = operators.access.ring();
    Json(api::Keys {
        required: operators.access.is_required(),
        trouble: ring.trouble(),
        keys: ring.holders().iter().map(|holder| key(holder)).collect(),
    })
}

fn key(holder: &Holder) -> api::Key {
    let usage = holder.account.usage();
    let key = &holder.key;
    api::Key {
        name: key.name.clone(),
        role: key.role,
        created: key.created_s,
        expires: key.expires_s,
        expired: key.has_expired(clock::epoch_s(clock::now()) as i64),
        limits: api::KeyLimits {
            requests_per_min: key.limits.requests_per_min,
            concurrent_requests: key.limits.concurrent_requests,
            tokens_per_min: key.limits.tokens_per_min,
        },
        requests: usage.requests,
        limited: usage.limited,
        in_flight: usage.in_flight,
        prompt_tokens_cached: usage.prompt_tokens_cached,
        prompt_tokens_computed: usage.prompt_tokens_computed,
        completion_tokens: usage.completion_tokens,
        last_used: usage.last_used.map(clock::epoch_s),
    }
}
