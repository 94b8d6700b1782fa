//! Room for requests without a conversation: they hold nothing between turns, so they would wait
//! behind all who do. Reserved is what they have lately needed at once, at most a tenth of the cache.

use crate::Time;

/// Time constant of the demand's average, seconds.
const DEMAND_S: f64 = 60.0;

/// Most of a replica's capacity that is reserved.
const RESERVE_MAX: f64 = 0.1;

/// What requests without a conversation need at once.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// Tokens running or waiting now.
    demand: u64,
    mean: f64,
    updated: Time,
}

impl Reserve {
    pub(super) fn begin(&mut self, now: Time, tokens: u32) {
        self.catch_up(now);
        self.demand += u64::from(tokens);
    }

    pub(super) fn end(&mut self, now: Time, tokens: u32) {
        self.catch_up(now);
        self.demand = self.demand.saturating_sub(u64::from(tokens));
    }

    /// Tokens of each of so many replicas, whose capacity is this.
    pub(super) fn tokens(&self, capacity: u64, replicas: usize) -> u64 {
        let share = self.mean / replicas.max(1) as f64;
        share.min(capacity as f64 * RESERVE_MAX) as u64
    }

    fn catch_up(&mut self, now: Time) {
        let passed_s = now.since(self.updated).as_secs_f64();
        let demand = self.demand as f64;
        self.mean = demand + (self.mean - demand) * (-passed_s / DEMAND_S).exp();
        self.updated = now;
    }
}
