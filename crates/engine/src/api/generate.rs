//! From a dialect's request to its reply: length, rank, faults, plan, and the way out.
//!
//! A streamed reply's 200 and headers go out at once, even while the request waits in the engine's
//! queue; its events come from a task that ends, and so aborts the request, when the client leaves.

use std::sync::atomic::Ordering::Relaxed;

use axum::{body::Body, response::Response};
use http::{StatusCode, header};

use super::{
    request::{Call, Request},
    stream::{self, EventSender},
    writer::{Events, Token, Writer},
};
use crate::{
    balancer,
    error::{ApiError, json},
    faults::{Fault, FaultKind},
    generation::{Generation, Output},
    plan::{self, Limits},
};

/// On a reply: the server drops the connection instead of sending it.
#[derive(Debug, Clone)]
pub(crate) struct DropConnection;

/// Answers a request.
pub(crate) async fn reply(call: &Call, request: Request, mut writer: Box<dyn Writer>) -> Response {
    let (shape, config) = (request.shape, &call.core.config);
    let tokens_max = match tokens_max(call, &request) {
        Ok(tokens_max) => tokens_max,
        Err(error) => return error.answer(shape, config.vllm_version),
    };
    let rank = match choose_rank(call, request.steered) {
        Ok(rank) => rank,
        Err(error) if request.stream => return failed_stream(call, &error, writer.as_mut()),
        Err(error) => return error.answer(shape, config.vllm_version),
    };
    let faults = call.core.pending_faults.meet(rank);
    if let Some(fault) = faults.iter().find(|fault| fault.kind == FaultKind::Error) {
        return ApiError::Injected(fault.status).answer(shape, config.vllm_version);
    }
    let limits = Limits {
        seed: config.seed,
        output_tokens: config.output_tokens,
        tokens_max,
    };
    let plan = plan::plan(
        &request.conversation,
        &request.tool_choice,
        &request.prompt,
        limits,
    );
    let api_server = call.connection.api_server;
    let salted = (request.prompt, call.salt());
    let generation = call.core.submit(api_server, rank, salted, plan);
    if request.stream {
        let (sender, body) = stream::channel(call.connection.clone(), faults);
        tokio::spawn(pump(generation, writer, sender));
        return event_stream(Body::new(body));
    }
    whole(call, generation, writer, &faults)
        .await
        .unwrap_or_else(|error| error.answer(shape, config.vllm_version))
}

/// Tokens that the reply may have; the error where the prompt and what it asks for do not fit.
fn tokens_max(call: &Call, request: &Request) -> Result<u32, ApiError> {
    let context = call.core.max_model_len();
    let asked = request.max_tokens.unwrap_or(0);
    let prompt = request.prompt.len() as u64;
    let room = u64::from(context.saturating_sub(asked));
    if prompt > room || prompt >= u64::from(context) {
        // The tokenizer stops one past what fits, so vLLM cannot say how long the prompt is.
        let found = room + 1;
        let total = found + u64::from(asked);
        let message = format!(
            "This model's maximum context length is {context} tokens. However, you requested \
             {asked} output tokens and your prompt contains at least {found} input tokens, for a \
             total of at least {total} tokens. Please reduce the length of the input prompt or \
             the number of requested output tokens. (parameter=input_tokens, value={found})"
        );
        return Err(ApiError::client(message, Some("input_tokens")));
    }
    let left = context - prompt as u32;
    Ok(request.max_tokens.map_or(left, |asked| asked.min(left)))
}

fn choose_rank(call: &Call, steered: bool) -> Result<usize, ApiError> {
    let ranks = call.core.ranks();
    let asked = if steered {
        balancer::asked_rank(&call.headers)
    } else {
        None
    };
    let Some(asked) = asked else {
        let api_server = call.connection.api_server;
        return Ok(call.core.balancer.choose(api_server, &call.core.metrics));
    };
    let within = usize::try_from(asked).ok().filter(|rank| *rank < ranks);
    within.ok_or_else(|| {
        let message = format!("data_parallel_rank {asked} is out of range [0, {ranks}).");
        ApiError::client(message, None)
    })
}

/// Streams a generation until its end or the client's.
async fn pump(mut generation: Generation, mut writer: Box<dyn Writer>, mut sender: EventSender) {
    let mut events = Events::default();
    writer.open(&mut events);
    let mut started = false;
    while sender.send(&mut events).await.is_ok() {
        let output = tokio::select! {
            output = generation.next() => output,
            () = sender.left() => return,
        };
        let Some(output) = output else {
            sender.reset().await;
            return;
        };
        if !std::mem::replace(&mut started, true) {
            writer.start(generation.usage, &mut events);
        }
        write_output(&generation, output, writer.as_mut(), &mut events);
        if output.finish.is_some() {
            let _ = sender.send(&mut events).await;
            return;
        }
    }
}

fn write_output(
    generation: &Generation,
    output: Output,
    writer: &mut dyn Writer,
    events: &mut Events,
) {
    let (plan, usage) = (&generation.plan, generation.usage);
    if output.tokens > 0 {
        let token = Token {
            show: &plan.shows[usage.completion as usize - 1],
            plan,
            usage,
            finish: output.finish,
        };
        writer.token(&token, events);
    }
    if let Some(finish) = output.finish {
        writer.end(plan, finish, usage, events);
    }
}

async fn whole(
    call: &Call,
    mut generation: Generation,
    mut writer: Box<dyn Writer>,
    faults: &[Fault],
) -> Result<Response, ApiError> {
    let finish = loop {
        let output = generation.next().await.ok_or(ApiError::EngineDead)?;
        if let Some(finish) = output.finish {
            break finish;
        }
    };
    for fault in faults {
        if fault.kind == FaultKind::Reset {
            call.connection.reset.store(true, Relaxed);
            let mut response = json(StatusCode::OK, "");
            response.extensions_mut().insert(DropConnection);
            return Ok(response);
        }
        stream::wait(fault).await;
    }
    let body = writer.whole(&generation.plan, finish, generation.usage);
    Ok(json(StatusCode::OK, body))
}

/// What vLLM does with a mistake that it finds after it has said 200.
fn failed_stream(call: &Call, error: &ApiError, writer: &mut dyn Writer) -> Response {
    let mut events = Events::default();
    writer.fail(error, &mut events);
    let (mut sender, body) = stream::channel(call.connection.clone(), vec![]);
    tokio::spawn(async move {
        // A client that has left needs no error.
        let _ = sender.send(&mut events).await;
    });
    event_stream(Body::new(body))
}

fn event_stream(body: Body) -> Response {
    let content_type = "text/event-stream; charset=utf-8";
    Response::builder()
        .header(header::CONTENT_TYPE, content_type)
        .body(body)
        .expect("a constant header is valid")
}
