//! The listener: accepts connections within a bound, and drains them on a shutdown.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Instant, sleep, timeout_at},
};

use super::{
    Gateway,
    activity::Activity,
    connection::{Phase, serve},
    crowd::{Crowd, Place},
    lanes::Lanes,
    tls::Tls,
};
use crate::seldom::Seldom;

/// After this long without a file descriptor to spare it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is left once no proxied request is (event streams of pages, half-sent requests) gets this
/// long to end.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

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
