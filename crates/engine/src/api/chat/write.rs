//! A reply as chat chunks, or as one completion. The order of keys, and which nulls show, are vLLM's.

use serde::Serialize;
use serde_json::Value;

use super::super::{
    openai::{UsageWish, WireUsage},
    request::Call,
    writer::{Events, Token, Writer},
};
use crate::{
    VllmVersion,
    core::epoch,
    error::ApiError,
    generation::{Finish, Usage},
    plan::{Plan, PlannedCall, Show},
};

/// Writes one reply.
pub(super) struct ChatWriter {
    id: String,
    model: String,
    created: u64,
    fingerprint: String,
    usage: UsageWish,
    version: VllmVersion,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChunkChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<WireUsage>,
    /// On the last chunk: of usage where there is one, else of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'a str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptEcho>,
}

/// What vLLM would repeat of the prompt if asked to; on the first chunk.
#[derive(Serialize, Default)]
struct PromptEcho {
    prompt_token_ids: Option<()>,
    prompt_text: Option<()>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
    /// On the last chunk only, and null there: no stop string ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<Value>,
    /// On all but the first chunk, and null there.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Value>,
}

#[derive(Serialize, Default)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[DeltaCall<'a>; 1]>,
}

#[derive(Serialize)]
struct DeltaCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    index: usize,
    function: DeltaFunction<'a>,
}

#[derive(Serialize)]
struct DeltaFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    service_tier: Option<()>,
    system_fingerprint: &'a str,
    usage: WireUsage,
    prompt_logprobs: Option<()>,
    #[serde(flatten)]
    prompt: PromptEcho,
    kv_transfer_params: Option<()>,
    ec_transfer_params: Option<()>,
    metrics: Option<()>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
    stop_reason: Option<()>,
    token_ids: Option<()>,
    routed_experts: Option<()>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: Option<()>,
    annotations: Option<()>,
    audio: Option<()>,
    function_call: Option<()>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WholeCall<'a>>,
    reasoning: Option<()>,
}

#[derive(Serialize)]
struct WholeCall<'a> {
    id: String,
    r#type: &'static str,
    function: WholeFunction<'a>,
}

#[derive(Serialize)]
struct WholeFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl ChatWriter {
    pub(super) fn new(call: &Call) -> Self {
        Self {
            id: call.reply_id("chatcmpl-"),
            model: call.core.model().to_owned(),
            created: epoch().as_secs(),
            fingerprint: call.core.fingerprint(),
            usage: UsageWish::of(call),
            version: call.core.config.vllm_version,
        }
    }

    fn chunk<'a>(&'a self, choices: Vec<ChunkChoice<'a>>, usage: Option<WireUsage>) -> Chunk<'a> {
        Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices,
            usage,
            system_fingerprint: None,
            prompt: None,
        }
    }

    fn delta(&self, delta: Delta<'_>, finish: Option<&'static str>, usage: Usage) -> Vec<u8> {
        let first = delta.role.is_some();
        let choice = ChunkChoice {
            index: 0,
            delta,
            logprobs: None,
            finish_reason: finish,
            stop_reason: finish.map(|_| Value::Null),
            token_ids: (!first).then_some(Value::Null),
        };
        let mut chunk = self.chunk(vec![choice], self.usage.on_chunk(usage));
        let last = finish.is_some() && !self.usage.at_end;
        chunk.system_fingerprint = last.then_some(self.fingerprint.as_str());
        chunk.prompt = first.then(PromptEcho::default);
        serde_json::to_vec(&chunk).expect("strings and numbers serialise")
    }
}

impl Writer for ChatWriter {
    fn start(&mut self, usage: Usage, events: &mut Events) {
        let first = Delta {
            role: Some("assistant"),
            content: Some(""),
            tool_calls: None,
        };
        let none_yet = Usage {
            completion: 0,
            ..usage
        };
        events.raw("data: ", &self.delta(first, None, none_yet));
    }

    fn token(&mut self, token: &Token<'_>, events: &mut Events) {
        let delta = match token.show {
            Show::Text(text) => Delta {
                content: Some(text),
                ..Delta::default()
            },
            Show::CallStarts(index) => call_delta(*index, Some(&token.plan.calls[*index]), ""),
            Show::Arguments(index, piece) => call_delta(*index, None, piece),
            Show::Nothing if token.finish.is_none() => return,
            Show::Nothing => Delta {
                content: token.plan.calls.is_empty().then_some(""),
                ..Delta::default()
            },
        };
        let finish = token.finish.map(|finish| finish_reason(token.plan, finish));
        events.raw("data: ", &self.delta(delta, finish, token.usage));
    }

    fn end(&mut self, plan: &Plan, finish: Finish, usage: Usage, events: &mut Events) {
        if finish == Finish::Abort {
            let finish = Some(finish_reason(plan, finish));
            events.raw("data: ", &self.delta(Delta::default(), finish, usage));
        }
        if self.usage.at_end {
            let mut chunk = self.chunk(vec![], Some(self.usage.of_chat(usage)));
            chunk.system_fingerprint = Some(&self.fingerprint);
            events.data(&chunk);
        }
        events.done();
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        events.failed(error, self.version);
    }

    fn whole(&mut self, plan: &Plan, finish: Finish, usage: Usage) -> Vec<u8> {
        let (text, calls) = plan.reply(usage.completion as usize);
        let message = Message {
            role: "assistant",
            content: (!text.is_empty() || calls.is_empty()).then_some(text.as_str()),
            refusal: None,
            annotations: None,
            audio: None,
            function_call: None,
            tool_calls: calls.into_iter().map(whole_call).collect(),
            reasoning: None,
        };
        let choice = Choice {
            index: 0,
            message,
            logprobs: None,
            finish_reason: finish_reason(plan, finish),
            stop_reason: None,
            token_ids: None,
            routed_experts: None,
        };
        let completion = Completion {
            id: &self.id,
            object: "chat.completion",
            created: self.created,
            model: &self.model,
            choices: [choice],
            service_tier: None,
            system_fingerprint: &self.fingerprint,
            usage: self.usage.of_whole_chat(usage),
            prompt_logprobs: None,
            prompt: PromptEcho::default(),
            kv_transfer_params: None,
            ec_transfer_params: None,
            metrics: None,
        };
        serde_json::to_vec(&completion).expect("strings and numbers serialise")
    }
}

fn call_delta<'a>(index: usize, start: Option<&'a PlannedCall>, arguments: &'a str) -> Delta<'a> {
    let call = DeltaCall {
        id: start.map(call_id),
        r#type: start.map(|_| "function"),
        index,
        function: DeltaFunction {
            name: start.map(|call| call.name.as_str()),
            arguments,
        },
    };
    Delta {
        tool_calls: Some([call]),
        ..Delta::default()
    }
}

fn whole_call(call: &PlannedCall) -> WholeCall<'_> {
    WholeCall {
        id: call_id(call),
        r#type: "function",
        function: WholeFunction {
            name: &call.name,
            arguments: &call.arguments,
        },
    }
}

fn call_id(call: &PlannedCall) -> String {
    format!("chatcmpl-tool-{}", call.id)
}

fn finish_reason(plan: &Plan, finish: Finish) -> &'static str {
    match finish {
        Finish::Stop if plan.ends_in_calls => "tool_calls",
        other => other.as_str(),
    }
}
