//! `/v1/completions`: text or tokens in, text out, no template. One prompt per request.

use axum::{
    extract::{Request as HttpRequest, State},
    response::Response,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    Shared, generate,
    openai::{UsageWish, WireUsage},
    request::{Call, Request},
    writer::{Events, Token, Writer},
};
use crate::{
    VllmVersion,
    conversation::{Conversation, Part, ToolChoice, Turn},
    core::epoch,
    error::{ApiError, Shape},
    generation::{Finish, Usage},
    plan::{Plan, Show},
    tokens,
};

/// Tokens of a completion where the client does not say.
const MAX_TOKENS_DEFAULT: u32 = 16;

/// `POST /v1/completions`.
pub(crate) async fn create(State(core): Shared, request: HttpRequest) -> Response {
    let version = core.config.vllm_version;
    let call = match Call::read(core, request).await {
        Ok(call) => call,
        Err(error) => return error.answer(Shape::OpenAi, version),
    };
    match read(&call) {
        Ok(request) => {
            let writer = CompletionWriter {
                id: call.reply_id("cmpl-"),
                model: call.core.model().to_owned(),
                created: epoch().as_secs(),
                fingerprint: call.core.fingerprint(),
                usage: UsageWish::of(&call),
                version,
            };
            generate::reply(&call, request, Box::new(writer)).await
        }
        Err(error) => error.answer(Shape::OpenAi, version),
    }
}

fn read(call: &Call) -> Result<Request, ApiError> {
    call.check_model()?;
    call.check_temperature()?;
    let prompt = read_prompt(&call.body)?;
    // The prompt's text can hold a script as a user's message can.
    let text = tokens::text_of(&prompt);
    let conversation = Conversation {
        tools: Vec::new(),
        turns: vec![Turn::User(vec![Part::Text(text)])],
    };
    let max_tokens = call.max_tokens("max_tokens")?;
    Ok(Request {
        shape: Shape::OpenAi,
        steered: true,
        stream: call.flag("stream"),
        conversation,
        tool_choice: ToolChoice::None,
        prompt,
        max_tokens: max_tokens.or(Some(MAX_TOKENS_DEFAULT)),
    })
}

/// A string, tokens, or a list of exactly one of these.
fn read_prompt(body: &Value) -> Result<Vec<u32>, ApiError> {
    let prompt = &body["prompt"];
    let items = match prompt {
        Value::Null => return Err(ApiError::missing("prompt", body)),
        Value::String(text) => {
            let mut prompt = Vec::new();
            tokens::push_text(&mut prompt, text);
            return Ok(prompt);
        }
        Value::Array(items) => items,
        other => {
            return Err(ApiError::wrong(
                "prompt",
                "Input should be a valid string",
                other,
            ));
        }
    };
    match items.as_slice() {
        [Value::String(_) | Value::Array(_)] => read_prompt(&serde_json::json!({
            "prompt": items[0],
        })),
        ids if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            let ids = ids.iter().filter_map(Value::as_u64);
            Ok(ids.map(|id| id as u32).collect())
        }
        _ => {
            let message = "The simulated engine takes one prompt per request.".to_owned();
            Err(ApiError::client(message, Some("prompt")))
        }
    }
}

struct CompletionWriter {
    id: String,
    model: String,
    created: u64,
    fingerprint: String,
    usage: UsageWish,
    version: VllmVersion,
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<WireUsage>,
    /// With the final usage only.
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'a str>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    text: &'a str,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
    stop_reason: Option<()>,
    prompt_token_ids: Option<()>,
    token_ids: Option<()>,
}

impl CompletionWriter {
    fn completion<'a>(
        &'a self,
        text: Option<&'a str>,
        finish: Option<Finish>,
        usage: Option<WireUsage>,
    ) -> Completion<'a> {
        let choice = text.map(|text| Choice {
            index: 0,
            text,
            logprobs: None,
            finish_reason: finish.map(Finish::as_str),
            stop_reason: None,
            prompt_token_ids: None,
            token_ids: None,
        });
        Completion {
            id: &self.id,
            object: "text_completion",
            created: self.created,
            model: &self.model,
            choices: choice.into_iter().collect(),
            usage,
            system_fingerprint: None,
        }
    }
}

impl Writer for CompletionWriter {
    fn start(&mut self, _usage: Usage, _events: &mut Events) {}

    fn token(&mut self, token: &Token<'_>, events: &mut Events) {
        let text = match token.show {
            Show::Text(text) => text,
            _ => "",
        };
        let usage = self.usage.on_chunk(token.usage);
        events.data(&self.completion(Some(text), token.finish, usage));
    }

    fn end(&mut self, _plan: &Plan, finish: Finish, usage: Usage, events: &mut Events) {
        if finish == Finish::Abort {
            let usage = self.usage.on_chunk(usage);
            events.data(&self.completion(Some(""), Some(finish), usage));
        }
        if self.usage.at_end {
            let usage = self.usage.of_completion(usage);
            let mut last = self.completion(None, None, Some(usage));
            last.system_fingerprint = Some(&self.fingerprint);
            events.data(&last);
        }
        events.done();
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        events.failed(error, self.version);
    }

    fn whole(&mut self, plan: &Plan, finish: Finish, usage: Usage) -> Vec<u8> {
        let (text, _) = plan.reply(usage.completion as usize);
        let usage = self.usage.of_completion(usage);
        let mut completion = self.completion(Some(&text), Some(finish), Some(usage));
        completion.system_fingerprint = Some(&self.fingerprint);
        serde_json::to_vec(&completion).expect("strings and numbers serialise")
    }
}
