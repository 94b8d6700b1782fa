//! The listener: accepts connections within a bound, and drains them on a shutdown.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Version;
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
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Instant, sleep, timeout_at},
};

use super::{
    Gateway,
    activity::Activity,
    crowd::{Crowd, Place},
    lanes::Lanes,
    limits::Limits,
    stall::StallGuard,
    taken::Taken,
    tls::{Tls, speaks_http2},
    unreadable::{Hands, Unreadable},
};
use crate::seldom::Seldom;

/// After this long without a file descriptor to spare it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is left once no proxied request is (event streams of pages, half-sent requests) gets this
/// long to end.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

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

/// The other end of a client's connection.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    old: AtomicBool,
    reset: AtomicBool,
}

impl Peer {
    /// A client at this address.
    pub fn new(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            old: AtomicBool::new(false),
            reset: AtomicBool::new(false),
        })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn speaks(&self, version: Version) {
        self.old
            .store(version < Version::HTTP_11, Ordering::Relaxed);
    }

    /// The reply was cut. HTTP/1.1 shows that by itself; for an older client, whose replies end
    /// with the connection, only a reset does.
    pub(super) fn reset_on_close(&self) {
        self.reset
            .store(self.old.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn wants_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Draining,
    Aborting,
}

/// Ends a running [`Server`].
#[derive(Debug, Clone)]
pub struct DrainHandle {
    phase: Arc<watch::Sender<Phase>>,
    activity: Activity,
}

impl DrainHandle {
    /// Accept nothing more, refuse what waits for room, let what is in flight end, within the bound
    /// of [`super::Limits::drain_timeout`].
    pub fn drain(&self) {
        self.activity.close();
        self.raise(Phase::Draining);
    }

    /// End at once, cutting off what is in flight.
    pub fn abort(&self) {
        self.activity.close();
        self.activity.abort();
        self.raise(Phase::Aborting);
    }

    fn raise(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let later = to > *phase;
            if later {
                *phase = to;
            }
            later
        });
    }
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Proxied requests that were cut off.
    pub cut_off: usize,
}

/// Serves a gateway's connections.
#[derive(Debug)]
pub struct Server {
    gateway: Arc<Gateway>,
    handle: DrainHandle,
    permits: Arc<Semaphore>,
    crowd: Crowd,
    tls: Option<Arc<Tls>>,
    lanes: Option<Lanes>,
    full: Seldom,
    crowded: Seldom,
    failing: Seldom,
}

impl Server {
    /// A server and the handle that ends it.
    pub fn new(gateway: Arc<Gateway>) -> (Self, DrainHandle) {
        let handle = DrainHandle {
            phase: Arc::new(watch::Sender::new(Phase::Serving)),
            activity: gateway.activity.clone(),
        };
        let permits = Arc::new(Semaphore::new(gateway.limits.connections_max));
        let crowd = Crowd::new(gateway.limits.connections_per_address_max);
        let server = Self {
            gateway,
            handle: handle.clone(),
            permits,
            crowd,
            tls: None,
            lanes: None,
            full: Seldom::default(),
            crowded: Seldom::default(),
            failing: Seldom::default(),
        };
        (server, handle)
    }

    /// Takes TLS connections only.
    #[must_use]
    pub fn over(mut self, tls: Option<Arc<Tls>>) -> Self {
        self.tls = tls;
        self
    }

    /// Serves connections on threads of their own instead of the runtime that accepts them.
    #[must_use]
    pub fn on(mut self, lanes: Lanes) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Accepts until the handle drains or aborts, then returns once everything has ended.
    pub async fn run(self, listener: TcpListener) -> Drained {
        let (alive, all_closed) = mpsc::channel::<Infallible>(1);
        let mut phase = self.handle.phase.subscribe();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase > Phase::Serving) => break,
                accepted = self.accept(&listener) => accepted,
            };
            if let Some((stream, address, held)) = accepted {
                self.start((stream, address), (held, alive.clone()));
            }
        }
        drop((listener, alive));
        self.drain(all_closed).await
    }

    fn start(&self, (stream, address): (TcpStream, SocketAddr), held: impl Send + 'static) {
        let (gateway, tls) = (Arc::clone(&self.gateway), self.tls.clone());
        let phase = self.handle.phase.subscribe();
        let serve = move |stream| async move {
            serve(gateway, tls, (stream, address), phase).await;
            drop(held);
        };
        let Some(lanes) = &self.lanes else {
            tokio::spawn(serve(stream));
            return;
        };
        if let Err(error) = lanes.spawn(stream, serve) {
            tracing::warn!(client = %address, %error, "a connection could not be served");
        }
    }

    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Held)> {
        if self.permits.available_permits() == 0
            && let Some(times) = self.full.due()
        {
            let connections = self.gateway.limits.connections_max;
            tracing::warn!(
                connections,
                times,
                "all connections are in use; new ones wait"
            );
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        match listener.accept().await {
            Ok((stream, address)) => {
                let place = self.place(address)?;
                Some((stream, address, (permit, place)))
            }
            Err(error) => {
                if let Some(times) = self.failing.due() {
                    tracing::warn!(%error, times, "connections could not be accepted");
                }
                sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    fn place(&self, address: SocketAddr) -> Option<Place> {
        let place = self.crowd.enter(address.ip());
        if place.is_none()
            && let Some(times) = self.crowded.due()
        {
            let connections = self.gateway.limits.connections_per_address_max;
            tracing::warn!(
                client = %address.ip(),
                connections,
                times,
                "an address has all connections that one may have; new ones are closed"
            );
        }
        place
    }

    async fn drain(&self, mut all_closed: mpsc::Receiver<Infallible>) -> Drained {
        let activity = &self.gateway.activity;
        let bound = self.gateway.limits.drain_timeout;
        let requests = activity.present();
        tracing::info!(requests, bound_s = bound.as_secs_f64(), "draining");
        let deadline = Instant::now() + bound;
        let finished = async {
            let _ = timeout_at(deadline, activity.none_left()).await;
            let grace = deadline.min(Instant::now() + LEFTOVER_GRACE);
            let _ = timeout_at(grace, all_closed.recv()).await;
        };
        let mut phase = self.handle.phase.subscribe();
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Aborting) => {}
            () = finished => {}
        }
        self.handle.abort();
        // Every connection's task ends at its next turn, and with it what it held.
        while all_closed.recv().await.is_some() {}
        let cut_off = activity.cut_off();
        if cut_off > 0 {
            tracing::warn!(requests = cut_off, "cut off what was still in flight");
        }
        Drained { cut_off }
    }
}

/// What a connection holds until it ends.
type Held = (OwnedSemaphorePermit, Place);

async fn serve(
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
