//! The JSON of the Responses API, with the keys and nulls that vLLM prints.

use serde::Serialize;
use serde_json::Value;

use crate::generation::Usage;

/// An event of a stream.
#[derive(Serialize)]
pub(super) struct Event<'a> {
    pub(super) sequence_number: u32,
    pub(super) r#type: &'static str,
    #[serde(flatten)]
    pub(super) body: Body<'a>,
}

/// What an event carries besides its type and number.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Body<'a> {
    Response {
        response: Response<'a>,
    },
    Item {
        output_index: usize,
        item: Item<'a>,
    },
    Part {
        output_index: usize,
        item_id: &'a str,
        content_index: usize,
        part: Part<'a>,
    },
    TextDelta {
        output_index: usize,
        item_id: &'a str,
        content_index: usize,
        delta: &'a str,
        logprobs: [(); 0],
    },
    TextDone {
        output_index: usize,
        item_id: &'a str,
        content_index: usize,
        text: &'a str,
        logprobs: [(); 0],
    },
    ArgumentsDelta {
        output_index: usize,
        item_id: &'a str,
        delta: &'a str,
    },
    ArgumentsDone {
        output_index: usize,
        item_id: &'a str,
        arguments: &'a str,
        name: &'a str,
    },
}

/// An output item.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Message {
        id: &'a str,
        content: Vec<Part<'a>>,
        role: &'static str,
        status: &'static str,
    },
    FunctionCall {
        arguments: &'a str,
        call_id: &'a str,
        name: &'a str,
        id: &'a str,
        status: &'static str,
    },
}

/// A content part: always text.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    pub(super) annotations: [(); 0],
    pub(super) text: &'a str,
    pub(super) r#type: &'static str,
    pub(super) logprobs: Option<[(); 0]>,
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
    /// Output text.
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            annotations: [],
            text,
            r#type: "output_text",
            logprobs: None,
        }
    }
}
