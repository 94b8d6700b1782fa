//! How many proxied requests are being served: what a shutdown waits for, and what it cuts off.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// The count. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    present: AtomicUsize,
    aborting: AtomicBool,
    cut_off: AtomicUsize,
    closing: AtomicBool,
    closed: Notify,
    none_left: Notify,
}

impl Activity {
    /// Counts a request in until the result is dropped.
    pub(super) fn enter(&self) -> Presence {
        self.0.present.fetch_add(1, Ordering::AcqRel);
        Presence(self.clone())
    }

    /// Requests being served.
    pub(super) fn present(&self) -> usize {
        self.0.present.load(Ordering::Acquire)
    }

    /// From here on nobody needs to wait for room any more.
    pub(super) fn close(&self) {
        self.0.closing.store(true, Ordering::Release);
        self.0.closed.notify_waiters();
    }

    /// Returns once a shutdown has begun.
    pub(super) async fn closing(&self) {
        // Asked for before the look, so that a shutdown in between is not missed.
        let closed = self.0.closed.notified();
        if !self.0.closing.load(Ordering::Acquire) {
            closed.await;
        }
    }

    /// From here on what is cut off is cut off by the shutdown.
    pub(super) fn abort(&self) {
        self.0.aborting.store(true, Ordering::Release);
    }

    /// How many a shutdown has cut off.
    pub(super) fn cut_off(&self) -> usize {
        self.0.cut_off.load(Ordering::Acquire)
    }

    /// Returns when none is being served.
    pub(super) async fn none_left(&self) {
        loop {
            // Asked for before the look, so that a departure in between is not missed.
            let notified = self.0.none_left.notified();
            if self.present() == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// One request being served.
#[derive(Debug)]
pub(super) struct Presence(Activity);

impl Presence {
    /// The request ends before its time: whether by a shutdown, and not by its client.
    pub(super) fn is_cut_off(&self) -> bool {
        let shutdown = self.0.0.aborting.load(Ordering::Acquire);
        if shutdown {
            self.0.0.cut_off.fetch_add(1, Ordering::AcqRel);
        }
        shutdown
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.0.0.present.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.0.none_left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_for_the_last_to_leave() {
        let activity = Activity::default();
        activity.none_left().await;
        let (a, b) = (activity.enter(), activity.enter());
        assert_eq!(activity.present(), 2);
        let mut waiting = tokio_test_ready(activity.none_left());
        assert!(!waiting.poll_once());
        drop(a);
        assert!(!waiting.poll_once());
        drop(b);
        assert!(waiting.poll_once());
    }

    struct Polled<F>(std::pin::Pin<Box<F>>);

    fn tokio_test_ready<F: Future>(future: F) -> Polled<F> {
        Polled(Box::pin(future))
    }

    impl<F: Future> Polled<F> {
        fn poll_once(&mut self) -> bool {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            self.0.as_mut().poll(&mut cx).is_ready()
        }
    }
}
