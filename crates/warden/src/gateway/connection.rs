//! One client's connection: which protocol it speaks and within what bounds, and how it ends.

use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
};

use super::{
    Gateway,
    limits::Limits,
    peer::Peer,
    stall::StallGuard,
    taken::Taken,
    tls::{Tls, speaks_http2},
    unreadable::{Hands, Unreadable},
};

/// Size up to which a connection's read buffer grows: a prompt of some hundred KB then takes few
/// reads.
const READ_BUFFER_BYTES_MAX: usize = 512 << 10;

/// An HTTP/2 connection that says nothing is asked this often whether it is still there, and closed
/// where it does not answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// What a client may send ahead on one HTTP/2 stream, and on all of a connection: enough that a
/// prompt of some hundred KB does not wait for a round trip per 64 KiB.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// How far a server's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    Draining,
    Aborting,
}

/// Serves a connection to its end.
pub(super) async fn serve(
    gateway: Arc<Gateway>,
    tls: Option<Arc<Tls>>,
    (stream, address): (TcpStream, SocketAddr),
    mut phase: watch::Receiver<Phase>,
) {
    // Without it small events wait for acknowledgements; where it fails they merely do that.
    let _ = stream.set_nodelay(true);
    let peer = Peer::new(address);
    let limits = gateway.limits;
    let io = StallGuard::new(stream, Arc::clone(&peer), limits.write_timeout);
    let Some(tls) = tls else {
        return serve_http1(gateway, peer, io, phase).await;
    };
    let accepted = tokio::select! {
        biased;
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => return,
        accepted = tls.accept(io, limits.handshake_timeout) => accepted,
    };
    match accepted {
        Ok(io) if speaks_http2(&io) => {
            let answers = service_fn(move |request| {
                let (gateway, peer) = (Arc::clone(&gateway), Arc::clone(&peer));
                async move {
                    let reply = gateway.handle(request, peer).await;
                    let timeout = limits.write_timeout;
                    Ok::<_, Infallible>(reply.map(|body| Taken::within(timeout, body)))
                }
            });
            let connection = http2(&limits).serve_connection(TokioIo::new(io), answers);
            drive(connection, address, phase).await;
        }
        Ok(io) => serve_http1(gateway, peer, io, phase).await,
        Err(error) => tracing::debug!(client = %address, %error, "no handshake"),
    }
}

async fn serve_http1<I>(
    gateway: Arc<Gateway>,
    peer: Arc<Peer>,
    io: I,
    phase: watch::Receiver<Phase>,
) where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (limits, address) = (gateway.limits, peer.address());
    let hands = Arc::<Hands>::default();
    let io = Unreadable::new(io, Arc::clone(&gateway), Arc::clone(&hands));
    let answers = service_fn(move |request| {
        let (gateway, peer, in_hand) = (Arc::clone(&gateway), Arc::clone(&peer), hands.take());
        async move { Ok::<_, Infallible>(in_hand.until_end_of(gateway.handle(request, peer).await)) }
    });
    let connection = http1(&limits).serve_connection(TokioIo::new(io), answers);
    drive(connection, address, phase).await;
}

fn http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.header_bytes_max)
        .max_buf_size(READ_BUFFER_BYTES_MAX)
        // Replies are many small events: gathered in one buffer, those that are there at the same
        // time leave with one write, where a list of pieces takes one for every few of them.
        .writev(false)
        // A client that closes its sending side has left, as far as anybody can tell: the same FIN
        // comes from one that was killed, and its engine must stop at once, not at the next token.
        .half_close(false);
    builder
}

fn http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(limits.streams_per_connection_max)
        .max_header_list_size(limits.header_bytes_max as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

/// Drives a connection to its end, which a drain asks for and an abort does not wait for.
async fn drive<C>(connection: C, address: SocketAddr, mut phase: watch::Receiver<Phase>)
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let mut seen = Phase::Serving;
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(client = %address, %error, "a connection ended early");
                }
                return;
            }
            now = phase.wait_for(|phase| *phase > seen) => {
                seen = now.map_or(Phase::Aborting, |phase| *phase);
                if seen == Phase::Aborting {
                    return;
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
