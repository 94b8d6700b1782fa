//! An engine's reply body, which moves its connection along as it is read.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;

use super::{Link, Target};

/// Read it to its end and the connection returns to the pool; drop it earlier and the connection
/// closes at once.
#[derive(Debug)]
pub struct Reply {
    incoming: Incoming,
    link: Option<Box<Link>>,
    target: Arc<Target>,
}

impl Reply {
    pub(super) fn new(incoming: Incoming, link: Box<Link>, target: Arc<Target>) -> Self {
        Self {
            incoming,
            link: Some(link),
            target,
        }
    }

    /// Whether all of the body has been read.
    pub fn is_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The next bytes as the engine sent them, `None` at a clean end of the body. Trailers are not
    /// passed on (the client was never offered any).
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            if let Some(link) = &mut self.link {
                link.drive(cx);
            }
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    if self.incoming.is_end_stream() {
                        self.release(cx);
                    }
                    return Poll::Ready(Some(Ok(data)));
                }
                Some(Err(error)) => {
                    self.link = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.release(cx);
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn release(&mut self, cx: &mut Context<'_>) {
        if let Some(mut link) = self.link.take()
            && link.is_idle(cx)
        {
            self.target.put(link);
        }
    }
}
