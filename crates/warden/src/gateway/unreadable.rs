//! Heads that hyper cannot read: answered in the shape of the API that was called.
//!
//! hyper answers them by itself, with a bare status, before any service of ours is asked, and has no
//! hook for it. So the answer is exchanged on its way out. That it is hyper's own is not guessed
//! from its bytes, which a reply could imitate, but known: nothing else is written while no request
//! is in hand. Where that is not certain (garbage behind a request whose reply has not left yet)
//! hyper's answer goes out as it is.
//!
//! HTTP/2 has no such answers: there a bad head ends its stream with an error code, or the h2 crate
//! sends a bare 431.

use std::{
    io::{self, Write as _},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::{Gateway, error::GatewayError, request_line::RequestLine, stamp::Stamp};

/// What the client still sends is read for this long and this far, so that it finds the answer
/// instead of a reset.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Hands {
    taken: AtomicU64,
    done: AtomicU64,
}

impl Hands {
    /// One is in hand until the result is dropped.
    pub(super) fn take(self: &Arc<Self>) -> InHand {
        self.taken.fetch_add(1, Ordering::Relaxed);
        InHand(Arc::clone(self))
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many there have been, where all of them are done.
    fn idle(&self) -> Option<u64> {
        let done = self.done.load(Ordering::Acquire);
        (done == self.taken()).then_some(done)
    }
}

/// A request in hand.
#[derive(Debug)]
pub(super) struct InHand(Arc<Hands>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

impl InHand {
    /// Until the reply's body has been taken.
    pub(super) fn until_end_of<B>(self, response: Response<B>) -> Response<Answered<B>> {
        response.map(|body| Answered {
            body,
            _in_hand: self,
        })
    }
}

/// A reply's body, and the request that it answers.
#[derive(Debug)]
pub(super) struct Answered<B> {
    body: B,
    _in_hand: InHand,
}

impl<B: HttpBody + Unpin> HttpBody for Answered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A client's HTTP/1 connection; see the module.
pub(super) struct Unreadable<I> {
    io: I,
    gateway: Arc<Gateway>,
    hands: Arc<Hands>,
    /// Requests so far, when all of them were answered and what was written had left.
    idle: Option<u64>,
    line: RequestLine,
    answer: Option<Answer>,
    linger: Option<Linger>,
}

/// What is written in place of hyper's.
struct Answer {
    bytes: Vec<u8>,
    written: usize,
}

struct Linger {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
    sent_end: bool,
}

impl<I> Unreadable<I> {
    pub(super) fn new(io: I, gateway: Arc<Gateway>, hands: Arc<Hands>) -> Self {
        Self {
            io,
            gateway,
            hands,
            idle: Some(0),
            line: RequestLine::default(),
            answer: None,
            linger: None,
        }
    }

    /// What to write in place of this.
    fn instead_of(&self, head: &[u8]) -> Option<Answer> {
        if self.idle != Some(self.hands.taken()) || self.line.asks_for_head() {
            return None;
        }
        let error = match head.get(9..12)? {
            b"400" => GatewayError::HeadBroken,
            b"414" | b"431" => GatewayError::HeadTooLarge {
                bytes_max: self.gateway.limits.header_bytes_max,
            },
            _ => return None,
        };
        let stamp = Stamp::undecided(self.gateway.ids.next());
        tracing::debug!(request = %stamp.id, "{error}");
        let mut lines = head.split(|&byte| byte == b'\n');
        let date = lines.find(|line| line.starts_with(b"date:"));
        let response = error.response_text(self.line.dialect(), &stamp);
        let bytes = serialised(&response, date.unwrap_or_default());
        Some(Answer { bytes, written: 0 })
    }
}

fn serialised(response: &Response<Vec<u8>>, date: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    let status = response.status();
    let body = response.body();
    let written = write!(
        bytes,
        "HTTP/1.1 {} {}\r\nconnection: close\r\ncontent-length: {}\r\n",
        status.as_str(),
        status.canonical_reason().unwrap_or_default(),
        body.len()
    );
    written.expect("memory takes all that is written");
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    if let Some(date) = date.strip_suffix(b"\r") {
        bytes.extend_from_slice(date);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

impl<I: AsyncRead + Unpin> AsyncRead for Unreadable<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        self.line.feed(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Unreadable<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.answer.is_none() {
            this.answer = this.instead_of(bytes);
        }
        // What is written from here on is no first word any more.
        this.idle = None;
        let Some(answer) = &mut this.answer else {
            return Pin::new(&mut this.io).poll_write(cx, bytes);
        };
        while let Some(rest @ [_, ..]) = answer.bytes.get(answer.written..) {
            answer.written += ready!(Pin::new(&mut this.io).poll_write(cx, rest))?;
        }
        this.answer = None;
        this.linger = Some(Linger {
            until: Box::pin(sleep(LINGER)),
            bytes_left: LINGER_BYTES_MAX,
            sent_end: false,
        });
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        let idle = self.hands.idle();
        if idle != self.idle {
            self.idle = idle;
            self.line = RequestLine::default();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(linger) = &mut this.linger else {
            return Pin::new(&mut this.io).poll_shutdown(cx);
        };
        if !linger.sent_end {
            ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
            linger.sent_end = true;
        }
        linger.poll(&mut this.io, cx).map(Ok)
    }
}

impl Linger {
    fn poll<I: AsyncRead + Unpin>(&mut self, io: &mut I, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        while self.until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer));
            let bytes = buffer.filled().len();
            match self.bytes_left.checked_sub(bytes) {
                Some(left) if read.is_ok() && bytes > 0 => self.bytes_left = left,
                _ => break,
            }
        }
        Poll::Ready(())
    }
}
