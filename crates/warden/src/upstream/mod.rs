//! Connections to the engines: one small pool of HTTP/1.1 connections per address.
//!
//! A pool of our own, because the one retry that is allowed needs to know whether a connection was
//! reused (a reset may then only mean that it was stale), and because the caller drives its
//! connection itself: no task per connection, no hop between tasks per chunk, and whoever drops a
//! reply closes the socket in the same breath, which is how vLLM learns to stop generating.
//!
//! Left out: which replica to ask and whether to ask again (the gateway), and TLS to engines.

mod link;
mod network;
mod payload;
mod pool;
mod reply;
mod scarcity;

pub use link::{Link, SendError};
pub use network::{Connect, Connecting, Network, Pipe};
pub use payload::Payload;
pub use pool::{ConnectError, Pool, PoolSettings, Target};
pub use reply::Reply;
pub(crate) use scarcity::is_ours;
