//! Who waited how long: the figures by which rules for a full machine are compared.
//!
//! In a closed loop the mean time of a turn is sessions / throughput whatever the order, so a rule that
//! serves some turns at once makes others wait. One percentile cannot show that; these do.

use super::figures::{percent, quantile};
use super::record::{Outcome, TurnRecord};
use std::collections::BTreeMap;

/// Waits of a stage, seconds at the client. Where nothing was counted, a figure is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// 75th percentile of the time to the first token.
    pub ttfb_s_p75: Option<f64>,
    /// 90th percentile.
    pub ttfb_s_p90: Option<f64>,
    /// 99th percentile.
    pub ttfb_s_p99: Option<f64>,
    /// Mean over the sessions' first turns.
    pub ttfb_s_first: Option<f64>,
    /// Mean over their later turns.
    pub ttfb_s_later: Option<f64>,
    /// Turns with a first token within a second, percent.
    pub within_1s_percent: Option<f64>,
    /// Within five seconds.
    pub within_5s_percent: Option<f64>,
    /// 95th percentile of a session's waits for first tokens, summed.
    pub session_wait_s_p95: Option<f64>,
    /// Mean time from a session's first sending to its end.
    pub session_s_mean: Option<f64>,
    /// Own tokens that a turn could have found in some cache and did not, percent.
    pub avoidable_miss_percent: Option<f64>,
    /// Jain's index over the clients' turns: 1 where all got as many.
    pub jain_index: Option<f64>,
    /// The same over the owners' mean waits.
    pub jain_index_owners: Option<f64>,
    /// Longest time at the policy.
    pub queue_s_max: f64,
    /// Turns that were sent away for a while.
    pub refusals: f64,
}

impl Waits {
    /// The waits of what happened.
    pub fn of(outcome: &Outcome) -> Self {
        let turns = &outcome.turns;
        let mut ttfb_s: Vec<f64> = turns.iter().map(TurnRecord::ttfb_s).collect();
        ttfb_s.sort_by(f64::total_cmp);
        let mean_where = |is_first: bool| {
            let chosen = turns.iter().filter(|t| (t.turn == 0) == is_first);
            mean(&chosen.map(TurnRecord::ttfb_s).collect::<Vec<_>>())
        };
        let within = |seconds: f64| {
            let count = ttfb_s.partition_point(|ttfb_s| *ttfb_s <= seconds);
            percent(count as u64, ttfb_s.len() as u64)
        };
        let (mut waits_s, spans_s) = sessions(turns);
        waits_s.sort_by(f64::total_cmp);
        let known: u64 = turns.iter().map(|t| u64::from(t.own_known_tokens)).sum();
        let found: u64 = turns.iter().map(TurnRecord::own_read_tokens).sum();
        Self {
            ttfb_s_p75: quantile(&ttfb_s, 0.75),
            ttfb_s_p90: quantile(&ttfb_s, 0.90),
            ttfb_s_p99: quantile(&ttfb_s, 0.99),
            ttfb_s_first: mean_where(true),
            ttfb_s_later: mean_where(false),
            within_1s_percent: within(1.0),
            within_5s_percent: within(5.0),
            session_wait_s_p95: quantile(&waits_s, 0.95),
            session_s_mean: mean(&spans_s),
            avoidable_miss_percent: percent(known - found, known),
            jain_index: jain(&by(turns, |t| (t.client, 1.0), sum)),
            jain_index_owners: jain(&by(turns, |t| (t.owner, t.ttfb_s()), mean_of)),
            queue_s_max: turns.iter().map(|t| t.queued_us).max().unwrap_or(0) as f64 / 1e6,
            refusals: outcome.refusals as f64,
        }
    }
}

/// Per session that ended: the sum of its waits, and its length from the first sending to the end.
fn sessions(turns: &[TurnRecord]) -> (Vec<f64>, Vec<f64>) {
    let mut open: BTreeMap<(u32, u32), (u64, f64)> = BTreeMap::new();
    let (mut waits_s, mut spans_s) = (Vec::new(), Vec::new());
    for turn in turns {
        let entry = open
            .entry((turn.client, turn.session))
            .or_insert((turn.sent_us, 0.0));
        entry.1 += turn.ttfb_s();
        if turn.is_last {
            waits_s.push(entry.1);
            spans_s.push((turn.end_us - entry.0) as f64 / 1e6);
        }
    }
    (waits_s, spans_s)
}

fn by(
    turns: &[TurnRecord],
    value: impl Fn(&TurnRecord) -> (u32, f64),
    join: fn(&[f64]) -> f64,
) -> Vec<f64> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for turn in turns {
        let (group, value) = value(turn);
        groups.entry(group).or_default().push(value);
    }
    groups.values().map(|values| join(values)).collect()
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

fn mean_of(values: &[f64]) -> f64 {
    sum(values) / values.len().max(1) as f64
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| mean_of(values))
}

/// Jain's index of fairness: (sum x)^2 / (n x sum x^2).
fn jain(shares: &[f64]) -> Option<f64> {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum(shares).powi(2) / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_the_share_of_the_served_otherwise() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[]), None);
    }
}
