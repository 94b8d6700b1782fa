//! Whether anybody asks for a model: what an engine on demand starts and stops by.

use std::sync::atomic::{AtomicU64, Ordering};

use routing::Time;
use tokio::sync::Notify;

/// The last request's time, and who waits for the next.
#[derive(Debug, Default)]
pub struct Demand {
    starts_engine: bool,
    last_us: AtomicU64,
    asked: Notify,
}

impl Demand {
    /// For an engine that a request starts, or for one that it does not.
    pub(super) fn new(starts_engine: bool) -> Self {
        Self {
            starts_engine,
            ..Self::default()
        }
    }

    /// Whether a request starts the engine where it does not run.
    pub fn starts_engine(&self) -> bool {
        self.starts_engine
    }

    /// A request for the model came.
    pub fn ask(&self, now: Time) {
        self.last_us.fetch_max(now.0, Ordering::Relaxed);
        self.asked.notify_one();
    }

    /// When the last one came.
    pub fn last(&self) -> Time {
        Time(self.last_us.load(Ordering::Relaxed))
    }

    /// Returns once a request came; one that came before counts, once.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }
}
