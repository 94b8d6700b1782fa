//! How long a wait may be, and how long it will be.
//!
//! In a closed loop the law is simple: while w requests wait for each lease, and a lease lasts for a
//! turns of T seconds, the last one in the queue waits for (a + 1) w T, and then for a turn or two.
//! Where several owners wait they take turns, so w counts an owner's own requests and as many of each
//! other one's: whoever has one request is not sent away for another's hundreds.

use std::time::Duration;

use super::{LeaseSettings, Leases, Waiting};
use crate::{Refusal, Ticket, Time};

/// Auto: turns that a conversation keeps its place for. On the frontier between throughput and the 95th
/// percentile, at 24 sessions of the published workload, a third turn brings 9 % more turns a second than
/// two for 10 % more wait, a fourth 4 % for 10 %; following the number of those that wait was worse than
/// either.
pub(super) const QUANTUM_TURNS: u32 = 3;

/// Streams outlive a client's time-out, as pings keep them alive.
const STREAM_PATIENCE: u32 = 2;

/// Longest `retry-after`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Most turns that a conversation's stay is taken for before any has been seen to end.
const STAY_TURNS_UNSEEN_MAX: f64 = 6.0;

/// Weight of the newest stay in the mean.
const STAY_WEIGHT: f64 = 0.05;

/// Mean turns that conversations kept their place for, once one has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stay(Option<f64>);

impl Stay {
    /// A stay of so many turns ended, under a quantum of so many.
    pub(super) fn learn(&mut self, turns: u32, quantum_turns: f64) {
        let before = self.turns(quantum_turns);
        self.0 = Some(before + STAY_WEIGHT * (f64::from(turns) - before));
    }

    /// With a quantum of so many turns, before a stay was seen.
    fn turns(self, quantum_turns: f64) -> f64 {
        let unseen = quantum_turns.min(STAY_TURNS_UNSEEN_MAX);
        self.0.unwrap_or(unseen).max(1.0)
    }
}

impl LeaseSettings {
    /// `a`: turns that a conversation keeps its place for while others wait, set or by default.
    pub fn turns_effective(&self) -> u32 {
        self.turns.map_or(QUANTUM_TURNS, |turns| turns.max(1))
    }

    /// The longest predicted wait that a request is let into.
    pub(super) fn wait_max(&self, streams: bool) -> Duration {
        self.queue_wait_max * if streams { STREAM_PATIENCE } else { 1 }
    }

    /// Age at which a waiting request goes to a full replica: before a plain client's time-out.
    pub(crate) fn age_max(&self, streams: bool) -> Duration {
        self.wait_max(streams) * 5 / 6
    }
}

impl Leases {
    /// w: requests that wait for each lease.
    fn waiting_per_lease(&self) -> f64 {
        self.per_lease(self.queue.len())
    }

    fn per_lease(&self, waiting: usize) -> f64 {
        waiting as f64 / f64::from(self.holding().max(1))
    }

    /// `a`: turns that a conversation keeps its place for while others wait. Where host memory gives
    /// more of them a place, fewer wait, so the same wait allows for a longer stay.
    pub(super) fn quantum_turns(&self) -> f64 {
        let turns = f64::from(self.settings.turns_effective());
        if self.settings.turns.is_none() {
            turns * self.stretch()
        } else {
            turns
        }
    }

    /// Turns that a lease lasts however long others wait: the longer the queue, the longer it takes to
    /// come back, and the more of its cache is gone by then.
    fn turns_min(&self) -> f64 {
        let part = self.settings.rule.turns_min_per_waiting;
        (1.0 + part * self.quantum_turns() * self.waiting_per_lease()).floor()
    }

    /// Whether a lease of so many turns may end, and the longest wait is longer than what a
    /// conversation's quantum of turns explains.
    pub(super) fn is_quantum_spent(&self, now: Time, turns: u32) -> bool {
        if f64::from(turns) < self.turns_min() {
            return false;
        }
        let Some(oldest) = self.queue.oldest() else {
            return false;
        };
        let w = self.waiting_per_lease();
        let limit_s = self.quantum_turns() * w * self.costs.turn().as_secs_f64();
        now.since(oldest).as_secs_f64() > limit_s
    }

    /// How long a request in the queue will still wait.
    pub(super) fn predicted_wait(&self, now: Time, waiting: &Waiting) -> Duration {
        let owner = waiting.request.owner;
        let oldest = self.queue.oldest_of(owner);
        let w = self.per_lease(self.queue.up_to_last_of(owner));
        self.predicted(now, (waiting.first_arrival, oldest), w)
    }

    /// How long a request that came now would wait behind all others.
    pub(super) fn predicted_wait_of_last(&self, now: Time) -> Duration {
        self.predicted(now, (now, self.queue.oldest()), self.waiting_per_lease())
    }

    /// With so many that wait for each lease up to the last one of its line.
    fn predicted(
        &self,
        now: Time,
        (first_arrival, oldest): (Time, Option<Time>),
        w: f64,
    ) -> Duration {
        let a = self.stay.turns(self.quantum_turns());
        // Who is as old as the oldest is next.
        let oldest_s = now
            .since(oldest.unwrap_or(now))
            .as_secs_f64()
            .max(f64::MIN_POSITIVE);
        let behind = (1.0 - now.since(first_arrival).as_secs_f64() / oldest_s).clamp(0.0, 1.0);
        let behind = if first_arrival == now { 1.0 } else { behind };
        let safety = if self.costs.sizes_differ() { 2.0 } else { 1.0 };
        let turns = ((a + 1.0) * w * behind + 2.0) * safety;
        Duration::try_from_secs_f64(turns * self.costs.turn().as_secs_f64())
            .unwrap_or(Duration::MAX)
    }

    /// Lets a request in the queue wait, or tells it when to come back.
    pub(crate) fn check_wait(
        &self,
        now: Time,
        ticket: Ticket,
        prompt_tokens: u32,
    ) -> Result<Duration, Refusal> {
        let Some(waiting) = self.queue.get(ticket) else {
            return Ok(Duration::ZERO);
        };
        let predicted = self.predicted_wait(now, waiting);
        let wait_max = self.settings.wait_max(waiting.request.streams);
        let in_all = now
            .since(waiting.first_arrival)
            .saturating_add(predicted)
            .saturating_add(self.costs.prefill(u64::from(prompt_tokens)));
        if in_all <= wait_max {
            return Ok(predicted);
        }
        Err(Refusal::QueueTooLong {
            predicted,
            retry_after: self.retry_after(in_all.saturating_sub(wait_max), wait_max),
        })
    }

    /// When the queue is short enough by this much, and has taken in those that were sent away before:
    /// clients give up after a few attempts, and thousands that all come back in a second fail in three.
    /// At half the longest wait at the latest, so that the queue never runs empty meanwhile.
    fn retry_after(&self, excess: Duration, wait_max: Duration) -> Duration {
        let away = self.per_lease(self.ages.len());
        let turns = (self.stay.turns(self.quantum_turns()) + 1.0) * away;
        let those_before = Duration::try_from_secs_f64(turns * self.costs.turn().as_secs_f64())
            .unwrap_or(RETRY_AFTER_MAX);
        let latest = RETRY_AFTER_MAX.min(wait_max / 2);
        excess
            .saturating_add(those_before)
            .min(latest)
            .max(Duration::from_secs(1))
    }
}
