//! Counts since the start of the process: by rule and replica for the panel, by outcome for
//! `/metrics`.

use std::collections::BTreeMap;

use routing::{ReplicaIndex, Route};

use super::record::Record;
use crate::history::Distribution;

/// Requests of one model by rule and replica.
#[derive(Debug, Clone, Default)]
pub struct RouteCounters {
    /// By replica, then in the order of [`slot`].
    replicas: Vec<[u64; 5]>,
    balanced: u64,
}

impl RouteCounters {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            replicas: vec![[0; 5]; replicas],
            balanced: 0,
        }
    }

    /// Requests that the rule sent to the replica. [`Route::Balanced`] names none: see
    /// [`Self::balanced`].
    pub fn of(&self, replica: ReplicaIndex, route: Route) -> u64 {
        let counts = self.replicas.get(usize::from(replica.0));
        counts
            .zip(slot(route))
            .map_or(0, |(counts, slot)| counts[slot])
    }

    /// Requests that the rule sent anywhere.
    pub fn total(&self, route: Route) -> u64 {
        match slot(route) {
            Some(slot) => self.replicas.iter().map(|counts| counts[slot]).sum(),
            None => self.balanced,
        }
    }

    /// Requests that the engine's own balancer placed.
    pub fn balanced(&self) -> u64 {
        self.balanced
    }

    /// 100 x sticky / (sticky + spilled + moved); `None` while that is 0 / 0.
    pub fn sticky_percent(&self) -> Option<f64> {
        let sticky = self.total(Route::Sticky);
        let all = sticky + self.total(Route::Spilled) + self.total(Route::Moved);
        (all > 0).then(|| 100.0 * sticky as f64 / all as f64)
    }

    /// Counts a decision; one that replaces another (after a failed attempt) takes its place.
    pub(super) fn replace(
        &mut self,
        before: Option<(Route, Option<ReplicaIndex>)>,
        after: Option<(Route, Option<ReplicaIndex>)>,
    ) {
        if let Some(count) = before.and_then(|decided| self.count(decided)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = after.and_then(|decided| self.count(decided)) {
            *count += 1;
        }
    }

    fn count(&mut self, (route, replica): (Route, Option<ReplicaIndex>)) -> Option<&mut u64> {
        match slot(route) {
            None => Some(&mut self.balanced),
            Some(slot) => self
                .replicas
                .get_mut(usize::from(replica?.0))
                .map(|counts| &mut counts[slot]),
        }
    }
}

fn slot(route: Route) -> Option<usize> {
    match route {
        Route::New => Some(0),
        Route::Sticky => Some(1),
        Route::Spilled => Some(2),
        Route::Moved => Some(3),
        Route::Pinned => Some(4),
        Route::Balanced => None,
    }
}

/// What `lm_warden_requests_total` tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// `None` where vLLM's balancer chose or no decision was made.
    pub replica: Option<u16>,
    /// `None` where no decision was made.
    pub route: Option<Route>,
    /// HTTP status.
    pub status: u16,
}

/// Totals of one model.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Ended requests.
    pub requests: BTreeMap<Outcome, u64>,
    /// Prompt tokens read from the prefix cache.
    pub prompt_tokens_cached: u64,
    /// All other prompt tokens.
    pub prompt_tokens_computed: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Arrival to first byte.
    pub ttfb: Distribution,
    /// Arrival to decision.
    pub queue: Distribution,
}

impl Totals {
    pub(super) fn add(&mut self, record: &Record) {
        let outcome = Outcome {
            replica: record.route().and_then(|(_, replica)| Some(replica?.0)),
            route: record.route().map(|(route, _)| route),
            status: record.status().unwrap_or_default(),
        };
        *self.requests.entry(outcome).or_default() += 1;
        if let Some(usage) = record.usage() {
            let (cached, computed) = usage.split();
            self.prompt_tokens_cached += cached;
            self.prompt_tokens_computed += computed;
            self.completion_tokens += usage.completion_tokens;
        }
        if let Some(ttfb) = record.ttfb() {
            self.ttfb.add(ttfb);
        }
        if let Some(queue) = record.queue() {
            self.queue.add(queue);
        }
    }
}
