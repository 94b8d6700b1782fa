//! Figures over time: one hour of 10-second buckets per model, merged into the steps that are
//! asked for. A request counts in the bucket in which it ended.

use std::{collections::VecDeque, time::Duration};

use api::{Point, StatsSummary};
use routing::Time;

use super::{End, counters::Distribution, record::Record};

/// Length of one bucket.
pub const BUCKET: Duration = Duration::from_secs(10);
/// How far back buckets are kept.
pub const HISTORY: Duration = Duration::from_secs(3600);

/// Buckets in which something ended, oldest first, at most one per [`BUCKET`] of [`HISTORY`].
#[derive(Debug, Default)]
pub(super) struct History {
    buckets: VecDeque<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Its number: epoch time over [`BUCKET`].
    number: u64,
    figures: Figures,
}

#[derive(Debug, Default)]
struct Figures {
    cached: u64,
    computed: u64,
    completion: u64,
    requests: u64,
    unmeasured: u64,
    ttfb: Distribution,
}

impl History {
    /// Counts an ended request.
    pub(super) fn add(&mut self, record: &Record) {
        let Some(at) = record.ended_at() else {
            return;
        };
        // Ends are told in order but for a few microseconds, so an older one joins the newest.
        let number = number(at).max(self.buckets.back().map_or(0, |bucket| bucket.number));
        if self
            .buckets
            .back()
            .is_none_or(|bucket| bucket.number < number)
        {
            let oldest = number.saturating_sub(HISTORY.as_secs() / BUCKET.as_secs());
            while self
                .buckets
                .front()
                .is_some_and(|bucket| bucket.number < oldest)
            {
                self.buckets.pop_front();
            }
            self.buckets.push_back(Bucket {
                number,
                figures: Figures::default(),
            });
        }
        if let Some(bucket) = self.buckets.back_mut() {
            bucket.figures.count(record);
        }
    }
}

impl Figures {
    fn count(&mut self, record: &Record) {
        self.requests += 1;
        match record.usage() {
            Some(usage) => {
                let cached = usage.cached_tokens.unwrap_or(0).min(usage.prompt_tokens);
                self.cached += cached;
                self.computed += usage.prompt_tokens - cached;
                self.completion += usage.completion_tokens;
            }
            // What never reached the engine was not for it to measure.
            None if record.end() == Some(End::Refused) => {}
            None => self.unmeasured += 1,
        }
        if let Some(ttfb) = record.ttfb() {
            self.ttfb.add(ttfb);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.cached += other.cached;
        self.computed += other.computed;
        self.completion += other.completion;
        self.requests += other.requests;
        self.unmeasured += other.unmeasured;
        self.ttfb.merge(&other.ttfb);
    }

    fn point(&self, step: u64, seconds: u64) -> Point {
        let some = |figure: u64| (self.requests > 0).then_some(figure);
        let per_s = |figure: u64| some(figure).map(|figure| figure as f64 / seconds as f64);
        Point {
            t: (step * seconds) as f64,
            prompt_tokens_cached: some(self.cached),
            prompt_tokens_computed: some(self.computed),
            completion_tokens: some(self.completion),
            requests: some(self.requests),
            unmeasured_requests: some(self.unmeasured),
            prompt_tokens_cached_per_s: per_s(self.cached),
            prompt_tokens_computed_per_s: per_s(self.computed),
            completion_tokens_per_s: per_s(self.completion),
            ttfb_ms_p50: self.ttfb.quantile_ms(0.5),
            ttfb_ms_p95: self.ttfb.quantile_ms(0.95),
        }
    }

    fn summary(&self) -> StatsSummary {
        let prompt = self.cached + self.computed;
        StatsSummary {
            cache_hit_percent: (prompt > 0).then(|| 100.0 * self.cached as f64 / prompt as f64),
            prompt_tokens_cached: self.cached,
            prompt_tokens_computed: self.computed,
            completion_tokens: self.completion,
            requests: self.requests,
            unmeasured_requests: self.unmeasured,
            ttfb_ms_p50: self.ttfb.quantile_ms(0.5),
            ttfb_ms_p95: self.ttfb.quantile_ms(0.95),
        }
    }
}

/// The last `range` in steps that begin at whole multiples of `step`, the last of which is still
/// filling.
pub(super) fn points<'a>(
    histories: impl Iterator<Item = &'a History>,
    now: Time,
    range: Duration,
    step: Duration,
) -> (Vec<Point>, StatsSummary) {
    let per_step = (step.as_secs() / BUCKET.as_secs()).max(1);
    let steps = range.as_secs() / BUCKET.as_secs() / per_step;
    let last = number(now) / per_step;
    let first = (last + 1).saturating_sub(steps);
    let mut figures: Vec<Figures> = (first..=last).map(|_| Figures::default()).collect();
    let mut all = Figures::default();
    for bucket in histories.flat_map(|history| &history.buckets) {
        let step = bucket.number / per_step;
        let place = step
            .checked_sub(first)
            .and_then(|place| figures.get_mut(place as usize));
        if let Some(place) = place {
            place.merge(&bucket.figures);
            all.merge(&bucket.figures);
        }
    }
    let seconds = per_step * BUCKET.as_secs();
    let points = (first..)
        .zip(&figures)
        .map(|(step, figures)| figures.point(step, seconds))
        .collect();
    (points, all.summary())
}

fn number(at: Time) -> u64 {
    at.0 / BUCKET.as_micros() as u64
}
