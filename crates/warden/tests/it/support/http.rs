//! HTTP/1.1 as bytes: a reader that hides nothing.

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

/// A socket, or a made-up one, with what was read ahead.
#[derive(Debug)]
pub(crate) struct Wire<S = TcpStream> {
    pub(crate) stream: S,
    ahead: Vec<u8>,
}

/// A start line and its header lines, names in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// The one value of a header; panics where it stands twice.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} stands twice");
        value
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Whether nothing has come that was not read.
    pub(super) fn is_silent(&self) -> bool {
        let read = self.stream.try_read(&mut [0; 1]);
        self.ahead.is_empty()
            && matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    /// False at the end of the stream, or where it was reset.
    async fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(bytes) => {
                self.ahead.extend_from_slice(&buffer[..bytes]);
                true
            }
        }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    pub(crate) async fn head(&mut self) -> Option<Head> {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|w| w == b"\r\n\r\n") {
                break at;
            }
            if !self.fill().await {
                return None;
            }
        };
        let text = String::from_utf8(self.ahead[..end].to_vec()).unwrap();
        self.ahead.drain(..end + 4);
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let headers = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Head { line, headers })
    }

    /// Exactly so many bytes; `None` where the stream ends earlier.
    pub(crate) async fn exactly(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.ahead.len() < bytes {
            if !self.fill().await {
                return None;
            }
        }
        Some(self.ahead.drain(..bytes).collect())
    }

    /// One chunk; empty for the last one, `None` where the stream ends instead.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let end = loop {
            if let Some(at) = self.ahead.windows(2).position(|w| w == b"\r\n") {
                break at;
            }
            if !self.fill().await {
                return None;
            }
        };
        let size = std::str::from_utf8(&self.ahead[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        self.ahead.drain(..end + 2);
        let mut data = self.exactly(size + 2).await?;
        data.truncate(size);
        Some(data)
    }

    /// Returns once the other side has closed or reset.
    pub(crate) async fn closed(&mut self) {
        while self.fill().await {}
    }

    /// Reads to the end and tells whether that was a reset.
    pub(crate) async fn was_reset(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.read(&mut buffer).await {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Everything until the other side closes.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        while self.fill().await {}
        self.ahead
    }
}
