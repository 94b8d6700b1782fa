//! A reply as Messages events, or as one message.

use serde::Serialize;
use serde_json::{Value, json};

use super::super::{
    request::Call,
    writer::{Events, Token, Writer},
};
use crate::{
    VllmVersion,
    error::ApiError,
    generation::{Finish, Usage},
    plan::{Plan, PlannedCall, Show},
};

/// Writes one reply.
pub(super) struct MessagesWriter {
    id: String,
    model: String,
    version: VllmVersion,
    details: bool,
    /// The block that is open, and the index that it or the next one has.
    open: Option<Block>,
    index: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    /// The plan's call of this index.
    ToolUse(usize),
}

/// Any event; the order of keys is vLLM's.
#[derive(Serialize, Default)]
struct Event<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Delta<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_block: Option<ContentBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<WireUsage>,
}

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    content: Vec<ContentBlock<'a>>,
    model: &'a str,
    stop_reason: Option<&'static str>,
    /// Only in `message_start`, and null there.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequence: Option<Value>,
    usage: WireUsage,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Value,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Delta<'a> {
    Text {
        r#type: &'static str,
        text: &'a str,
    },
    Json {
        r#type: &'static str,
        partial_json: &'a str,
    },
    Stop {
        stop_reason: Option<&'static str>,
    },
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names)] // the API's own names
struct WireUsage {
    input_tokens: u32,
    output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_input_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input_tokens: Option<u32>,
}

impl MessagesWriter {
    pub(super) fn new(call: &Call) -> Self {
        Self {
            id: call.reply_id("chatcmpl-"),
            model: call.core.model().to_owned(),
            version: call.core.config.vllm_version,
            details: call.core.config.prompt_tokens_details,
            open: None,
            index: 0,
        }
    }

    fn message<'a>(&'a self, content: Vec<ContentBlock<'a>>, usage: WireUsage) -> Message<'a> {
        Message {
            id: &self.id,
            r#type: "message",
            role: "assistant",
            content,
            model: &self.model,
            stop_reason: None,
            stop_sequence: Some(Value::Null),
            usage,
        }
    }

    fn usage(&self, usage: Usage) -> WireUsage {
        let known = |tokens| self.details.then_some(tokens);
        let (read, created) = (known(usage.cached), known(usage.created));
        WireUsage {
            input_tokens: usage.prompt - read.unwrap_or(0) - created.unwrap_or(0),
            output_tokens: usage.completion,
            cache_creation_input_tokens: created,
            cache_read_input_tokens: read,
        }
    }

    fn close_block(&mut self, events: &mut Events) {
        if self.open.take().is_some() {
            events.named(
                "content_block_stop",
                &Event {
                    r#type: "content_block_stop",
                    index: Some(self.index),
                    ..Event::default()
                },
            );
            self.index += 1;
        }
    }

    fn open_block(&mut self, block: Block, content: ContentBlock<'_>, events: &mut Events) {
        if self.open == Some(block) {
            return;
        }
        self.close_block(events);
        self.open = Some(block);
        events.named(
            "content_block_start",
            &Event {
                r#type: "content_block_start",
                content_block: Some(content),
                index: Some(self.index),
                ..Event::default()
            },
        );
    }

    fn delta(&self, delta: Delta<'_>, events: &mut Events) {
        events.named(
            "content_block_delta",
            &Event {
                r#type: "content_block_delta",
                delta: Some(delta),
                index: Some(self.index),
                ..Event::default()
            },
        );
    }
}

impl Writer for MessagesWriter {
    fn start(&mut self, usage: Usage, events: &mut Events) {
        let usage = WireUsage {
            input_tokens: usage.prompt,
            output_tokens: 0,
            cache_creation_input_tokens: None,
            cache_read_input_tokens: None,
        };
        events.named(
            "message_start",
            &Event {
                r#type: "message_start",
                message: Some(self.message(vec![], usage)),
                ..Event::default()
            },
        );
    }

    fn token(&mut self, token: &Token<'_>, events: &mut Events) {
        match token.show {
            Show::Text(text) if !text.is_empty() => {
                self.open_block(Block::Text, ContentBlock::Text { text: "" }, events);
                let r#type = "text_delta";
                self.delta(Delta::Text { r#type, text }, events);
            }
            Show::CallStarts(index) => {
                let call = &token.plan.calls[*index];
                let content = ContentBlock::ToolUse {
                    id: call_id(call),
                    name: &call.name,
                    input: json!({}),
                };
                self.open_block(Block::ToolUse(*index), content, events);
            }
            Show::Arguments(_, partial_json) if !partial_json.is_empty() => {
                let r#type = "input_json_delta";
                self.delta(
                    Delta::Json {
                        r#type,
                        partial_json,
                    },
                    events,
                );
            }
            _ => {}
        }
    }

    fn end(&mut self, plan: &Plan, finish: Finish, usage: Usage, events: &mut Events) {
        self.close_block(events);
        let stop_reason = stop_reason(plan, finish);
        events.named(
            "message_delta",
            &Event {
                r#type: "message_delta",
                delta: Some(Delta::Stop { stop_reason }),
                usage: Some(self.usage(usage)),
                ..Event::default()
            },
        );
        let r#type = "message_stop";
        let stop = Event {
            r#type,
            ..Event::default()
        };
        events.named(r#type, &stop);
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        let body = error.messages_event(self.version);
        events.raw("event: error\ndata: ", &body);
    }

    fn whole(&mut self, plan: &Plan, finish: Finish, usage: Usage) -> Vec<u8> {
        let (text, calls) = plan.reply(usage.completion as usize);
        let mut content = Vec::new();
        if !text.is_empty() || calls.is_empty() {
            content.push(ContentBlock::Text { text: &text });
        }
        content.extend(calls.iter().map(|call| ContentBlock::ToolUse {
            id: call_id(call),
            name: &call.name,
            input: serde_json::from_str(&call.arguments).unwrap_or_default(),
        }));
        let mut message = self.message(content, self.usage(usage));
        message.stop_reason = stop_reason(plan, finish);
        message.stop_sequence = None;
        serde_json::to_vec(&message).expect("strings, numbers and JSON values serialise")
    }
}

fn call_id(call: &PlannedCall) -> String {
    format!("chatcmpl-tool-{}", call.id)
}

/// vLLM has no word for an aborted reply: its stop reason is null.
fn stop_reason(plan: &Plan, finish: Finish) -> Option<&'static str> {
    match finish {
        Finish::Stop if plan.ends_in_calls => Some("tool_use"),
        Finish::Stop => Some("end_turn"),
        Finish::Length => Some("max_tokens"),
        Finish::Abort => None,
    }
}
