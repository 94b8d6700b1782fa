//! The figures of one stage, as the bench and the published table have them.

use super::record::{Outcome, TurnRecord};

/// Figures of one stage. Where nothing was counted, a share is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Sessions that ended within the window, an hour.
    pub sessions_per_hour: f64,
    /// Output tokens of turns that ended within the window, a minute.
    pub output_tokens_per_min: f64,
    /// Turns that ended within the window, a second.
    pub turns_per_s: f64,
    /// Seconds from sending to the first token, at the client: turns sent within the window.
    pub ttfb_s_mean: Option<f64>,
    /// Median of these.
    pub ttfb_s_p50: Option<f64>,
    /// 95th percentile of these.
    pub ttfb_s_p95: Option<f64>,
    /// Seconds from sending to the end of the answer.
    pub turn_s_mean: Option<f64>,
    /// Seconds that a session waited for first tokens, summed over its turns: sessions that ended.
    pub session_wait_s_mean: Option<f64>,
    /// Replicas with a running request, mean over one poll a second.
    pub replicas_busy: f64,
    /// Prompt tokens read from the cache, percent, by usage.
    pub prefix_hit_percent: Option<f64>,
    /// The same by vLLM's counters of queries and hits, which count a blocked request again at each
    /// step.
    pub prefix_hit_percent_vllm: Option<f64>,
    /// Of the tokens that a conversation had sent or received before, beyond the shared prefix: read
    /// from the cache, percent.
    pub own_hit_percent: Option<f64>,
    /// Turns after the first that stayed, percent.
    pub stayed_percent: Option<f64>,
    /// Requests preempted within the window.
    pub preemptions: f64,
}

impl Figures {
    /// The figures of what happened.
    pub fn of(outcome: &Outcome) -> Self {
        let window_s = outcome.window_s();
        let in_window = || outcome.turns.iter().filter(|t| t.end_us <= outcome.end_us);
        let sessions = in_window().filter(|t| t.is_last).count() as f64;
        let tokens: u64 = in_window().map(|t| u64::from(t.output_tokens)).sum();
        let mut ttfb_s: Vec<f64> = outcome.turns.iter().map(TurnRecord::ttfb_s).collect();
        ttfb_s.sort_by(f64::total_cmp);
        let turns_s = outcome
            .turns
            .iter()
            .map(|t| (t.end_us - t.sent_us) as f64 / 1e6);
        let stayed: Vec<bool> = outcome.turns.iter().filter_map(|t| t.stayed).collect();
        let busy: usize = outcome.polls.iter().map(|poll| poll.busy).sum();
        let counters = outcome.counters;
        Self {
            sessions_per_hour: sessions * 3600.0 / window_s,
            output_tokens_per_min: tokens as f64 * 60.0 / window_s,
            turns_per_s: in_window().count() as f64 / window_s,
            ttfb_s_mean: mean(ttfb_s.iter().copied()),
            ttfb_s_p50: quantile(&ttfb_s, 0.5),
            ttfb_s_p95: quantile(&ttfb_s, 0.95),
            turn_s_mean: mean(turns_s),
            session_wait_s_mean: mean(session_waits_s(&outcome.turns).into_iter()),
            replicas_busy: busy as f64 / outcome.polls.len().max(1) as f64,
            prefix_hit_percent: percent(
                outcome
                    .turns
                    .iter()
                    .map(|t| u64::from(t.cached_tokens))
                    .sum(),
                outcome
                    .turns
                    .iter()
                    .map(|t| u64::from(t.prompt_tokens))
                    .sum(),
            ),
            prefix_hit_percent_vllm: percent(
                counters.prefix_cache_hits,
                counters.prefix_cache_queries,
            ),
            own_hit_percent: percent(
                outcome.turns.iter().map(TurnRecord::own_read_tokens).sum(),
                outcome
                    .turns
                    .iter()
                    .map(|t| u64::from(t.own_known_tokens))
                    .sum(),
            ),
            stayed_percent: percent(
                stayed.iter().filter(|stayed| **stayed).count() as u64,
                stayed.len() as u64,
            ),
            preemptions: counters.preemptions as f64,
        }
    }
}

impl TurnRecord {
    /// Seconds from sending to the first token, at the client.
    pub fn ttfb_s(&self) -> f64 {
        (self.first_byte_us - self.sent_us) as f64 / 1e6
    }

    pub(super) fn own_read_tokens(&self) -> u64 {
        u64::from(
            self.cached_tokens
                .saturating_sub(self.shared_tokens)
                .min(self.own_known_tokens),
        )
    }
}

/// `part` of `whole` in percent; `None` where `whole` is 0.
pub fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The quantile of sorted values, between the nearest two; `None` where there are none.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = share * last as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[at.ceil() as usize];
    Some(below + (above - below) * at.fract())
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Per session that ended: the sum of its turns' waits.
fn session_waits_s(turns: &[TurnRecord]) -> Vec<f64> {
    let mut waits: std::collections::BTreeMap<(u32, u32), f64> = std::collections::BTreeMap::new();
    let mut ended = Vec::new();
    for turn in turns {
        let key = (turn.client, turn.session);
        *waits.entry(key).or_default() += turn.ttfb_s();
        if turn.is_last {
            ended.push(waits[&key]);
        }
    }
    ended
}
