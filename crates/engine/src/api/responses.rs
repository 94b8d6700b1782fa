//! `/v1/responses`: OpenAI's Responses API as vLLM speaks it, stateless (`previous_response_id` is
//! ignored; clients send the whole input each time). Before 0.33 the rank header means nothing here.

mod read;
mod wire;
mod write;

use axum::{
    extract::{Request as HttpRequest, State},
    response::Response,
};

use super::{Shared, generate, request::Call};
use crate::error::Shape;

/// `POST /v1/responses`.
pub(crate) async fn create(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let call = match Call::read(core, request).await {
        Ok(call) => call,
        Err(error) => return error.answer(Shape::OpenAi, version),
    };
    match read::request(&call) {
        Ok(request) => {
            let writer = write::ResponsesWriter::new(&call, request.prompt.len());
            generate::reply(&call, request, Box::new(writer)).await
        }
        Err(error) => error.answer(Shape::OpenAi, version),
    }
}
