//! The other end of a client's connection, as the replies on it see it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::Version;

/// See the module.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    old: AtomicBool,
    reset: AtomicBool,
}

impl Peer {
    /// A client at this address.
    pub fn new(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            old: AtomicBool::new(false),
            reset: AtomicBool::new(false),
        })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn speaks(&self, version: Version) {
        self.old
            .store(version < Version::HTTP_11, Ordering::Relaxed);
    }

    /// The reply was cut. HTTP/1.1 shows that by itself; for an older client, whose replies end
    /// with the connection, only a reset does.
    pub(super) fn reset_on_close(&self) {
        self.reset
            .store(self.old.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn wants_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }
}
