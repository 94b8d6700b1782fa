//! An HTTP/1.1 client that times the first body byte.
//!
//! Kept-alive connections, one request at a time on each, as agents do. The clock starts before the
//! request is written: a proxy that reads the body first has to show that.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What a client measured of one request.
pub(crate) struct Timing {
    pub(crate) first_byte: Duration,
}

/// One kept-alive connection to a target.
pub(crate) struct Connection {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { address, sender })
    }

    /// Sends one turn and reads the whole reply.
    pub(crate) async fn turn(&mut self, caller: &Caller, body: &Bytes) -> anyhow::Result<Timing> {
        let started = Instant::now();
        let mut reply = self.send(caller, body, &[]).await?;
        ensure!(
            reply.status() == 200,
            "{} answered {}",
            self.address,
            reply.status()
        );
        let mut first_byte = None;
        while let Some(frame) = reply.body_mut().frame().await {
            frame?;
            first_byte.get_or_insert_with(|| started.elapsed());
        }
        Ok(Timing {
            first_byte: first_byte.context("an empty reply")?,
        })
    }

    /// Sends one turn; the reply's body is still to be read. Opens a new connection first
    /// if the target has closed this one in between.
    pub(crate) async fn send(
        &mut self,
        caller: &Caller,
        body: &Bytes,
        headers: &[(&str, String)],
    ) -> anyhow::Result<Response<Incoming>> {
        if self.sender.ready().await.is_err() {
            *self = Self::open(self.address).await?;
            self.sender.ready().await?;
        }
        let mut request = http::Request::post("/v1/messages?beta=true")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("user-agent", "proxy-bench")
            .header("anthropic-version", "2023-06-01")
            .header("x-claude-code-session-id", &caller.session);
        if let Some(key) = &caller.key {
            request = request.header("x-api-key", key);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body.clone()))?;
        Ok(self.sender.send_request(request).await?)
    }

    /// The body of a `GET`.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.sender.ready().await?;
        let request = http::Request::get(path)
            .header("host", self.address.to_string())
            .body(Full::default())?;
        let reply = self.sender.send_request(request).await?;
        Ok(reply.into_body().collect().await?.to_bytes())
    }
}

/// Whose turn it is.
pub(crate) struct Caller {
    session: String,
    key: Option<String>,
}

/// Sessions that take turns, shared out among owners by their keys.
#[derive(Clone)]
pub(crate) struct Sessions {
    count: usize,
    keys: Arc<[String]>,
}

impl Sessions {
    /// So many, of nobody in particular.
    pub(crate) fn new(count: usize) -> Self {
        Self::of(Vec::new(), count)
    }

    /// So many, an equal part of them for each key.
    pub(crate) fn of(keys: Vec<String>, count: usize) -> Self {
        Self {
            count: count.max(1),
            keys: keys.into(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Who sends request `n`; ids have the form of Claude Code's.
    pub(crate) fn caller(&self, n: usize) -> Caller {
        let n = n % self.count;
        let key = self.keys.get(n % self.keys.len().max(1)).cloned();
        let mixed = n.wrapping_mul(2_654_435_761) & 0xffff_ffff;
        let session = format!("{mixed:08x}-5eed-4000-8000-{n:012x}");
        Caller { session, key }
    }
}
