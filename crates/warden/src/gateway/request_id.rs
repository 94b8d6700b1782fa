//! Ids of requests: unique across restarts, and cheap.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::RequestId;

/// Counts up from a random start: 64 random bits tell one process from the next, the counter its
/// requests. An id is a name, not a secret.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        Ok(Self {
            process: getrandom::u64()?,
            next: AtomicU64::new(1),
        })
    }

    pub(super) fn next(&self) -> RequestId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        RequestId(u128::from(self.process) << 64 | u128::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_within_and_across_processes() {
        let (a, b) = (RequestIds::new().unwrap(), RequestIds::new().unwrap());
        let ids = [a.next(), a.next(), b.next(), b.next()];
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(id.to_string().len(), 32);
            assert!(!ids[..i].contains(id));
        }
    }
}
