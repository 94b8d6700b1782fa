//! What the OpenAI dialects share: usage, stream options, and how messages and tools are read.

use serde::Serialize;
use serde_json::Value;

use super::request::{Call, text_of};
use crate::{
    conversation::{self, Conversation, Part, Tool, ToolChoice, Turn},
    generation::Usage,
};

/// `usage` of chat and plain completions.
#[derive(Debug, Serialize)]
pub(super) struct WireUsage {
    prompt_tokens: u32,
    total_tokens: u32,
    completion_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<Details>,
}

#[derive(Debug, Serialize)]
#[allow(clippy::struct_field_names)] // the API's own names
struct Details {
    cached_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_cache_tokens: Option<u32>,
    /// In whole replies, and null there.
    #[serde(skip_serializing_if = "Option::is_none")]
    multimodal_tokens: Option<Value>,
}

/// Who hears of usage, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageWish {
    /// A last chunk with it.
    pub(super) at_end: bool,
    /// On every chunk.
    pub(super) on_chunks: bool,
    /// With cached tokens.
    details: bool,
}

impl UsageWish {
    /// What this request's `stream_options` and the server's flags ask for.
    pub(super) fn of(call: &Call) -> Self {
        let (config, options) = (&call.core.config, &call.body["stream_options"]);
        let asks = |field: &str| options[field].as_bool().unwrap_or(false);
        let at_end = config.force_include_usage || asks("include_usage");
        Self {
            at_end,
            on_chunks: config.force_include_usage || at_end && asks("continuous_usage_stats"),
            details: config.prompt_tokens_details,
        }
    }

    /// Usage on a chunk: never with cached tokens.
    pub(super) fn on_chunk(self, usage: Usage) -> Option<WireUsage> {
        self.on_chunks.then(|| WireUsage::of(usage, None))
    }

    /// The final usage of a chat.
    pub(super) fn of_chat(self, usage: Usage) -> WireUsage {
        let details = Details {
            cached_tokens: usage.cached,
            created_cache_tokens: Some(usage.created),
            multimodal_tokens: None,
        };
        WireUsage::of(usage, self.details.then_some(details))
    }

    /// The usage of a whole chat, where vLLM prints nulls.
    pub(super) fn of_whole_chat(self, usage: Usage) -> WireUsage {
        let mut usage = self.of_chat(usage);
        if let Some(details) = &mut usage.prompt_tokens_details {
            details.multimodal_tokens = Some(Value::Null);
        }
        usage
    }

    /// The final usage of a plain completion, which tells nothing of what was written.
    pub(super) fn of_completion(self, usage: Usage) -> WireUsage {
        let details = Details {
            cached_tokens: usage.cached,
            created_cache_tokens: None,
            multimodal_tokens: None,
        };
        WireUsage::of(usage, self.details.then_some(details))
    }
}

impl WireUsage {
    fn of(usage: Usage, prompt_tokens_details: Option<Details>) -> Self {
        Self {
            prompt_tokens: usage.prompt,
            total_tokens: usage.prompt + usage.completion,
            completion_tokens: usage.completion,
            prompt_tokens_details,
        }
    }
}

/// A conversation of chat messages and tools.
pub(super) fn conversation(messages: &[Value], tools: &Value) -> Conversation {
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut conversation = Conversation {
        tools: tools
            .iter()
            .map(|tool| read_tool(&tool["function"]))
            .collect(),
        turns: Vec::new(),
    };
    for message in messages {
        let parts = read_parts(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => conversation.turns.push(Turn::System(parts)),
            Some("assistant") => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                let calls = calls.map(|call| read_call(&call["function"])).collect();
                conversation.push_assistant(parts, calls);
            }
            Some("tool") => conversation.turns.push(Turn::ToolResult(parts)),
            _ => conversation.turns.push(Turn::User(parts)),
        }
    }
    conversation
}

/// A tool by its `name`, `description` and `parameters`.
pub(super) fn read_tool(function: &Value) -> Tool {
    Tool {
        name: text_of(&function["name"]),
        description: text_of(&function["description"]),
        parameters: function["parameters"].clone(),
    }
}

/// A call by its `name` and `arguments` (JSON in a string).
pub(super) fn read_call(function: &Value) -> conversation::Call {
    let arguments = text_of(&function["arguments"]);
    conversation::Call {
        name: text_of(&function["name"]),
        arguments: serde_json::from_str::<Value>(&arguments)
            .map_or(arguments, |value| conversation::canonical(&value)),
    }
}

/// Content as a string or as a list of parts, of chat or of Responses.
pub(super) fn read_parts(content: &Value) -> Vec<Part> {
    let Value::Array(items) = content else {
        let text = text_of(content);
        return (!text.is_empty())
            .then_some(Part::Text(text))
            .into_iter()
            .collect();
    };
    items
        .iter()
        .filter_map(|item| match (&item["text"], &item["image_url"]) {
            (Value::String(text), _) => Some(Part::Text(text.clone())),
            (_, Value::Null) => None,
            (_, image) => Some(Part::image(image)),
        })
        .collect()
}

/// `tool_choice`: a word, or an object that names a tool (nested in chat, flat in Responses).
pub(super) fn read_tool_choice(choice: &Value) -> ToolChoice {
    let name = choice["function"]["name"]
        .as_str()
        .or_else(|| choice["name"].as_str());
    match (choice.as_str(), name) {
        (Some("none"), _) => ToolChoice::None,
        (Some("required"), _) => ToolChoice::Required,
        (_, Some(name)) => ToolChoice::Named(name.to_owned()),
        _ => ToolChoice::Auto,
    }
}
