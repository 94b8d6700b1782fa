//! How an engine is reached: over TCP, or over a network that a test makes up.
//!
//! The second lets a whole gateway run in virtual time, its engines' faults drawn from a seed; so
//! this is the one place that opens a socket to an engine.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Both directions of a made-up connection.
pub trait Pipe: AsyncRead + AsyncWrite + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + 'static> Pipe for T {}

/// A connect on its way.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Pin<Box<dyn Pipe>>>> + Send>>;

/// Makes a connection to a host and port.
pub type Connect = Arc<dyn Fn(&str, u16) -> Connecting + Send + Sync>;

/// See the module.
#[derive(Clone, Default)]
pub enum Network {
    /// The system's.
    #[default]
    Tcp,
    /// A test's.
    MadeUp(Connect),
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "Tcp",
            Self::MadeUp(_) => "MadeUp",
        })
    }
}

impl Network {
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<Stream> {
        match self {
            Self::Tcp => {
                let stream = TcpStream::connect((host, port)).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::MadeUp(connect) => Ok(Stream::MadeUp(connect(host, port).await?)),
        }
    }
}

/// A connection of either kind.
pub(super) enum Stream {
    Tcp(TcpStream),
    MadeUp(Pin<Box<dyn Pipe>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::MadeUp(pipe) => pipe.as_mut().poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::MadeUp(pipe) => pipe.as_mut().poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::MadeUp(pipe) => pipe.as_mut().poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::MadeUp(pipe) => pipe.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::MadeUp(pipe) => pipe.as_mut().poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::MadeUp(pipe) => pipe.as_mut().poll_shutdown(cx),
        }
    }
}
