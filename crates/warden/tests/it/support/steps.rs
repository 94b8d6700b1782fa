//! Time that passes only when a test says so.

use std::{sync::mpsc, time::Duration};

use super::PATIENCE;

/// While it lives the runtime's clock stands still between steps. Sockets work as ever.
#[derive(Debug)]
pub(crate) struct Steps {
    /// A blocking task keeps the runtime from stepping to the next timer by itself when it is idle; it
    /// ends with this, or when the test has hung for so long that its own time-outs may fire.
    held: mpsc::Sender<()>,
}

impl Steps {
    pub(crate) fn begin() -> Self {
        let (held, released) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv_timeout(PATIENCE));
        tokio::time::pause();
        Self { held }
    }

    /// Lets so many seconds pass.
    pub(crate) async fn pass_s(&self, seconds: f64) {
        tokio::time::advance(Duration::from_secs_f64(seconds)).await;
    }

    /// Time runs by itself again.
    pub(crate) fn end(self) {
        drop(self.held);
        tokio::time::resume();
    }
}
