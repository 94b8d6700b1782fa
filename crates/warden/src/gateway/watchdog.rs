//! Notices that a replica has stopped moving.
//!
//! A request may wait long for good reasons: a queue, or a prefill of a hundred thousand tokens.
//! So what counts is not this request's silence but the replica's: as long as the replica's
//! counters move, or another of its replies brings bytes, this one waits on.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use routing::{ReplicaIndex, ReplicaView, Time};
use tokio::time::{Instant, Sleep, sleep};

use crate::{clock, fleet::Model};

/// Whose progress counts, besides the request's own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// The replica that serves it.
    Replica(ReplicaIndex),
    /// vLLM's own balancer chose: any replica that has something to do.
    Busy,
    /// Nobody's: the request takes no slot and waits for none.
    Nobody,
}

/// A timer that fires only when neither this request nor its replica moved for the whole time.
#[derive(Debug)]
pub(super) struct Watchdog {
    model: Arc<Model>,
    watched: Watched,
    timeout: Duration,
    last_byte: Time,
    sleep: Pin<Box<Sleep>>,
}

impl Watchdog {
    /// Starts now.
    pub(super) fn start(model: Arc<Model>, watched: Watched, timeout: Duration, now: Time) -> Self {
        Self {
            model,
            watched,
            timeout,
            last_byte: now,
            sleep: Box::pin(sleep(timeout)),
        }
    }

    /// The engine sent something for this request.
    pub(super) fn saw_byte(&mut self, now: Time) {
        self.last_byte = now;
    }

    /// Ready when nothing has moved for too long.
    pub(super) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = clock::now();
            let quiet = now.since(self.last_byte.max(self.last_progress(now)));
            let Some(left) = self
                .timeout
                .checked_sub(quiet)
                .filter(|left| !left.is_zero())
            else {
                return Poll::Ready(());
            };
            self.sleep.as_mut().reset(Instant::now() + left);
        }
    }

    /// Waits for `future`, but no longer than the replica moves.
    pub(super) async fn watch<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_stalled(cx).map(|()| None),
        })
        .await
    }

    fn last_progress(&self, now: Time) -> Time {
        if self.watched == Watched::Nobody {
            return Time::default();
        }
        let snapshot = self.model.router.lock().snapshot(now);
        let of = |view: &ReplicaView| view.last_progress;
        match self.watched {
            Watched::Replica(index) => snapshot.replicas.get(usize::from(index.0)).map(of),
            // An idle replica's progress is always just now and says nothing about this request.
            _ => snapshot
                .replicas
                .iter()
                .filter(|v| is_busy(v))
                .map(of)
                .max(),
        }
        .unwrap_or_default()
    }
}

fn is_busy(view: &ReplicaView) -> bool {
    view.gauges
        .is_some_and(|(gauges, _)| gauges.running + gauges.waiting > 0)
}
