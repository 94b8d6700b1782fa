//! A client that sends bytes and sees how a reply ends.

use std::net::SocketAddr;

use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    http::{Head, Wire},
    soon,
};

/// A connection to the warden.
#[derive(Debug)]
pub(crate) struct Client(Wire);

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its last chunk, or all bytes of its length.
    Cleanly,
    /// Before that.
    Broken,
}

/// A whole reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: Ended,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(Wire::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon("room to send", self.0.write(bytes.as_ref()))
            .await
            .unwrap();
    }

    /// Sends, where the other side may already have closed.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write(bytes.as_ref()).await.is_ok()
    }

    pub(crate) async fn head(&mut self) -> Head {
        soon("a reply's head", self.0.head())
            .await
            .expect("the warden closed the connection instead of answering")
    }

    /// Whether nothing has come so far.
    pub(crate) fn is_silent(&self) -> bool {
        self.0.is_silent()
    }

    /// The next chunk of a chunked body; empty for the last one, `None` where it broke off.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        soon("a chunk", self.0.chunk()).await
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let head = self.head().await;
        let status = head.line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = Vec::new();
        let mut ended = Ended::Cleanly;
        if head.header("transfer-encoding") == Some("chunked") {
            loop {
                match self.chunk().await {
                    Some(chunk) if chunk.is_empty() => break,
                    Some(chunk) => body.extend_from_slice(&chunk),
                    None => {
                        ended = Ended::Broken;
                        break;
                    }
                }
            }
        } else {
            let length = head
                .header("content-length")
                .map_or(0, |l| l.parse().unwrap());
            match soon("a body", self.0.exactly(length)).await {
                Some(bytes) => body = bytes,
                None => ended = Ended::Broken,
            }
        }
        Reply {
            status,
            head,
            body,
            ended,
        }
    }

    /// Sends a request and reads the whole reply.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Reply {
        self.send(request).await;
        self.reply().await
    }

    /// Whether a reply's head comes, and not the end of the connection.
    pub(crate) async fn was_answered(&mut self) -> bool {
        soon("an answer or the end", self.0.head()).await.is_some()
    }

    /// Returns once the warden has closed the connection.
    pub(crate) async fn closed(&mut self) {
        soon("the end of the connection", self.0.closed()).await;
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn half_close(&mut self) {
        self.0.stream.shutdown().await.unwrap();
    }

    /// Reads to the end of the connection and tells whether that was a reset.
    pub(crate) async fn was_reset(&mut self) -> bool {
        soon("the end of the connection", self.0.was_reset()).await
    }

    /// Everything until the warden closes the connection.
    pub(crate) async fn rest(self) -> Vec<u8> {
        soon("the end of the connection", self.0.rest()).await
    }
}

/// A POST with these header lines (each ending in CRLF).
pub(crate) fn post(path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: warden\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: warden\r\n\r\n")
}
