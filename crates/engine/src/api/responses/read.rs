//! A Responses body to a conversation.

use serde_json::Value;

use super::super::{
    openai,
    request::{Call, Request},
};
use crate::{
    conversation::{Conversation, Part, Turn},
    error::{ApiError, Shape},
    template,
};

pub(super) fn request(call: &Call) -> Result<Request, ApiError> {
    if call.body["input"].is_null() {
        return Err(ApiError::missing("input", &call.body));
    }
    call.check_model()?;
    call.check_temperature()?;
    let conversation = conversation(&call.body);
    Ok(Request {
        shape: Shape::OpenAi,
        steered: call.core.config.vllm_version.steers_responses(),
        stream: call.flag("stream"),
        prompt: template::render(&conversation),
        conversation,
        tool_choice: openai::read_tool_choice(&call.body["tool_choice"]),
        max_tokens: call.max_tokens("max_output_tokens")?,
    })
}

fn conversation(body: &Value) -> Conversation {
    let tools = body["tools"].as_array().map(Vec::as_slice);
    let mut conversation = Conversation {
        tools: tools
            .unwrap_or_default()
            .iter()
            .filter(|tool| tool["type"] == "function")
            .map(openai::read_tool)
            .collect(),
        turns: Vec::new(),
    };
    if let Some(instructions) = body["instructions"].as_str() {
        let parts = vec![Part::Text(instructions.to_owned())];
        conversation.turns.push(Turn::System(parts));
    }
    match &body["input"] {
        Value::Array(items) => {
            for item in items {
                push_item(&mut conversation, item);
            }
        }
        text => conversation
            .turns
            .push(Turn::User(openai::read_parts(text))),
    }
    conversation
}

fn push_item(conversation: &mut Conversation, item: &Value) {
    match item["type"].as_str() {
        Some("function_call") => {
            conversation.push_assistant(vec![], vec![openai::read_call(item)]);
        }
        Some("function_call_output") => {
            let parts = openai::read_parts(&item["output"]);
            conversation.turns.push(Turn::ToolResult(parts));
        }
        Some("message") | None => {
            let parts = openai::read_parts(&item["content"]);
            match item["role"].as_str() {
                Some("assistant") => conversation.push_assistant(parts, vec![]),
                Some("system" | "developer") => conversation.turns.push(Turn::System(parts)),
                _ => conversation.turns.push(Turn::User(parts)),
            }
        }
        // Reasoning of earlier turns is left out of the prompt by chat templates.
        Some(_) => {}
    }
}
