//! A Messages body to a conversation. Keys that vLLM ignores (`metadata`, `cache_control`,
//! `thinking`, …) are ignored here.

use serde_json::Value;

use super::super::request::{Call, Request, text_of};
use crate::{
    conversation::{self, Conversation, Part, Tool, ToolChoice, Turn},
    error::{ApiError, Shape},
    template,
};

/// What Claude Code's changing attribution block begins with; vLLM drops it.
const BILLING: &str = "x-anthropic-billing-header";

pub(super) fn request(call: &Call) -> Result<Request, ApiError> {
    let conversation = conversation(call)?;
    let max_tokens = call.max_tokens("max_tokens")?;
    if max_tokens.is_none() {
        return Err(ApiError::missing("max_tokens", &call.body));
    }
    call.check_temperature()?;
    Ok(Request {
        shape: Shape::Anthropic,
        steered: true,
        stream: call.flag("stream"),
        prompt: template::render(&conversation),
        conversation,
        tool_choice: tool_choice(&call.body["tool_choice"]),
        max_tokens,
    })
}

/// Tools, system and messages.
pub(super) fn conversation(call: &Call) -> Result<Conversation, ApiError> {
    if call.body["model"].as_str().is_none_or(str::is_empty) {
        return Err(ApiError::missing("model", &call.body));
    }
    let messages = call.array("messages")?;
    call.check_model()?;
    if messages.is_empty() {
        let message = "Cannot apply chat template to an empty conversation. Provide at least one \
                       message.";
        return Err(ApiError::client(message.to_owned(), None));
    }
    let tools = call.body["tools"].as_array().map(Vec::as_slice);
    let mut conversation = Conversation {
        tools: tools.unwrap_or_default().iter().map(tool).collect(),
        turns: Vec::new(),
    };
    let keeps_inline_system = call.core.config.vllm_version.keeps_inline_system();
    let mut system = system_parts(&call.body["system"]);
    if !keeps_inline_system {
        for message in messages.iter().filter(|message| is_system(message)) {
            system.extend(system_parts(&message["content"]));
        }
    }
    if !system.is_empty() {
        conversation.turns.push(Turn::System(system));
    }
    for message in messages {
        if !is_system(message) {
            push_message(&mut conversation, message);
        } else if keeps_inline_system {
            let parts = system_parts(&message["content"]);
            conversation.turns.push(Turn::System(parts));
        }
    }
    Ok(conversation)
}

fn is_system(message: &Value) -> bool {
    message["role"] == "system"
}

fn tool(tool: &Value) -> Tool {
    Tool {
        name: text_of(&tool["name"]),
        description: text_of(&tool["description"]),
        parameters: tool["input_schema"].clone(),
    }
}

fn tool_choice(choice: &Value) -> ToolChoice {
    match choice["type"].as_str() {
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => ToolChoice::Named(text_of(&choice["name"])),
        _ => ToolChoice::Auto,
    }
}

/// Text parts of a string or of blocks, billing blocks left out.
fn system_parts(content: &Value) -> Vec<Part> {
    let texts: Vec<&str> = match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .filter(|text| !text.starts_with(BILLING))
            .collect(),
        _ => vec![],
    };
    let kept = texts.into_iter().filter(|text| !text.is_empty());
    kept.map(|text| Part::Text(text.to_owned())).collect()
}

fn push_message(conversation: &mut Conversation, message: &Value) {
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    match &message["content"] {
        Value::String(text) => parts.push(Part::Text(text.clone())),
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str() {
                    Some("text") => parts.push(Part::Text(text_of(&block["text"]))),
                    Some("image") => parts.push(Part::image(&block["source"])),
                    Some("tool_use") => calls.push(conversation::Call {
                        name: text_of(&block["name"]),
                        arguments: conversation::canonical(&block["input"]),
                    }),
                    Some("tool_result") => {
                        let result = Turn::ToolResult(result_parts(&block["content"]));
                        conversation.turns.push(result);
                    }
                    // Thinking of earlier turns is left out of the prompt by chat templates.
                    _ => {}
                }
            }
        }
        _ => {}
    }
    parts.retain(|part| part.text().is_none_or(|text| !text.is_empty()));
    if message["role"] == "assistant" {
        conversation.push_assistant(parts, calls);
    } else if !parts.is_empty() {
        conversation.turns.push(Turn::User(parts));
    }
}

fn result_parts(content: &Value) -> Vec<Part> {
    match content {
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| match block["type"].as_str() {
                Some("text") => Some(Part::Text(text_of(&block["text"]))),
                Some("image") => Some(Part::image(&block["source"])),
                _ => None,
            })
            .collect(),
        other => vec![Part::Text(text_of(other))],
    }
}
