//! A reply over HTTP/2 that its client does not take.
//!
//! There a client holds one stream back (a window of nothing) while the socket stays quick, so that
//! the socket's guard (`stall`) never sees it: the reply is given up by itself, and the engine's
//! request with it. The connection and its other streams go on.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::body::{Body, ReplyError};

/// A reply's body that is dropped once its client took nothing for so long.
#[derive(Debug)]
pub(super) struct Taken {
    state: Arc<Mutex<State>>,
    watch: AbortHandle,
}

#[derive(Debug)]
struct State {
    /// `None` once it was given up.
    body: Option<Body>,
    /// Since when the client has had something that it has not taken; `None` while the engine is to
    /// bring more.
    given: Option<Instant>,
}

impl Taken {
    /// Must be called within a runtime.
    pub(super) fn within(timeout: Duration, body: Body) -> Self {
        let state = Arc::new(Mutex::new(State {
            body: Some(body),
            given: Some(Instant::now()),
        }));
        let watch = tokio::spawn(watch(Arc::downgrade(&state), timeout)).abort_handle();
        Self { state, watch }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn watch(state: Weak<Mutex<State>>, timeout: Duration) {
    loop {
        let Some(state) = state.upgrade() else { return };
        let (next, given_up) = state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .look(timeout);
        drop(state);
        if let Some(body) = given_up {
            tracing::debug!("a client took nothing of a reply for too long");
            return drop(body);
        }
        sleep_until(next).await;
    }
}

impl State {
    /// When to look again, or the body where it is time to give it up.
    fn look(&mut self, timeout: Duration) -> (Instant, Option<Body>) {
        let now = Instant::now();
        let due = self.given.unwrap_or(now) + timeout;
        let given_up = if due <= now { self.body.take() } else { None };
        (due, given_up)
    }
}

impl HttpBody for Taken {
    type Data = Bytes;
    type Error = ReplyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReplyError>>> {
        let mut state = self.state();
        let Some(body) = &mut state.body else {
            return Poll::Ready(Some(Err(ReplyError::NotTaken)));
        };
        let frame = Pin::new(body).poll_frame(cx);
        state.given = frame.is_ready().then(Instant::now);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.state().body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.state();
        state.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
