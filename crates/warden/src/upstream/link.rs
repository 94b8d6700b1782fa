//! One connection to an engine, driven by whoever holds it.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    thread::{self, ThreadId},
};

use http::{Request, Response};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::{Payload, Reply, Target, network::Stream};

/// Why a request that was handed to a connection brought no reply head.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A reused connection broke before any byte of a reply: the engine had most likely closed it
    /// while idle. The same replica may be asked again on a fresh connection.
    #[error("a reused connection had gone stale: {0}")]
    Stale(#[source] hyper::Error),
    /// A fresh connection broke before any byte of a reply: the engine's fault.
    #[error("the engine closed the connection: {0}")]
    Died(#[source] hyper::Error),
    /// What came back is not HTTP/1.1: the engine's fault, and no retry helps.
    #[error("the engine's reply is not valid HTTP: {0}")]
    Garbled(#[source] hyper::Error),
}

/// A connection that carries one request at a time.
pub struct Link {
    sender: SendRequest<Payload>,
    /// `None` once the connection has closed.
    driver: Option<Connection<TokioIo<Stream>, Payload>>,
    reused: bool,
    /// The thread that opened it; its runtime is the one that hears of the socket.
    home: ThreadId,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("open", &self.driver.is_some())
            .field("reused", &self.reused)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) async fn open(stream: Stream) -> Result<Box<Self>, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Box::new(Self {
            sender,
            driver: Some(driver),
            reused: false,
            home: thread::current().id(),
        }))
    }

    /// Whether the connection has carried a request before.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Moves bytes in both directions as far as they go now; false once the connection is closed.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(driver) = &mut self.driver else {
            return false;
        };
        if Pin::new(driver).poll(cx).is_pending() {
            return true;
        }
        // Dropping it fails what still waits in its channels; kept, they would wait for ever. The
        // error itself reaches the caller through the reply that it broke.
        self.driver = None;
        false
    }

    /// Whether it can carry another request right now.
    pub(super) fn is_idle(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx) && matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(())))
    }

    /// Whether using it here wakes no other thread.
    pub(super) fn is_at_home(&self) -> bool {
        self.home == thread::current().id()
    }

    pub(super) fn mark_reused(&mut self) {
        self.reused = true;
    }

    /// Sends a request and waits for the reply's head. Dropping the future closes the connection,
    /// as does dropping the reply before its end; a reply read to its end gives the connection
    /// back to `target`'s pool.
    pub async fn send(
        mut self: Box<Self>,
        target: &Arc<Target>,
        request: Request<Payload>,
    ) -> Result<Response<Reply>, SendError> {
        let mut response = pin!(self.sender.send_request(request));
        let result = poll_fn(|cx| {
            self.drive(cx);
            response.as_mut().poll(cx)
        })
        .await;
        match result {
            Ok(response) => Ok(response.map(|body| Reply::new(body, self, Arc::clone(target)))),
            Err(error) if error.is_parse() => Err(SendError::Garbled(error)),
            Err(error) if self.reused => Err(SendError::Stale(error)),
            Err(error) => Err(SendError::Died(error)),
        }
    }
}
