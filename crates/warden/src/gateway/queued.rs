//! The body of a stream that began while its request still waited for room.
//!
//! Its head said 200 already. So whatever comes of the request has to be said in the stream: signs of
//! life until it is sent to a replica, then the engine's own events, or an error as an event.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use tokio::time::{Sleep, sleep};
use vllm::{Dialect, ErrorKind};

use super::{
    body::ReplyError,
    error::GatewayError,
    feed::is_event_stream,
    forward::{Answer, Rest},
    ledger::Ledger,
    lobby::{Lobby, PING_EVERY, Serving},
    peer::Peer,
    relay::{Relay, RelayFacts},
};
use crate::telemetry::{End, RequestId};

/// See the module.
pub(super) struct Queued {
    state: State,
    facts: Facts,
    lobby: Lobby,
    /// `None` before the first sign of life, which comes with the head.
    next_ping: Option<Pin<Box<Sleep>>>,
}

/// What stays the same.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) id: RequestId,
    pub(super) dialect: Dialect,
    pub(super) peer: Arc<Peer>,
}

enum State {
    Waiting(Serving),
    Flowing(Box<Relay>),
    /// All of it is here, and its end is counted.
    Held(VecDeque<Bytes>),
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued")
            .field("facts", &self.facts)
            .field("lobby", &self.lobby)
            .finish_non_exhaustive()
    }
}

impl Queued {
    pub(super) fn new(serving: Serving, lobby: Lobby, facts: Facts) -> Self {
        Self {
            state: State::Waiting(serving),
            facts,
            lobby,
            next_ping: None,
        }
    }

    pub(super) fn is_end(&self) -> bool {
        match &self.state {
            State::Waiting(_) => false,
            State::Flowing(relay) => relay.is_end(),
            State::Held(chunks) => chunks.is_empty(),
        }
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ReplyError>>> {
        loop {
            let serving = match &mut self.state {
                State::Flowing(relay) => return relay.poll_data(cx),
                State::Held(chunks) => return Poll::Ready(chunks.pop_front().map(Ok)),
                State::Waiting(serving) => serving,
            };
            let Poll::Ready((outcome, ledger)) = serving.as_mut().poll(cx) else {
                return self.poll_ping(cx).map(|ping| Some(Ok(ping)));
            };
            self.state = self.go_on(outcome, ledger);
        }
    }

    /// Nothing more is said once the request has been sent to a replica.
    fn poll_ping(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        if !self.lobby.is_long() {
            return Poll::Pending;
        }
        if let Some(next_ping) = &mut self.next_ping {
            ready!(next_ping.as_mut().poll(cx));
        }
        self.next_ping = Some(Box::pin(sleep(PING_EVERY)));
        Poll::Ready(Bytes::from_static(match self.facts.dialect {
            Dialect::Messages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
            _ => b": waiting for room on a replica\n\n",
        }))
    }

    /// The engine's stream, or what is said in its place.
    fn go_on(&self, outcome: Result<Answer, GatewayError>, mut ledger: Ledger) -> State {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => {
                ledger.end(error.end(), error.status().as_u16(), None);
                return self.error(error.kind(), &error.to_string());
            }
        };
        let status = answer.head.status;
        if status.is_success() && is_event_stream(&answer.head.headers) {
            let facts = RelayFacts {
                dialect: self.facts.dialect,
                streaming: true,
                status: status.as_u16(),
                peer: Arc::clone(&self.facts.peer),
            };
            return match answer.rest {
                Rest::Feed(feed) => {
                    State::Flowing(Box::new(Relay::new(answer.opening, *feed, ledger, facts)))
                }
                Rest::Ended(end, usage) => {
                    ledger.end(end, status.as_u16(), usage);
                    State::Held(answer.opening)
                }
            };
        }
        ledger.end(End::EngineError, status.as_u16(), None);
        let body: Vec<u8> = answer.opening.into_iter().flatten().collect();
        let said = vllm::error_message(&body);
        let message = said.unwrap_or_else(|| {
            format!("the engine answered {status} where a stream was asked for")
        });
        self.error(ErrorKind::of_status(status.as_u16()), &message)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> State {
        let id = self.facts.id.to_string();
        let event = vllm::error_event(self.facts.dialect, kind, message, &id);
        State::Held(VecDeque::from([event.into()]))
    }
}
