//! Reads a request's body into memory, once, within all bounds.
//!
//! Whole, because the replica can only be chosen once the model and the conversation are known,
//! and a second attempt needs the bytes again.

use std::{future::poll_fn, io, pin::Pin, task::Poll, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout};

use super::{
    budget::{Budget, Share},
    error::GatewayError,
    limits::Limits,
};

/// A refused body is read on for this long and this far, so that a client that only looks for an
/// answer once it has sent everything finds the answer instead of a reset.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);
const DISCARD_BYTES_MAX: usize = 256 << 20;

/// The largest size for which memory is set aside on the client's word alone.
const TRUSTED_LENGTH_MAX: u64 = 1 << 20;

/// A body in memory, and its share of what may be held.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// Reads the body that goes with these headers.
pub(super) async fn read(
    headers: &HeaderMap,
    mut incoming: Incoming,
    limits: &Limits,
    budget: &Budget,
) -> Result<Inbound, GatewayError> {
    let declared = incoming.size_hint().exact();
    if let Some(error) = refusal(headers, declared, limits) {
        if !headers.contains_key(header::EXPECT) {
            tokio::spawn(discard(incoming));
        }
        return Err(error);
    }
    let outcome = read_bounded(&mut incoming, declared, limits, budget).await;
    if let Err(GatewayError::BodyTooLarge { .. } | GatewayError::BufferFull) = outcome {
        tokio::spawn(discard(incoming));
    }
    outcome
}

/// What is known to be of no use before a byte of it is read.
fn refusal(headers: &HeaderMap, declared: Option<u64>, limits: &Limits) -> Option<GatewayError> {
    let coding = headers.get(header::CONTENT_ENCODING);
    if coding.is_some_and(|coding| coding != "identity") {
        return Some(GatewayError::BodyCompressed);
    }
    let bytes_max = limits.body_bytes_max;
    let too_large = declared.is_some_and(|length| length > bytes_max as u64);
    too_large.then_some(GatewayError::BodyTooLarge { bytes_max })
}

/// Lets go of a request that is answered without its body. A client that waits for `100 Continue`
/// is then never asked for it.
pub(super) fn refuse(request: Request<Incoming>) {
    let expects = request.headers().contains_key(header::EXPECT);
    let incoming = request.into_body();
    if !expects && !incoming.is_end_stream() {
        tokio::spawn(discard(incoming));
    }
}

async fn read_bounded(
    incoming: &mut Incoming,
    declared: Option<u64>,
    limits: &Limits,
    budget: &Budget,
) -> Result<Inbound, GatewayError> {
    let mut share = budget.share();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut progress = 0;
    let mut deadline = Box::pin(sleep(limits.body_timeout));
    loop {
        let frame = poll_fn(|cx| match Pin::new(&mut *incoming).poll_frame(cx) {
            Poll::Pending => deadline.as_mut().poll(cx).map(|()| Err(())),
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
        });
        let data = match frame.await {
            Err(()) => return Err(GatewayError::BodyTimeout),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(broken(&error)),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        if first.len() + rest.len() + data.len() > limits.body_bytes_max {
            return Err(GatewayError::BodyTooLarge {
                bytes_max: limits.body_bytes_max,
            });
        }
        if !share.grow(data.len()) {
            return Err(GatewayError::BufferFull);
        }
        progress += data.len();
        if progress >= limits.body_progress_bytes {
            progress = 0;
            deadline
                .as_mut()
                .reset(Instant::now() + limits.body_timeout);
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                let length = declared.unwrap_or(0).min(TRUSTED_LENGTH_MAX) as usize;
                rest.reserve(length.max(first.len() + data.len()));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    // What came in one piece is used as it lies in the connection's buffer.
    let bytes = if rest.is_empty() {
        first
    } else {
        rest.freeze()
    };
    Ok(Inbound { bytes, share })
}

/// A framing that cannot be read is told; otherwise nobody is left to be told.
fn broken(error: &hyper::Error) -> GatewayError {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => GatewayError::BodyBroken,
        _ => GatewayError::ClientGone,
    }
}

async fn discard(mut incoming: Incoming) {
    let _ = timeout(DISCARD_TIME_MAX, async {
        let mut left = DISCARD_BYTES_MAX;
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    })
    .await;
}
