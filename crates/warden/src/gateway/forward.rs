//! Sends a call to a replica and waits for the first byte of its reply.
//!
//! vLLM sends its 200 at once, also while the request still queues; it is held here until a body
//! byte comes, so that until then the request can be sent again. When it may be, and to whom, is
//! the whole of this module: once more on a fresh connection where a reused one had gone stale,
//! and once more on another replica where one could not be reached or died. Never after a body
//! byte, and never after an error that the engine answered.

use std::{collections::VecDeque, future::poll_fn, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header, response::Parts};
use routing::Event;

use super::{
    Gateway,
    aim::{self, Aim},
    call::Call,
    error::GatewayError,
    feed::{Break, Feed, Step, is_event_stream},
    identity::RANK_HEADER,
    ledger::Ledger,
    lobby::Lobby,
    relay::end_of,
    watchdog::Watchdog,
};
use crate::{
    clock,
    telemetry::End,
    upstream::{ConnectError, Payload, SendError},
};

/// A reply whose first bytes are here.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Parts,
    pub(super) opening: VecDeque<Bytes>,
    pub(super) rest: Rest,
}

/// What follows the first bytes.
#[derive(Debug)]
pub(super) enum Rest {
    /// Nothing; it ended so.
    Ended(End, Option<vllm::Usage>),
    /// More.
    Feed(Box<Feed>),
}

/// Why one attempt brought no byte of a reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Not reached: the replica is out.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Reached, but no head came.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A head came, and then the end of the connection.
    #[error("the connection closed before the first byte of the reply: {0}")]
    BeforeByte(hyper::Error),
    /// Something came, but not a reply.
    #[error("the reply broke off")]
    Incomplete,
    /// Nothing came, and nothing moved on the replica.
    #[error("the replica made no progress")]
    Stalled,
}

impl Failure {
    /// Whether the request may be sent to another replica.
    fn another_may_help(&self) -> bool {
        match self {
            Self::Connect(error) => {
                matches!(
                    error,
                    ConnectError::Io { .. } | ConnectError::Timeout { .. }
                )
            }
            Self::Send(error) => !matches!(error, SendError::Garbled(_)),
            Self::BeforeByte(_) => true,
            Self::Incomplete | Self::Stalled => false,
        }
    }

    /// What the client is told where this was the last attempt.
    pub(super) fn verdict(self, gateway: &Gateway, call: &Call) -> GatewayError {
        match self {
            Self::Connect(error @ ConnectError::Address { .. }) => GatewayError::Address(error),
            Self::Connect(error @ ConnectError::Scarcity { .. }) => GatewayError::Scarcity(error),
            Self::Connect(error) => aim::unavailable(&call.model, &error),
            Self::Stalled => GatewayError::Stalled {
                seconds: gateway.limits.progress_timeout.as_secs(),
            },
            failure => GatewayError::EngineBroke {
                cause: failure.to_string(),
            },
        }
    }
}

/// Sends a call once it may go, again where that is allowed.
pub(super) async fn forward(
    gateway: &Gateway,
    mut call: Call,
    ledger: &mut Ledger,
    lobby: &Lobby,
) -> Result<Answer, GatewayError> {
    let mut aim = aim::first(gateway, &call, ledger, lobby).await?;
    let (mut fresh, mut moved) = (false, false);
    let (head, feed, step) = loop {
        let failure = match attempt(gateway, &call, &aim, fresh).await {
            Ok(opened) => break opened,
            Err(failure) => failure,
        };
        tracing::debug!(request = %ledger.id(), ?aim, %failure, "an attempt failed");
        if let Failure::Connect(ConnectError::Io { .. } | ConnectError::Timeout { .. }) = failure {
            report_unreachable(&call, &aim);
        }
        match failure {
            Failure::Send(SendError::Stale(_)) if !fresh => fresh = true,
            failure if !moved && failure.another_may_help() => {
                aim = aim::another(gateway, &call, (&aim, failure), (ledger, lobby)).await?;
                moved = true;
            }
            failure => return Err(failure.verdict(gateway, &call)),
        }
    };
    // From here on nothing is sent twice, and the bytes need not be kept.
    call.payload = Payload::default();
    call.share = gateway.budget.share();
    hold(gateway, call, (head, feed, step), ledger).await
}

type Opened = (Parts, Box<Feed>, Step);

/// One attempt, up to the first byte of the reply's body.
async fn attempt(
    gateway: &Gateway,
    call: &Call,
    aim: &Aim,
    fresh: bool,
) -> Result<Opened, Failure> {
    let mut watchdog = Watchdog::start(
        Arc::clone(&call.model),
        aim.watched(call),
        gateway.limits.progress_timeout,
        clock::now(),
    );
    let reused = if fresh { None } else { aim.target.reuse() };
    let link = match reused {
        Some(link) => link,
        None => aim.target.connect().await?,
    };
    let sent = watchdog.watch(link.send(&aim.target, request(call, aim)));
    let (head, reply) = sent.await.ok_or(Failure::Stalled)??.into_parts();
    let mut feed = Box::new(Feed::new(call.dialect, &head, reply, watchdog));
    match poll_fn(|cx| feed.poll_step(cx)).await {
        Step::Broken(Break::Connection(error)) if !feed.has_begun() && head.status.is_success() => {
            Err(Failure::BeforeByte(error))
        }
        Step::Broken(Break::Connection(_) | Break::Content) => Err(Failure::Incomplete),
        Step::Broken(Break::Stalled) => Err(Failure::Stalled),
        step => Ok((head, feed, step)),
    }
}

fn request(call: &Call, aim: &Aim) -> Request<Payload> {
    let mut request = Request::new(call.payload.clone());
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = Uri::from(call.path.clone());
    *request.headers_mut() = call.headers.clone();
    let headers = request.headers_mut();
    headers.insert(header::HOST, aim.target.authority().clone());
    if let Some(rank) = aim.rank {
        headers.insert(RANK_HEADER, HeaderValue::from(rank));
    }
    request
}

fn report_unreachable(call: &Call, aim: &Aim) {
    if let Some(replica) = aim.listed {
        let event = Event::ConnectFailed(replica);
        call.model.router.lock().observe(clock::now(), event);
    }
}

/// A stream goes on with its first bytes; any other reply is held to its end, within bounds, since
/// a broken one can then still be answered with an error.
async fn hold(
    gateway: &Gateway,
    mut call: Call,
    (mut head, mut feed, mut step): Opened,
    ledger: &mut Ledger,
) -> Result<Answer, GatewayError> {
    let streaming = is_event_stream(&head.headers);
    let mut opening = VecDeque::new();
    let mut bytes = 0;
    loop {
        match step {
            Step::Data(chunk) => {
                ledger.bytes(clock::now(), feed.saw_first_event());
                bytes += chunk.len();
                let full = bytes > gateway.limits.held_reply_bytes_max;
                let flows = streaming || full || !call.share.grow(chunk.len());
                opening.push_back(chunk);
                if flows && feed.ended().is_none() {
                    let rest = Rest::Feed(feed);
                    return Ok(Answer {
                        head,
                        opening,
                        rest,
                    });
                }
            }
            Step::End(end) => {
                tell_of_a_mistake(&mut head, &opening);
                let rest = Rest::Ended(end_of(end, head.status.as_u16()), feed.usage());
                return Ok(Answer {
                    head,
                    opening,
                    rest,
                });
            }
            Step::Broken(Break::Stalled) => return Err(Failure::Stalled.verdict(gateway, &call)),
            Step::Broken(_) => return Err(Failure::Incomplete.verdict(gateway, &call)),
        }
        step = poll_fn(|cx| feed.poll_step(cx)).await;
    }
}

/// Clients send a 500 again; one that only tells of their own mistake they need not.
fn tell_of_a_mistake(head: &mut Parts, opening: &VecDeque<Bytes>) {
    if head.status != StatusCode::INTERNAL_SERVER_ERROR {
        return;
    }
    let body: Vec<u8> = opening.iter().flatten().copied().collect();
    if vllm::is_clients_mistake(&body) {
        let never = HeaderValue::from_static("false");
        head.headers.insert("x-should-retry", never);
    }
}
