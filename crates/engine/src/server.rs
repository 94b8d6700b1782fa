//! Sockets: accepts connections, gives each to an API server, and ends them all.
//!
//! Keep-alive connections close after 5 idle seconds, as vLLM's do. On a stop nothing is drained:
//! with several API servers (its default) vLLM resets its streams, too.

mod connection;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::{HeaderValue, Request, Response, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};
use tower_service::Service;

use crate::{
    Config, ConfigError, Fault, FaultError,
    api::{self, Connection, DropConnection},
    core::Core,
};
use connection::ResettableStream;

/// vLLM's (uvicorn's) `timeout_keep_alive`.
const KEEP_ALIVE_IDLE_MAX: Duration = Duration::from_secs(5);
/// Pause after a failed accept, e.g. for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// Why a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was told to.
    Stopped,
    /// A fault ended it, as vLLM ends: the process's exit code is 0.
    Died,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A fault of the configuration.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The socket.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
}

/// A server in this process, on a free loopback port. Dropping it stops it.
pub struct Engine {
    core: Arc<Core>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Exit>,
}

impl Engine {
    /// Starts a server; it answers when this returns.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let core = Core::start(config)?;
        let shutdown = async {
            // Dropping the engine stops it, too.
            let _ = stopped.await;
        };
        let task = tokio::spawn(run(Arc::clone(&core), listener, shutdown));
        Ok(Self {
            core,
            address,
            stop,
            task,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a fault happen, or wait for its requests.
    pub fn inject(&self, fault: Fault) -> Result<(), FaultError> {
        self.core.inject(fault)
    }

    /// Stops it, breaking its connections.
    pub async fn stop(self) {
        drop(self.stop);
        // Its task is never aborted and does not panic; either way it has ended.
        let _ = self.task.await;
    }

    /// Waits until it ends by itself, by a fault.
    pub async fn ended(&mut self) -> Exit {
        (&mut self.task).await.unwrap_or(Exit::Died)
    }
}

/// Serves on a listener until `shutdown` or a fault.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<Exit, StartError> {
    Ok(run(Core::start(config)?, listener, shutdown).await)
}

async fn run(core: Arc<Core>, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Exit {
    let router = api::router(&core);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Exit::Stopped,
            exit = core.exit() => return exit,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let api_server = core.balancer.accept();
                    connections.spawn(talk(stream, api_server, router.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
}

async fn talk(stream: TcpStream, api_server: usize, router: Router) {
    // Without it, Nagle's algorithm would hold back each event for the last one's acknowledgement.
    let _ = stream.set_nodelay(true);
    let stream = ResettableStream::new(stream);
    let connection = Connection {
        api_server,
        reset: stream.reset_flag(),
    };
    let service = service_fn(move |request| answer(router.clone(), connection.clone(), request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE_IDLE_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(
    mut router: Router,
    connection: Connection,
    mut request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    request.extensions_mut().insert(connection);
    let answered: Result<_, Infallible> = router.call(request).await;
    let mut response = answered.unwrap_or_else(|never| match never {});
    if response.extensions().get::<DropConnection>().is_some() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let server = HeaderValue::from_static("uvicorn");
    response.headers_mut().insert(header::SERVER, server);
    let origin = HeaderValue::from_static("Origin");
    response.headers_mut().insert(header::VARY, origin);
    Ok(response)
}
