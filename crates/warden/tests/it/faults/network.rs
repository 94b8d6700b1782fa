//! Connections in memory, which can be refused, hang, be reset, or find no file left.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use warden::upstream::{Network, Pipe};

use super::engine::{Engine, State};

/// What lies between two ends, in bytes, in each direction.
const BETWEEN_BYTES: usize = 16 << 10;

/// The gateway's end of a connection to an engine.
struct Near {
    pipe: DuplexStream,
    /// Whether the other end was reset rather than closed.
    reset: Arc<AtomicBool>,
}

impl AsyncRead for Near {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.pipe).poll_read(cx, buffer);
        let ended = matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if ended && self.reset.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        read
    }
}

impl AsyncWrite for Near {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// The engine's end.
pub(super) struct Far {
    pub(super) pipe: DuplexStream,
    pub(super) reset: Arc<AtomicBool>,
}

/// Where the engine `r3` is the fourth of these.
pub(super) fn between(engines: Vec<Arc<Engine>>) -> Network {
    Network::MadeUp(Arc::new(move |host, _port| {
        let number: usize = host[1..].parse().unwrap();
        let engine = Arc::clone(&engines[number]);
        Box::pin(async move {
            match engine.state() {
                State::Up | State::Wedged | State::SilentlyWedged => {
                    let (near, far) = duplex(BETWEEN_BYTES);
                    let reset = Arc::new(AtomicBool::new(false));
                    tokio::spawn(engine.serve(Far {
                        pipe: far,
                        reset: Arc::clone(&reset),
                    }));
                    let near: Pin<Box<dyn Pipe>> = Box::pin(Near { pipe: near, reset });
                    Ok(near)
                }
                State::Down => Err(io::ErrorKind::ConnectionRefused.into()),
                State::Unreachable => std::future::pending().await,
                // EMFILE
                State::NoFileLeft => Err(io::Error::from_raw_os_error(24)),
            }
        })
    }))
}
