//! The body of everything the gateway answers.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

use super::{queued::Queued, relay::Relay};

/// Any error of a body that is not ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of what the fallback (operators' API and pages) answers.
pub type FallbackBody = UnsyncBoxBody<Bytes, BoxError>;

/// Why a reply's body ends without its end: the connection is then closed, so that no client takes
/// what it has for the whole.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The engine's fault; a retry by the client may help.
    #[error("the engine broke off its reply")]
    Cut,
    /// The engine's fault; a retry by the client may help.
    #[error("the replica made no progress for too long")]
    Stalled,
    /// The client's fault.
    #[error("the client took nothing of its reply for too long")]
    NotTaken,
    /// The fallback's body failed.
    #[error(transparent)]
    Fallback(BoxError),
}

/// A reply's body.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    /// Complete and in memory.
    Held(VecDeque<Bytes>),
    /// An engine's reply as it arrives.
    Relay(Box<Relay>),
    /// A stream whose request still waits, or did when it began.
    Queued(Box<Queued>),
    Fallback(FallbackBody),
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Self(Kind::Held(VecDeque::new()))
    }

    /// Bytes in memory.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::held(VecDeque::from([bytes.into()]))
    }

    pub(super) fn held(chunks: VecDeque<Bytes>) -> Self {
        Self(Kind::Held(chunks))
    }

    pub(super) fn relay(relay: Box<Relay>) -> Self {
        Self(Kind::Relay(relay))
    }

    pub(super) fn queued(queued: Box<Queued>) -> Self {
        Self(Kind::Queued(queued))
    }

    pub(super) fn fallback(body: FallbackBody) -> Self {
        Self(Kind::Fallback(body))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = ReplyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReplyError>>> {
        match &mut self.0 {
            Kind::Held(chunks) => Poll::Ready(chunks.pop_front().map(|c| Ok(Frame::data(c)))),
            Kind::Relay(relay) => relay.poll_data(cx).map_ok(Frame::data),
            Kind::Queued(queued) => queued.poll_data(cx).map_ok(Frame::data),
            Kind::Fallback(body) => Pin::new(body).poll_frame(cx).map_err(ReplyError::Fallback),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Held(chunks) => chunks.is_empty(),
            Kind::Relay(relay) => relay.is_end(),
            Kind::Queued(queued) => queued.is_end(),
            Kind::Fallback(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Held(chunks) => SizeHint::with_exact(chunks.iter().map(|c| c.len() as u64).sum()),
            // An engine's own content-length header says it, where it said it.
            Kind::Relay(_) | Kind::Queued(_) => SizeHint::default(),
            Kind::Fallback(body) => body.size_hint(),
        }
    }
}
