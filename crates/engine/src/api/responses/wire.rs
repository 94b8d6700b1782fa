//! The JSON of the Responses API, with the keys, their order and the nulls that vLLM prints.

use serde::Serialize;
use serde_json::Value;

use crate::generation::Usage;

/// An event of a stream: of the fields, those that its type has.
#[derive(Serialize, Default)]
pub(super) struct Event<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<Response<'a>>,
    pub(super) sequence_number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    pub(super) r#type: &'static str,
}

/// An output item.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    Message(MessageItem<'a>),
    FunctionCall(CallItem<'a>),
}

/// The text of a reply.
#[derive(Serialize)]
pub(super) struct MessageItem<'a> {
    id: &'a str,
    content: Vec<Part<'a>>,
    role: &'static str,
    status: &'static str,
    r#type: &'static str,
    phase: Option<()>,
    /// vLLM adds it to the item that closes a stream's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<[(); 0]>,
}

/// A tool call of a reply.
#[derive(Serialize)]
pub(super) struct CallItem<'a> {
    pub(super) arguments: &'a str,
    pub(super) call_id: &'a str,
    pub(super) name: &'a str,
    pub(super) r#type: &'static str,
    pub(super) id: &'a str,
    pub(super) namespace: Option<()>,
    pub(super) status: &'static str,
}

/// A content part: always text.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    annotations: [(); 0],
    text: &'a str,
    r#type: &'static str,
    logprobs: Option<[(); 0]>,
}

/// A response, finished or not.
#[derive(Serialize)]
pub(super) struct Response<'a> {
    pub(super) id: &'a str,
    pub(super) created_at: u64,
    pub(super) incomplete_details: Option<Incomplete>,
    pub(super) instructions: &'a Value,
    pub(super) metadata: &'a Value,
    pub(super) model: &'a str,
    pub(super) object: &'static str,
    pub(super) output: Vec<Item<'a>>,
    pub(super) parallel_tool_calls: bool,
    pub(super) temperature: f64,
    pub(super) tool_choice: &'a Value,
    pub(super) tools: &'a Value,
    pub(super) top_p: f64,
    pub(super) background: bool,
    pub(super) max_output_tokens: u32,
    pub(super) max_tool_calls: Option<()>,
    pub(super) previous_response_id: Option<()>,
    pub(super) prompt: Option<()>,
    pub(super) reasoning: &'a Value,
    pub(super) service_tier: &'static str,
    pub(super) status: &'static str,
    pub(super) text: &'a Value,
    pub(super) top_logprobs: Option<()>,
    pub(super) truncation: &'static str,
    pub(super) usage: Option<WireUsage>,
    pub(super) user: Option<()>,
    pub(super) presence_penalty: f64,
    pub(super) frequency_penalty: f64,
    pub(super) kv_transfer_params: Option<()>,
    pub(super) ec_transfer_params: Option<()>,
    pub(super) input_messages: Option<()>,
    pub(super) output_messages: Option<()>,
}

/// Why a response is not whole.
#[derive(Serialize)]
pub(super) struct Incomplete {
    pub(super) reason: &'static str,
}

/// Usage; cached tokens are told whatever the server's flags.
#[derive(Serialize)]
pub(super) struct WireUsage {
    input_tokens: u32,
    input_tokens_details: InputDetails,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    total_tokens: u32,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u32,
    input_tokens_per_turn: [(); 0],
    cached_tokens_per_turn: [(); 0],
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u32,
    tool_output_tokens: u32,
    output_tokens_per_turn: [(); 0],
    tool_output_tokens_per_turn: [(); 0],
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.prompt,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cached,
                input_tokens_per_turn: [],
                cached_tokens_per_turn: [],
            },
            output_tokens: usage.completion,
            output_tokens_details: OutputDetails {
                reasoning_tokens: 0,
                tool_output_tokens: 0,
                output_tokens_per_turn: [],
                tool_output_tokens_per_turn: [],
            },
            total_tokens: usage.prompt + usage.completion,
        }
    }
}

impl<'a> Part<'a> {
    /// Finished output text.
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            annotations: [],
            text,
            r#type: "output_text",
            logprobs: None,
        }
    }

    /// Output text that is about to come.
    pub(super) fn opened() -> Self {
        Self {
            logprobs: Some([]),
            ..Self::of("")
        }
    }
}

impl<'a> Item<'a> {
    /// A whole message.
    pub(super) fn message(id: &'a str, text: &'a str) -> Self {
        Self::Message(MessageItem {
            id,
            content: vec![Part::of(text)],
            role: "assistant",
            status: "completed",
            r#type: "message",
            phase: None,
            summary: None,
        })
    }

    /// The message as a stream opens it.
    pub(super) fn opened_message(id: &'a str) -> Self {
        Self::Message(MessageItem {
            id,
            content: vec![],
            role: "assistant",
            status: "in_progress",
            r#type: "message",
            phase: None,
            summary: None,
        })
    }

    /// The message as a stream closes it.
    pub(super) fn closed_message(id: &'a str, text: &'a str) -> Self {
        Self::Message(MessageItem {
            id,
            content: vec![Part::of(text)],
            role: "assistant",
            status: "completed",
            r#type: "message",
            phase: None,
            summary: Some([]),
        })
    }
}
