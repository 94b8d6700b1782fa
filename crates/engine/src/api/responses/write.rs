//! A reply as Responses events, or as one response.
//!
//! `response.created` and `response.in_progress` go out at once, before the first token: on this
//! API the first event tells nothing about the queue.

use serde_json::{Value, json};

use super::{
    super::{
        request::Call,
        writer::{Events, Token, Writer},
    },
    wire::{Body, Event, Incomplete, Item, Part, Response, WireUsage},
};
use crate::{
    VllmVersion,
    core::epoch,
    error::{ApiError, Shape},
    generation::{Finish, Usage},
    plan::{Plan, Show},
};

/// Writes one reply.
pub(super) struct ResponsesWriter {
    id: String,
    /// Item ids are this and the item's index.
    item_stem: String,
    model: String,
    created: u64,
    version: VllmVersion,
    max_output_tokens: u32,
    echo: Echo,
    sequence: u32,
    open: Option<Open>,
    /// Items that are closed.
    items: usize,
}

/// What a response repeats of its request.
struct Echo {
    instructions: Value,
    metadata: Value,
    tool_choice: Value,
    tools: Value,
    reasoning: Value,
    text: Value,
}

/// The item that is being written.
enum Open {
    Message { text: String },
    Call { index: usize, arguments: String },
}

impl ResponsesWriter {
    pub(super) fn new(call: &Call, prompt_tokens: usize) -> Self {
        let body = &call.body;
        let or = |field: &str, default: Value| match &body[field] {
            Value::Null => default,
            value => value.clone(),
        };
        let left = call
            .core
            .max_model_len()
            .saturating_sub(prompt_tokens as u32);
        let asked = body["max_output_tokens"].as_u64();
        Self {
            id: call.reply_id("resp_"),
            item_stem: call.core.fresh_id(),
            model: call.core.model().to_owned(),
            created: epoch().as_secs(),
            version: call.core.config.vllm_version,
            max_output_tokens: asked.map_or(left, |asked| left.min(asked as u32)),
            echo: Echo {
                instructions: body["instructions"].clone(),
                metadata: body["metadata"].clone(),
                tool_choice: or("tool_choice", json!("auto")),
                tools: or("tools", json!([])),
                reasoning: body["reasoning"].clone(),
                text: body["text"].clone(),
            },
            sequence: 0,
            open: None,
            items: 0,
        }
    }

    fn item_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}{index:02}", &self.item_stem[2..])
    }

    fn emit(&mut self, r#type: &'static str, body: Body<'_>, events: &mut Events) {
        let event = Event {
            sequence_number: self.sequence,
            r#type,
            body,
        };
        events.named(r#type, &event);
        self.sequence += 1;
    }

    fn response<'a>(
        &'a self,
        status: &'static str,
        output: Vec<Item<'a>>,
        usage: Option<WireUsage>,
    ) -> Response<'a> {
        let incomplete = Incomplete {
            reason: "max_output_tokens",
        };
        Response {
            id: &self.id,
            created_at: self.created,
            incomplete_details: (status == "incomplete").then_some(incomplete),
            instructions: &self.echo.instructions,
            metadata: &self.echo.metadata,
            model: &self.model,
            object: "response",
            output,
            parallel_tool_calls: true,
            temperature: 1.0,
            tool_choice: &self.echo.tool_choice,
            tools: &self.echo.tools,
            top_p: 1.0,
            background: false,
            max_output_tokens: self.max_output_tokens,
            max_tool_calls: None,
            previous_response_id: None,
            prompt: None,
            reasoning: &self.echo.reasoning,
            service_tier: "auto",
            status,
            text: &self.echo.text,
            top_logprobs: None,
            truncation: "disabled",
            usage,
            user: None,
        }
    }

    /// An event that carries the response as it stands.
    fn emit_response(
        &mut self,
        r#type: &'static str,
        (status, plan): (&'static str, Option<(&Plan, Usage)>),
        events: &mut Events,
    ) {
        let ids: Vec<String> = (0..=plan.map_or(0, |(plan, _)| plan.calls.len()))
            .map(|index| self.item_id("msg", index))
            .collect();
        let text = plan.map_or_else(String::new, |(plan, usage)| {
            plan.reply(usage.completion as usize).0
        });
        let output = plan.map_or_else(Vec::new, |(plan, usage)| {
            output_items(plan, usage, &text, &ids)
        });
        let usage = plan.map(|(_, usage)| usage.into());
        let event = Event {
            sequence_number: self.sequence,
            r#type,
            body: Body::Response {
                response: self.response(status, output, usage),
            },
        };
        events.named(r#type, &event);
        self.sequence += 1;
    }

    fn close(&mut self, plan: &Plan, events: &mut Events) {
        let output_index = self.items;
        match self.open.take() {
            None => return,
            Some(Open::Message { text }) => self.close_message(output_index, &text, events),
            Some(Open::Call { index, arguments }) => {
                let call = &plan.calls[index];
                let id = self.item_id("msg", output_index);
                let done = Body::ArgumentsDone {
                    output_index,
                    item_id: &id,
                    arguments: &arguments,
                    name: &call.name,
                };
                self.emit("response.function_call_arguments.done", done, events);
                let item = Item::FunctionCall {
                    arguments: &arguments,
                    call_id: &call.id,
                    name: &call.name,
                    id: &id,
                    status: "completed",
                };
                let done = Body::Item { output_index, item };
                self.emit("response.output_item.done", done, events);
            }
        }
        self.items += 1;
    }

    fn close_message(&mut self, output_index: usize, text: &str, events: &mut Events) {
        let id = self.item_id("msg", output_index);
        let done = Body::TextDone {
            output_index,
            item_id: &id,
            content_index: 0,
            text,
            logprobs: [],
        };
        self.emit("response.output_text.done", done, events);
        let part = Body::Part {
            output_index,
            item_id: &id,
            content_index: 0,
            part: Part::of(text),
        };
        self.emit("response.content_part.done", part, events);
        let item = message(&id, vec![Part::of(text)], "completed");
        let done = Body::Item { output_index, item };
        self.emit("response.output_item.done", done, events);
    }

    fn open_message(&mut self, plan: &Plan, events: &mut Events) {
        if matches!(self.open, Some(Open::Message { .. })) {
            return;
        }
        self.close(plan, events);
        let (output_index, id) = (self.items, self.item_id("msg", self.items));
        let item = message(&id, vec![], "in_progress");
        let added = Body::Item { output_index, item };
        self.emit("response.output_item.added", added, events);
        let part = Body::Part {
            output_index,
            item_id: &id,
            content_index: 0,
            part: Part::of(""),
        };
        self.emit("response.content_part.added", part, events);
        let text = String::new();
        self.open = Some(Open::Message { text });
    }

    fn open_call(&mut self, plan: &Plan, index: usize, events: &mut Events) {
        self.close(plan, events);
        let (output_index, id) = (self.items, self.item_id("msg", self.items));
        let item = Item::FunctionCall {
            arguments: "",
            call_id: &plan.calls[index].id,
            name: &plan.calls[index].name,
            id: &id,
            status: "in_progress",
        };
        let added = Body::Item { output_index, item };
        self.emit("response.output_item.added", added, events);
        let arguments = String::new();
        self.open = Some(Open::Call { index, arguments });
    }

    fn delta(&mut self, piece: &str, events: &mut Events) {
        let (output_index, id) = (self.items, self.item_id("msg", self.items));
        match &mut self.open {
            Some(Open::Message { text }) => {
                text.push_str(piece);
                let delta = Body::TextDelta {
                    output_index,
                    item_id: &id,
                    content_index: 0,
                    delta: piece,
                    logprobs: [],
                };
                self.emit("response.output_text.delta", delta, events);
            }
            Some(Open::Call { arguments, .. }) => {
                arguments.push_str(piece);
                let delta = Body::ArgumentsDelta {
                    output_index,
                    item_id: &id,
                    delta: piece,
                };
                self.emit("response.function_call_arguments.delta", delta, events);
            }
            None => {}
        }
    }
}

impl Writer for ResponsesWriter {
    fn open(&mut self, events: &mut Events) {
        self.emit_response("response.created", ("in_progress", None), events);
        self.emit_response("response.in_progress", ("in_progress", None), events);
    }

    fn start(&mut self, _usage: Usage, _events: &mut Events) {}

    fn token(&mut self, token: &Token<'_>, events: &mut Events) {
        match token.show {
            Show::Text(piece) if !piece.is_empty() => {
                self.open_message(token.plan, events);
                self.delta(piece, events);
            }
            Show::CallStarts(index) => self.open_call(token.plan, *index, events),
            Show::Arguments(_, piece) if !piece.is_empty() => self.delta(piece, events),
            _ => {}
        }
    }

    fn end(&mut self, plan: &Plan, finish: Finish, usage: Usage, events: &mut Events) {
        self.close(plan, events);
        let status = status(finish);
        let plan = Some((plan, usage));
        self.emit_response("response.completed", (status, plan), events);
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        self.open(events);
        let (_, body) = error.body(Shape::OpenAi, self.version);
        events.raw("event: error\ndata: ", &body);
    }

    fn whole(&mut self, plan: &Plan, finish: Finish, usage: Usage) -> Vec<u8> {
        let ids: Vec<String> = (0..=plan.calls.len())
            .map(|index| self.item_id("msg", index))
            .collect();
        let (text, _) = plan.reply(usage.completion as usize);
        let output = output_items(plan, usage, &text, &ids);
        let response = self.response(status(finish), output, Some(usage.into()));
        serde_json::to_vec(&response).expect("strings, numbers and JSON values serialise")
    }
}

fn status(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "incomplete",
        Finish::Stop | Finish::Abort => "completed",
    }
}

fn message<'a>(id: &'a str, content: Vec<Part<'a>>, status: &'static str) -> Item<'a> {
    Item::Message {
        id,
        content,
        role: "assistant",
        status,
    }
}

/// The items of a reply: its text, then its calls.
fn output_items<'a>(
    plan: &'a Plan,
    usage: Usage,
    text: &'a str,
    ids: &'a [String],
) -> Vec<Item<'a>> {
    let (_, calls) = plan.reply(usage.completion as usize);
    let mut ids = ids.iter();
    let mut items = Vec::new();
    if (!text.is_empty() || calls.is_empty())
        && let Some(id) = ids.next()
    {
        items.push(message(id, vec![Part::of(text)], "completed"));
    }
    let calls = calls.into_iter().zip(ids);
    items.extend(calls.map(|(call, id)| Item::FunctionCall {
        arguments: &call.arguments,
        call_id: &call.id,
        name: &call.name,
        id,
        status: "completed",
    }));
    items
}
