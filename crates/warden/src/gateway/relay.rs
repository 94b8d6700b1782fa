//! An engine's reply on its way to the client, chunk by chunk.
//!
//! A broken one is never ended cleanly. What a client sees is what it recovers from best: the
//! Messages API's clients retry a connection that closes early, so nothing is said there; the
//! OpenAI APIs' clients are told with an error event first.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use vllm::{Dialect, ErrorKind, StreamEnd};

use super::{
    body::ReplyError,
    feed::{Break, Feed, Step},
    ledger::Ledger,
    peer::Peer,
};
use crate::{clock, telemetry::End};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Flowing,
    /// Everything that may be said is said, but may still lie in the connection's buffer: an error
    /// now would drop it, so the connection gets one turn to flush.
    Flushing(Verdict),
    Broken(Verdict),
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Cut,
    Stalled,
}

/// The body of a proxied reply after its first bytes.
#[derive(Debug)]
pub(super) struct Relay {
    /// Bytes that were read before the head went out.
    opening: VecDeque<Bytes>,
    feed: Feed,
    ledger: Ledger,
    dialect: Dialect,
    streaming: bool,
    status: u16,
    state: State,
    /// Whether the client has whole events so far (an event may then follow).
    at_boundary: bool,
    peer: Arc<Peer>,
}

/// What stays the same for the whole reply.
#[derive(Debug)]
pub(super) struct RelayFacts {
    pub(super) dialect: Dialect,
    pub(super) streaming: bool,
    pub(super) status: u16,
    pub(super) peer: Arc<Peer>,
}

impl Relay {
    pub(super) fn new(
        opening: VecDeque<Bytes>,
        feed: Feed,
        ledger: Ledger,
        facts: RelayFacts,
    ) -> Self {
        Self {
            opening,
            feed,
            ledger,
            dialect: facts.dialect,
            streaming: facts.streaming,
            status: facts.status,
            state: State::Flowing,
            at_boundary: true,
            peer: facts.peer,
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.state == State::Ended
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ReplyError>>> {
        match self.state {
            State::Flowing => {}
            State::Flushing(verdict) => {
                self.state = State::Broken(verdict);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            State::Broken(verdict) => {
                self.state = State::Ended;
                self.peer.reset_on_close();
                return Poll::Ready(Some(Err(match verdict {
                    Verdict::Cut => ReplyError::Cut,
                    Verdict::Stalled => ReplyError::Stalled,
                })));
            }
            State::Ended => return Poll::Ready(None),
        }
        if let Some(chunk) = self.opening.pop_front() {
            return Poll::Ready(Some(Ok(self.passing(chunk))));
        }
        match ready!(self.feed.poll_step(cx)) {
            Step::Data(chunk) => {
                self.ledger.bytes(clock::now(), self.feed.saw_first_event());
                if let Some(end) = self.feed.ended() {
                    self.state = State::Ended;
                    self.settle(end_of(end, self.status));
                }
                Poll::Ready(Some(Ok(self.passing(chunk))))
            }
            Step::End(end) => {
                self.state = State::Ended;
                self.settle(end_of(end, self.status));
                Poll::Ready(None)
            }
            Step::Broken(how) => self.break_off(&how, cx),
        }
    }

    fn passing(&mut self, chunk: Bytes) -> Bytes {
        self.at_boundary = chunk.ends_with(b"\n\n") || chunk.ends_with(b"\r\n\r\n");
        chunk
    }

    fn break_off(
        &mut self,
        how: &Break,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ReplyError>>> {
        let (verdict, end) = match how {
            Break::Stalled => (Verdict::Stalled, End::Timeout),
            Break::Connection(_) | Break::Content => (Verdict::Cut, End::Cut),
        };
        tracing::warn!(request = %self.ledger.id(), ?how, "a reply broke off on its way");
        self.settle(end);
        self.state = State::Flushing(verdict);
        let tells = self.streaming && self.dialect != Dialect::Messages && self.at_boundary;
        if !tells {
            return self.poll_data(cx);
        }
        let (kind, message) = match verdict {
            Verdict::Cut => (ErrorKind::Api, "the engine broke off its reply"),
            Verdict::Stalled => (
                ErrorKind::Timeout,
                "the replica made no progress for too long",
            ),
        };
        let id = self.ledger.id().to_string();
        let event = vllm::error_event(self.dialect, kind, message, &id);
        Poll::Ready(Some(Ok(event.into())))
    }

    fn settle(&mut self, end: End) {
        self.ledger.end(end, self.status, self.feed.usage());
    }
}

/// How a reply that ended by itself is counted.
pub(super) fn end_of(end: StreamEnd, status: u16) -> End {
    if end == StreamEnd::Complete && status < 400 {
        End::Complete
    } else {
        End::EngineError
    }
}
