//! `/v1/messages` and `/v1/messages/count_tokens`: Anthropic's Messages API as vLLM speaks it.
//!
//! Traits that matter to what stands in front: `message_start` carries the whole prompt as
//! `input_tokens` and no cache fields; only `message_delta` tells what was cached. There are no
//! pings. Blocks that begin with `x-anthropic-billing-header` are dropped.

mod read;
mod write;

use axum::{
    extract::{Request as HttpRequest, State},
    response::Response,
};
use serde::Serialize;

use super::{Shared, generate, request::Call};
use crate::{
    error::{Shape, json_of},
    template,
};

/// `POST /v1/messages`.
pub(crate) async fn create(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let call = match Call::read(core, request).await {
        Ok(call) => call,
        Err(error) => return error.answer(Shape::Anthropic, version),
    };
    match read::request(&call) {
        Ok(request) => {
            let writer = write::MessagesWriter::new(&call);
            generate::reply(&call, request, Box::new(writer)).await
        }
        Err(error) => error.answer(Shape::Anthropic, version),
    }
}

#[derive(Serialize)]
struct Count {
    input_tokens: usize,
    context_management: ContextManagement,
}

#[derive(Serialize)]
struct ContextManagement {
    original_input_tokens: usize,
}

/// `POST /v1/messages/count_tokens`.
pub(crate) async fn count_tokens(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let counted = match Call::read(core, request).await {
        Ok(call) => read::conversation(&call),
        Err(error) => Err(error),
    };
    match counted {
        Ok(conversation) => {
            let tokens = template::render(&conversation).len();
            json_of(&Count {
                input_tokens: tokens,
                context_management: ContextManagement {
                    original_input_tokens: tokens,
                },
            })
        }
        Err(error) => error.answer(Shape::Anthropic, version),
    }
}
