//! `/v1/embeddings`: a small vector that depends on the text alone. It has no meaning; it is there
//! so that what passes embeddings through can be tried.

use axum::{
    extract::{Request as HttpRequest, State},
    response::Response,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    Shared,
    request::{Call, text_of},
};
use crate::{
    conversation::hash,
    core::epoch,
    error::{ApiError, Shape, json_of},
    random::Random,
    tokens,
};

const DIMENSIONS: usize = 8;

#[derive(Serialize)]
struct List {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<Embedding>,
    usage: Usage,
}

#[derive(Serialize)]
struct Embedding {
    index: usize,
    object: &'static str,
    #[serde(rename = "embedding")]
    vector: Vec<f64>,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
    completion_tokens: usize,
    prompt_tokens_details: Option<()>,
}

/// `POST /v1/embeddings`.
pub(crate) async fn create(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let list = match Call::read(core, request).await {
        Ok(call) => embed(&call),
        Err(error) => Err(error),
    };
    list.map_or_else(
        |error| error.answer(Shape::OpenAi, version),
        |list| json_of(&list),
    )
}

fn embed(call: &Call) -> Result<List, ApiError> {
    call.check_model()?;
    let inputs: Vec<&Value> = match &call.body["input"] {
        Value::Null => return Err(ApiError::missing("input", &call.body)),
        Value::Array(items) if items.iter().any(Value::is_string) => items.iter().collect(),
        one => vec![one],
    };
    let mut prompt_tokens = 0;
    let vectors = inputs.into_iter().enumerate().map(|(index, input)| {
        let mut pieces = Vec::new();
        tokens::push_text(&mut pieces, &text_of(input));
        prompt_tokens += pieces.len();
        let mut random = Random::new(hash(&pieces));
        let component = |_| random.below(2001) as f64 / 1000.0 - 1.0;
        Embedding {
            index,
            object: "embedding",
            vector: (0..DIMENSIONS).map(component).collect(),
        }
    });
    let data = vectors.collect();
    Ok(List {
        id: call.reply_id("embd-"),
        object: "list",
        created: epoch().as_secs(),
        model: call.core.model().to_owned(),
        data,
        usage: Usage {
            prompt_tokens,
            total_tokens: prompt_tokens,
            completion_tokens: 0,
            prompt_tokens_details: None,
        },
    })
}
