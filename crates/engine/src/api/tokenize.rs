//! `/tokenize` (of a prompt or of chat messages) and `/detokenize`.

use axum::{
    extract::{Request as HttpRequest, State},
    response::Response,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Shared, openai,
    request::{Call, text_of},
};
use crate::{
    error::{ApiError, Shape, json_of},
    template, tokens,
};

#[derive(Serialize)]
struct Tokenized {
    count: usize,
    max_model_len: u32,
    tokens: Vec<u32>,
    token_strs: Option<Vec<String>>,
}

/// `POST /tokenize`.
pub(crate) async fn tokenize(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let tokenized = match Call::read(core, request).await {
        Ok(call) => tokens_of(&call),
        Err(error) => Err(error),
    };
    match tokenized {
        Ok(tokenized) => json_of(&tokenized),
        Err(error) => error.answer(Shape::OpenAi, version),
    }
}

fn tokens_of(call: &Call) -> Result<Tokenized, ApiError> {
    call.check_model()?;
    let body = &call.body;
    let ids = if let Value::Array(messages) = &body["messages"] {
        template::render(&openai::conversation(messages, &body["tools"]))
    } else if body["prompt"].is_null() {
        return Err(ApiError::missing("prompt", body));
    } else {
        let mut ids = Vec::new();
        tokens::push_text(&mut ids, &text_of(&body["prompt"]));
        ids
    };
    let token_strs = call
        .flag("return_token_strs")
        .then(|| ids.iter().map(|id| tokens::text_of(&[*id])).collect());
    Ok(Tokenized {
        count: ids.len(),
        max_model_len: call.core.max_model_len(),
        tokens: ids,
        token_strs,
    })
}

/// `POST /detokenize`.
pub(crate) async fn detokenize(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let text = match Call::read(core, request).await {
        Ok(call) => call.check_model().and_then(|()| {
            let ids = call.array("tokens")?.iter().filter_map(Value::as_u64);
            let ids: Vec<u32> = ids.map(|id| id as u32).collect();
            Ok(tokens::text_of(&ids))
        }),
        Err(error) => Err(error),
    };
    match text {
        Ok(text) => json_of(&json!({"prompt": text})),
        Err(error) => error.answer(Shape::OpenAi, version),
    }
}
