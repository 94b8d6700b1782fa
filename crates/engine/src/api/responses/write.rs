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
    wire::{CallItem, Event, Incomplete, Item, Part, Response, WireUsage},
};
use crate::{
    VllmVersion,
    core::epoch,
    error::{ApiError, Shape},
    generation::{Finish, Usage},
    plan::{Plan, PlannedCall, Show},
};

/// Writes one reply.
pub(super) struct ResponsesWriter {
    id: String,
    /// Item ids end in this and the item's index.
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

impl Echo {
    fn of(body: &Value) -> Self {
        let or = |field: &str, default: Value| match &body[field] {
            Value::Null => default,
            value => value.clone(),
        };
        let tools = or("tools", json!([]));
        let choice = if tools == json!([]) { "none" } else { "auto" };
        Self {
            instructions: body["instructions"].clone(),
            metadata: body["metadata"].clone(),
            tool_choice: or("tool_choice", json!(choice)),
            tools,
            reasoning: body["reasoning"].clone(),
            text: body["text"].clone(),
        }
    }
}

impl ResponsesWriter {
    pub(super) fn new(call: &Call, prompt_tokens: usize) -> Self {
        let left = call.core.max_model_len();
        let left = left.saturating_sub(prompt_tokens as u32);
        let asked = call.body["max_output_tokens"].as_u64();
        Self {
            id: call.reply_id("resp_"),
            item_stem: call.core.fresh_id(),
            model: call.core.model().to_owned(),
            created: epoch().as_secs(),
            version: call.core.config.vllm_version,
            max_output_tokens: asked.map_or(left, |asked| left.min(asked as u32)),
            echo: Echo::of(&call.body),
            sequence: 0,
            open: None,
            items: 0,
        }
    }

    fn item_id(&self, index: usize) -> String {
        format!("{}{index:02x}", &self.item_stem[2..])
    }

    fn emit(&mut self, r#type: &'static str, event: Event<'_>, events: &mut Events) {
        let event = Event {
            sequence_number: self.sequence,
            r#type,
            ..event
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
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            kv_transfer_params: None,
            ec_transfer_params: None,
            input_messages: None,
            output_messages: None,
        }
    }

    /// An event that carries the response before anything of it is there.
    fn emit_opened(&mut self, r#type: &'static str, events: &mut Events) {
        let event = Event {
            response: Some(self.response("in_progress", vec![], None)),
            sequence_number: self.sequence,
            r#type,
            ..Event::default()
        };
        events.named(r#type, &event);
        self.sequence += 1;
    }

    fn finished(&self, plan: &Plan, finish: Finish, usage: Usage) -> FinishedParts {
        let (text, calls) = plan.reply(usage.completion as usize);
        let ids = (0..=calls.len()).map(|index| format!("msg_{}", self.item_id(index)));
        FinishedParts {
            text,
            ids: ids.collect(),
            call_ids: calls.iter().map(|call| call_id(call)).collect(),
            status: match finish {
                Finish::Length => "incomplete",
                Finish::Stop | Finish::Abort => "completed",
            },
        }
    }

    fn close(&mut self, plan: &Plan, events: &mut Events) {
        match self.open.take() {
            None => return,
            Some(Open::Message { text }) => self.close_message(&text, events),
            Some(Open::Call { index, arguments }) => {
                self.close_call(&plan.calls[index], &arguments, events);
            }
        }
        self.items += 1;
    }

    fn close_call(&mut self, call: &PlannedCall, arguments: &str, events: &mut Events) {
        let (output_index, id) = (Some(self.items), self.item_id(self.items));
        let done = Event {
            arguments: Some(arguments),
            item_id: Some(&id),
            name: Some(&call.name),
            output_index,
            ..Event::default()
        };
        self.emit("response.function_call_arguments.done", done, events);
        let call_id = call_id(call);
        let done = Event {
            item: Some(call_item(call, (&id, &call_id), arguments, "completed")),
            output_index,
            ..Event::default()
        };
        self.emit("response.output_item.done", done, events);
    }

    fn close_message(&mut self, text: &str, events: &mut Events) {
        let (output_index, id) = (Some(self.items), self.item_id(self.items));
        let done = Event {
            content_index: Some(0),
            item_id: Some(&id),
            logprobs: Some([]),
            output_index,
            text: Some(text),
            ..Event::default()
        };
        self.emit("response.output_text.done", done, events);
        let done = Event {
            content_index: Some(0),
            item_id: Some(&id),
            output_index,
            part: Some(Part::of(text)),
            ..Event::default()
        };
        self.emit("response.content_part.done", done, events);
        let done = Event {
            item: Some(Item::closed_message(&id, text)),
            output_index,
            ..Event::default()
        };
        self.emit("response.output_item.done", done, events);
    }

    fn open_message(&mut self, plan: &Plan, events: &mut Events) {
        if matches!(self.open, Some(Open::Message { .. })) {
            return;
        }
        self.close(plan, events);
        let (output_index, id) = (Some(self.items), self.item_id(self.items));
        let added = Event {
            item: Some(Item::opened_message(&id)),
            output_index,
            ..Event::default()
        };
        self.emit("response.output_item.added", added, events);
        let added = Event {
            content_index: Some(0),
            item_id: Some(&id),
            output_index,
            part: Some(Part::opened()),
            ..Event::default()
        };
        self.emit("response.content_part.added", added, events);
        let text = String::new();
        self.open = Some(Open::Message { text });
    }

    fn open_call(&mut self, plan: &Plan, index: usize, events: &mut Events) {
        self.close(plan, events);
        let id = self.item_id(self.items);
        let call = &plan.calls[index];
        let call_id = call_id(call);
        let added = Event {
            item: Some(call_item(call, (&id, &call_id), "", "in_progress")),
            output_index: Some(self.items),
            ..Event::default()
        };
        self.emit("response.output_item.added", added, events);
        let arguments = String::new();
        self.open = Some(Open::Call { index, arguments });
    }

    fn delta(&mut self, piece: &str, events: &mut Events) {
        let id = self.item_id(self.items);
        let delta = Event {
            delta: Some(piece),
            item_id: Some(&id),
            output_index: Some(self.items),
            ..Event::default()
        };
        match &mut self.open {
            Some(Open::Message { text }) => {
                text.push_str(piece);
                let delta = Event {
                    content_index: Some(0),
                    logprobs: Some([]),
                    ..delta
                };
                self.emit("response.output_text.delta", delta, events);
            }
            Some(Open::Call { arguments, .. }) => {
                arguments.push_str(piece);
                self.emit("response.function_call_arguments.delta", delta, events);
            }
            None => {}
        }
    }
}

impl Writer for ResponsesWriter {
    fn open(&mut self, events: &mut Events) {
        self.emit_opened("response.created", events);
        self.emit_opened("response.in_progress", events);
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
        let parts = self.finished(plan, finish, usage);
        let output = parts.items(plan, usage);
        let event = Event {
            response: Some(self.response(parts.status, output, Some(usage.into()))),
            sequence_number: self.sequence,
            r#type: "response.completed",
            ..Event::default()
        };
        events.named("response.completed", &event);
        self.sequence += 1;
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        self.open(events);
        let (_, body) = error.body(Shape::OpenAi, self.version);
        events.raw("event: error\ndata: ", &body);
    }

    fn whole(&mut self, plan: &Plan, finish: Finish, usage: Usage) -> Vec<u8> {
        let parts = self.finished(plan, finish, usage);
        let output = parts.items(plan, usage);
        let response = self.response(parts.status, output, Some(usage.into()));
        serde_json::to_vec(&response).expect("strings, numbers and JSON values serialise")
    }
}

/// What the output items of a finished reply borrow from.
struct FinishedParts {
    text: String,
    /// Ids of the text and of each call.
    ids: Vec<String>,
    call_ids: Vec<String>,
    status: &'static str,
}

impl FinishedParts {
    /// The items of a reply: its text, then its calls.
    fn items<'a>(&'a self, plan: &'a Plan, usage: Usage) -> Vec<Item<'a>> {
        let (_, calls) = plan.reply(usage.completion as usize);
        let (first, others) = self
            .ids
            .split_first()
            .expect("there is one more than calls");
        let mut items = Vec::new();
        if !self.text.is_empty() || calls.is_empty() {
            items.push(Item::message(first, &self.text));
        }
        let ids = others.iter().zip(&self.call_ids);
        items.extend(calls.into_iter().zip(ids).map(|(call, (id, call_id))| {
            call_item(call, (id, call_id), &call.arguments, "completed")
        }));
        items
    }
}

/// The id that a call's result will name.
fn call_id(call: &PlannedCall) -> String {
    format!("call_{}", call.id)
}

fn call_item<'a>(
    call: &'a PlannedCall,
    (id, call_id): (&'a str, &'a str),
    arguments: &'a str,
    status: &'static str,
) -> Item<'a> {
    Item::FunctionCall(CallItem {
        arguments,
        call_id,
        name: &call.name,
        r#type: "function_call",
        id,
        namespace: None,
        status,
    })
}
