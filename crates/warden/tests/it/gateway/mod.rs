//! The clients' side, over sockets: what contract.md and routing.md promise.

mod bad_input;
mod broken;
mod cancel;
mod drain;
mod fidelity;
mod http2;
mod keys;
mod limits;
mod local;
mod overload;
mod pool;
mod retry;
mod routing;
mod smuggling;
mod soak;
mod streaming;
mod tls;
mod unreadable;
mod waiting;
