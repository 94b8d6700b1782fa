//! `/v1/chat/completions`.

mod write;

use axum::{
    extract::{Request as HttpRequest, State},
    response::Response,
};

use super::{
    Shared, generate, openai,
    request::{Call, Request},
};
use crate::{
    error::{ApiError, Shape},
    template,
};

/// `POST /v1/chat/completions`.
pub(crate) async fn create(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let call = match Call::read(core, request).await {
        Ok(call) => call,
        Err(error) => return error.answer(Shape::OpenAi, version),
    };
    match read(&call) {
        Ok(request) => {
            let writer = write::ChatWriter::new(&call);
            generate::reply(&call, request, Box::new(writer)).await
        }
        Err(error) => error.answer(Shape::OpenAi, version),
    }
}

fn read(call: &Call) -> Result<Request, ApiError> {
    let messages = call.array("messages")?;
    call.check_model()?;
    call.check_temperature()?;
    let conversation = openai::conversation(messages, &call.body["tools"]);
    let max_tokens = match call.max_tokens("max_completion_tokens")? {
        None => call.max_tokens("max_tokens")?,
        some => some,
    };
    Ok(Request {
        shape: Shape::OpenAi,
        steered: true,
        stream: call.flag("stream"),
        prompt: template::render(&conversation),
        conversation,
        tool_choice: openai::read_tool_choice(&call.body["tool_choice"]),
        max_tokens,
    })
}
