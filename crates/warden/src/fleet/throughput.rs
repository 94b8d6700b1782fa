//! Tokens per second now, by the engine's own counters.
//!
//! The history counts a request's tokens when it has ended, which is right for charts and useless as
//! a sign of life: an answer of a minute would be a minute of silence. The engine counts while it
//! works, so its growth over the last scrapes is what happens now, from the second scrape on. Its
//! zero is a measured zero.

use std::{collections::VecDeque, time::Duration};

use routing::Time;

/// Long enough that the prompts of a few agents make a steady figure; vLLM's own log line takes as
/// long.
const SPAN: Duration = Duration::from_secs(10);
/// Of a scrape this old nothing is said about now.
const FRESH: Duration = Duration::from_secs(5);
/// One scrape a second, and some to spare.
const SAMPLES_MAX: usize = 16;

/// What an engine's counters have grown by until `at`; `None` where it does not tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at: Time,
    pub(super) prompt_tokens: Option<f64>,
    pub(super) prompt_tokens_cached: Option<f64>,
    pub(super) generation_tokens: Option<f64>,
}

/// The scrapes of the last seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Throughput(VecDeque<Sample>);

impl Throughput {
    pub(super) fn note(&mut self, sample: Sample) {
        // An engine that was away: what grew in the meantime did not grow now.
        if (self.0.back()).is_some_and(|last| sample.at.since(last.at) > FRESH) {
            self.0.clear();
        }
        self.0.push_back(sample);
        let is_past = |second: &Sample| sample.at.since(second.at) >= SPAN;
        while self.0.len() > SAMPLES_MAX || self.0.get(1).is_some_and(is_past) {
            self.0.pop_front();
        }
    }

    /// Tokens per second; `None` before the second scrape, and where the last one is old.
    pub(super) fn rates(&self, now: Time) -> Option<api::Throughput> {
        let (first, last) = self.0.front().zip(self.0.back())?;
        let span_s = last.at.since(first.at).as_secs_f64();
        if span_s <= 0.0 || now.since(last.at) > FRESH {
            return None;
        }
        let per_s = |of: fn(&Sample) -> Option<f64>| {
            let (before, after) = of(first).zip(of(last))?;
            Some((after - before).max(0.0) / span_s)
        };
        let prompt = per_s(|sample| sample.prompt_tokens);
        let cached = per_s(|sample| sample.prompt_tokens_cached);
        Some(api::Throughput {
            span_s: Some(span_s),
            prompt_tokens_cached_per_s: cached,
            // What the engine did not measure counts as computed, as everywhere.
            prompt_tokens_computed_per_s: prompt
                .map(|prompt| (prompt - cached.unwrap_or(0.0)).max(0.0)),
            completion_tokens_per_s: per_s(|sample| sample.generation_tokens),
        })
    }
}

/// Several replicas together: the sum of what is known, over the longest of their spans.
pub(crate) fn sum(parts: impl IntoIterator<Item = api::Throughput>) -> api::Throughput {
    let add = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
    let all = parts.into_iter().reduce(|all, one| api::Throughput {
        span_s: all.span_s.into_iter().chain(one.span_s).reduce(f64::max),
        prompt_tokens_cached_per_s: add(
            all.prompt_tokens_cached_per_s,
            one.prompt_tokens_cached_per_s,
        ),
        prompt_tokens_computed_per_s: add(
            all.prompt_tokens_computed_per_s,
            one.prompt_tokens_computed_per_s,
        ),
        completion_tokens_per_s: add(all.completion_tokens_per_s, one.completion_tokens_per_s),
    });
    all.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64, generated: f64) -> Sample {
        Sample {
            at: Time(second * 1_000_000),
            prompt_tokens: Some(10.0 * generated),
            prompt_tokens_cached: Some(8.0 * generated),
            generation_tokens: Some(generated),
        }
    }

    #[test]
    fn the_second_scrape_already_tells_and_an_idle_engine_is_a_measured_zero() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.rates(Time(0)), None);
        throughput.note(second(100, 5.0));
        assert_eq!(
            throughput.rates(Time(100_000_000)),
            None,
            "nothing to hold it against"
        );
        throughput.note(second(101, 45.0));
        let rates = throughput.rates(Time(101_500_000)).unwrap();
        assert_eq!(rates.span_s, Some(1.0));
        assert_eq!(rates.completion_tokens_per_s, Some(40.0));
        assert_eq!(rates.prompt_tokens_cached_per_s, Some(320.0));
        assert_eq!(rates.prompt_tokens_computed_per_s, Some(80.0));
        for at in 102..=120 {
            throughput.note(second(at, 45.0));
        }
        let rates = throughput.rates(Time(120_000_000)).unwrap();
        assert_eq!(rates.span_s, Some(10.0));
        assert_eq!(rates.completion_tokens_per_s, Some(0.0));
    }

    #[test]
    fn what_is_old_or_untold_is_unknown_and_not_zero() {
        let mut throughput = Throughput::default();
        let untold = |at| Sample {
            prompt_tokens_cached: None,
            generation_tokens: None,
            ..second(at, at as f64)
        };
        throughput.note(untold(1));
        throughput.note(untold(3));
        let rates = throughput.rates(Time(3_000_000)).unwrap();
        assert_eq!(rates.completion_tokens_per_s, None);
        assert_eq!(rates.prompt_tokens_cached_per_s, None);
        assert_eq!(rates.prompt_tokens_computed_per_s, Some(10.0));
        assert_eq!(throughput.rates(Time(8_100_000)), None, "5.1 s old");
        // Back after a while: the growth of that while is not spread over it.
        throughput.note(untold(60));
        assert_eq!(throughput.rates(Time(60_000_000)), None);
    }

    #[test]
    fn replicas_add_up_where_they_tell() {
        assert_eq!(sum([]), api::Throughput::default());
        let one = api::Throughput {
            span_s: Some(9.0),
            completion_tokens_per_s: Some(40.0),
            ..api::Throughput::default()
        };
        let both = sum([
            one,
            api::Throughput {
                span_s: Some(10.0),
                ..one
            },
        ]);
        assert_eq!(both.span_s, Some(10.0));
        assert_eq!(both.completion_tokens_per_s, Some(80.0));
        assert_eq!(both.prompt_tokens_cached_per_s, None);
    }
}
