//! Scripted engines: what they receive is kept as bytes, what they answer is the test's.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{net::TcpListener, task::JoinHandle};

use super::{
    MESSAGES_EVENTS,
    http::{Head, Wire},
    soon,
};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Default)]
struct Record {
    requests: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

/// An engine on a free port.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    record: Arc<Record>,
    task: JoinHandle<()>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Engine {
    /// An engine that runs this script on every connection.
    pub(crate) async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(Conn) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Record::default());
        let kept = Arc::clone(&record);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                record.connections.fetch_add(1, Ordering::SeqCst);
                record.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(Conn {
                    wire: Wire::new(stream),
                    record: Arc::clone(&record),
                }));
            }
        });
        Self {
            address,
            record: kept,
            task,
        }
    }

    /// An engine that answers every request with these bytes, keeping connections.
    pub(crate) async fn answering(reply: impl Into<String>) -> Self {
        let reply: Arc<str> = reply.into().into();
        Self::start(move |mut conn| {
            let reply = Arc::clone(&reply);
            async move {
                while conn.request().await.is_some() {
                    conn.send(&*reply).await;
                }
            }
        })
        .await
    }

    /// One that answers with this JSON.
    pub(crate) async fn answering_json(body: &str) -> Self {
        Self::answering(json_reply(body)).await
    }

    /// An engine that answers each request with the whole stream of the Messages API.
    pub(crate) async fn streaming() -> Self {
        Self::start(|mut conn: Conn| async move {
            while conn.request().await.is_some() {
                conn.begin_stream().await;
                for event in MESSAGES_EVENTS {
                    conn.event(event).await;
                }
                conn.end_stream().await;
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What arrived so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.record.requests.lock().unwrap().clone()
    }

    /// The one request that arrived.
    pub(crate) fn only(&self) -> Received {
        let received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received.into_iter().next().unwrap()
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// Connections whose script still runs.
    pub(crate) fn open_connections(&self) -> usize {
        self.record.open.load(Ordering::SeqCst)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.record.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One connection of an engine.
#[derive(Debug)]
pub(crate) struct Conn {
    wire: Wire,
    record: Arc<Record>,
}

impl Conn {
    /// The next request; `None` once the warden has closed the connection.
    pub(crate) async fn request(&mut self) -> Option<Received> {
        let head = self.wire.head().await?;
        let body = match head.header("content-length") {
            Some(length) => self.wire.exactly(length.parse().unwrap()).await?,
            None => Vec::new(),
        };
        let received = Received { head, body };
        self.record.requests.lock().unwrap().push(received.clone());
        Some(received)
    }

    /// Sends bytes; the warden may have gone.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.wire.write(bytes.as_ref()).await;
    }

    /// Begins a stream of events.
    pub(crate) async fn begin_stream(&mut self) {
        self.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
    }

    /// Sends one chunk of it.
    pub(crate) async fn event(&mut self, event: &str) {
        self.send(format!("{:x}\r\n{event}\r\n", event.len())).await;
    }

    /// Ends it as HTTP asks.
    pub(crate) async fn end_stream(&mut self) {
        self.send("0\r\n\r\n").await;
    }

    /// Returns once the warden has closed the connection.
    pub(crate) async fn closed(&mut self) {
        soon(
            "the warden to close the engine's connection",
            self.wire.closed(),
        )
        .await;
    }

    /// Closes with a reset instead of an end.
    pub(crate) fn reset(self) {
        self.wire.stream.set_zero_linger().unwrap();
    }
}

/// A reply with a JSON body.
pub(crate) fn json_reply(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
