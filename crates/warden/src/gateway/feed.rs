//! An engine's reply as a series of steps: bytes that may pass, and how it ends.
//!
//! The tap reads along and says how much may pass; a `message_delta` with `stop_reason: null`
//! never does, since a dying vLLM makes a cut reply look complete with it.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header, response::Parts};
use vllm::{Dialect, ReplyTap, StreamEnd, TapOutput, Usage};

use super::watchdog::Watchdog;
use crate::{clock, upstream::Reply};

/// What came next.
#[derive(Debug)]
pub(super) enum Step {
    /// Bytes for the client.
    Data(Bytes),
    /// The reply is over; the end is `Complete` or `EngineError`.
    End(StreamEnd),
    /// It is over without its end.
    Broken(Break),
}

/// How a reply broke.
#[derive(Debug)]
pub(super) enum Break {
    /// The connection did.
    Connection(hyper::Error),
    /// HTTP says it is whole, its content that it is not.
    Content,
    /// Neither it nor its replica moved.
    Stalled,
}

/// A reply being read.
#[derive(Debug)]
pub(super) struct Feed {
    reply: Reply,
    /// `None` where nothing can be read in it: no dialect, or compressed.
    tap: Option<ReplyTap>,
    /// Came, but may not pass yet.
    held: BytesMut,
    broken: bool,
    begun: bool,
    /// Known once the engine has ended the body.
    end: Option<StreamEnd>,
    watchdog: Watchdog,
}

impl Feed {
    pub(super) fn new(dialect: Dialect, head: &Parts, reply: Reply, watchdog: Watchdog) -> Self {
        let readable =
            dialect != Dialect::Other && !head.headers.contains_key(header::CONTENT_ENCODING);
        let tap = readable.then(|| {
            ReplyTap::new(
                dialect,
                is_event_stream(&head.headers),
                head.status.as_u16(),
            )
        });
        Self {
            reply,
            tap,
            held: BytesMut::new(),
            broken: false,
            begun: false,
            end: None,
            watchdog,
        }
    }

    /// Token usage, final once the reply is over.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.tap.as_ref().and_then(ReplyTap::usage)
    }

    /// How it ended, as soon as its last bytes have been given out.
    pub(super) fn ended(&self) -> Option<StreamEnd> {
        self.end
    }

    /// Whether something other than pings and comments has come.
    pub(super) fn saw_first_event(&self) -> bool {
        self.tap
            .as_ref()
            .map_or(self.begun, ReplyTap::saw_first_event)
    }

    /// Whether the engine has sent any byte of the body.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The next step. Not to be called after `End` or `Broken`.
    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            if self.broken {
                return Poll::Ready(Step::Broken(Break::Content));
            }
            if let Some(end) = self.end {
                return Poll::Ready(Step::End(end));
            }
            let Poll::Ready(next) = self.reply.poll_data(cx) else {
                let stalled = self.watchdog.poll_stalled(cx);
                return stalled.map(|()| Step::Broken(Break::Stalled));
            };
            match next {
                Some(Ok(chunk)) => {
                    self.begun = true;
                    self.watchdog.saw_byte(clock::now());
                    let passed = self.pass(chunk);
                    // A body of known length is over with its last byte: nobody may ask again.
                    if self.reply.is_end() && !self.broken {
                        return Poll::Ready(self.finish(passed));
                    }
                    if let Some(data) = passed {
                        return Poll::Ready(Step::Data(data));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Step::Broken(Break::Connection(error))),
                None => return Poll::Ready(self.finish(None)),
            }
        }
    }

    /// What of the held bytes and this chunk may go on.
    fn pass(&mut self, chunk: Bytes) -> Option<Bytes> {
        let Some(tap) = &mut self.tap else {
            return Some(chunk).filter(|chunk| !chunk.is_empty());
        };
        let bytes = match tap.feed(&chunk) {
            TapOutput::Pass(bytes) => bytes,
            TapOutput::Broken(bytes) => {
                self.broken = true;
                bytes
            }
        };
        // The usual case costs nothing: the chunk goes on as it came.
        if self.held.is_empty() && bytes == chunk.len() {
            return Some(chunk).filter(|chunk| !chunk.is_empty());
        }
        self.held.extend_from_slice(&chunk);
        let passed = self.held.split_to(bytes.min(self.held.len()));
        (!passed.is_empty()).then(|| passed.freeze())
    }

    /// The body is over, with `last` as its last bytes. Those of a reply that is cut all the same
    /// do not pass, lest HTTP makes it whole.
    fn finish(&mut self, last: Option<Bytes>) -> Step {
        let end = match &mut self.tap {
            Some(tap) => tap.finish(),
            None => StreamEnd::Complete,
        };
        if end == StreamEnd::Cut {
            return Step::Broken(Break::Content);
        }
        self.end = Some(end);
        // What is held now stands behind the reply's own end: of no use, but the engine's.
        let held = std::mem::take(&mut self.held);
        let data = match last {
            Some(last) if held.is_empty() => last,
            Some(last) => [last, held.freeze()].concat().into(),
            None if held.is_empty() => return Step::End(end),
            None => held.freeze(),
        };
        Step::Data(data)
    }
}

/// Whether the reply is a stream of server-sent events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}
