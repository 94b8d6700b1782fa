//! `GET /v1/models`.

use axum::{extract::State, response::Response};
use serde::Serialize;

use super::Shared;
use crate::{core::epoch, error::json_of};

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Card<'a>>,
}

#[derive(Serialize)]
struct Card<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: &'a str,
    parent: Option<()>,
    max_model_len: u32,
    permission: [Permission; 1],
}

#[derive(Serialize)]
#[allow(clippy::struct_excessive_bools)] // vLLM's own fields
struct Permission {
    id: String,
    object: &'static str,
    created: u64,
    allow_create_engine: bool,
    allow_sampling: bool,
    allow_logprobs: bool,
    allow_search_indices: bool,
    allow_view: bool,
    allow_fine_tuning: bool,
    organization: &'static str,
    group: Option<()>,
    is_blocking: bool,
}

/// The served names, each with the model's length.
pub(crate) async fn list(State(core): Shared) -> Response {
    let created = epoch().as_secs();
    let cards = core.config.served_model_names.iter().map(|name| Card {
        id: name,
        object: "model",
        created,
        owned_by: "vllm",
        root: &core.config.profile.name,
        parent: None,
        max_model_len: core.max_model_len(),
        permission: [Permission {
            id: format!("modelperm-{}", core.fresh_id()),
            object: "model_permission",
            created,
            allow_create_engine: false,
            allow_sampling: true,
            allow_logprobs: true,
            allow_search_indices: false,
            allow_view: true,
            allow_fine_tuning: false,
            organization: "*",
            group: None,
            is_blocking: false,
        }],
    });
    json_of(&List {
        object: "list",
        data: cards.collect(),
    })
}
