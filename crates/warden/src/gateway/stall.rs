//! A client's socket that does not wait for ever to be read.
//!
//! A client that takes nothing would otherwise hold its engine's slot and its buffers until it
//! goes away by itself.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

use super::peer::Peer;

/// See the module.
#[derive(Debug)]
pub(super) struct StallGuard {
    stream: TcpStream,
    peer: Arc<Peer>,
    timeout: Duration,
    /// Runs while bytes wait that the client does not take.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl StallGuard {
    pub(super) fn new(stream: TcpStream, peer: Arc<Peer>, timeout: Duration) -> Self {
        Self {
            stream,
            peer,
            timeout,
            waiting: None,
        }
    }

    /// The socket itself.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let timeout = self.timeout;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(timeout)));
        waiting
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl Drop for StallGuard {
    fn drop(&mut self) {
        if self.peer.wants_reset() {
            // Best effort: without it an HTTP/1.0 client takes a cut reply for a whole one.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for StallGuard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for StallGuard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
