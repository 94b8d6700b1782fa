//! What one client, and all of them together, may hold.

use std::time::Duration;

/// Bounds of the clients' side. The two `body` bounds are settings (`[server]`); the others have
/// no measured case that needs another value.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest request body; past it 413.
    pub body_bytes_max: usize,
    /// All bodies held at once; past it 503.
    pub buffered_bytes_max: usize,
    /// Request line and headers of one request; past it 431.
    pub header_bytes_max: usize,
    /// Open client connections; past it new ones wait in the kernel's backlog.
    pub connections_max: usize,
    /// Open connections of one address; past it new ones are closed at once. On loopback all
    /// clients may be behind one proxy or tunnel, so `serve` sets it to `connections_max` there.
    pub connections_per_address_max: usize,
    /// Requests at a time on one HTTP/2 connection; past it the client waits.
    pub streams_per_connection_max: u32,
    /// How long a TLS handshake may take, from the connection on.
    pub handshake_timeout: Duration,
    /// How long a connection may take to bring the next request's headers. The clock starts when
    /// the last reply has ended, so this is also the idle time of a keep-alive connection.
    pub header_timeout: Duration,
    /// How long a body may take to bring its next [`Self::body_progress_bytes`] or its end; past
    /// it 408.
    pub body_timeout: Duration,
    /// What counts as progress of a body: less lets a client hold memory by sending a byte a
    /// minute.
    pub body_progress_bytes: usize,
    /// How long a client may take none of the bytes that wait for it; past it the connection is
    /// closed and the engine's request with it.
    pub write_timeout: Duration,
    /// A reply that is no stream is held until its end up to this size, so that a broken one can
    /// still be answered with 502; what is larger flows as it arrives.
    pub held_reply_bytes_max: usize,
    /// How long a replica may make no progress at all before its requests get 504.
    pub progress_timeout: Duration,
    /// How long a shutdown waits for requests in flight.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 64 << 20,
            buffered_bytes_max: 1 << 30,
            header_bytes_max: 64 << 10,
            connections_max: 4096,
            connections_per_address_max: 1024,
            streams_per_connection_max: 128,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            body_progress_bytes: 16 << 10,
            write_timeout: Duration::from_secs(60),
            held_reply_bytes_max: 1 << 20,
            progress_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
        }
    }
}
