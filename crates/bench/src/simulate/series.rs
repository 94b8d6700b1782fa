//! How the farm fares over time: what the cache serves, how full replicas get, how many idle.

use super::table::number;
use sim::experiment::{Cell, Experiment};
use sim::run::{Outcome, percent};
use std::io::Write;

/// Length of a line of the table.
const BUCKET_S: f64 = 300.0;

/// What happened in one bucket of one run.
#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    cached_tokens: u64,
    prompt_tokens: u64,
    idle: f64,
    polls: f64,
    fill_max: f64,
}

pub(super) fn print(
    experiment: &Experiment,
    runs: &[Vec<Cell>],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let replicas = f64::from(experiment.replicas);
    for index in 0..runs[0].len() {
        let cell = &runs[0][index];
        let (policy, sessions) = (cell.policy.as_str(), cell.sessions);
        writeln!(out, "{policy}, {sessions} sessions, over time")?;
        writeln!(
            out,
            "{:>8}{:>14}{:>16}{:>16}",
            "minutes", "from cache %", "replicas idle", "fullest %"
        )?;
        let outcomes: Vec<&Outcome> = runs.iter().map(|cells| &cells[index].outcome).collect();
        for (number_of, bucket) in buckets(&outcomes, replicas).iter().enumerate() {
            let minutes = (number_of + 1) as f64 * BUCKET_S / 60.0;
            let share = percent(bucket.cached_tokens, bucket.prompt_tokens);
            let idle = bucket.idle / bucket.polls.max(1.0);
            let fill = 100.0 * bucket.fill_max;
            writeln!(
                out,
                "{minutes:>8.0}{:>14}{idle:>16.2}{fill:>16.1}",
                number(share, 1)
            )?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "Sums over the runs; idle: replicas without a running request, mean over the polls;"
    )?;
    writeln!(
        out,
        "fullest: the highest kv_cache_usage_perc of any replica, running requests only.\n"
    )
}

fn buckets(outcomes: &[&Outcome], replicas: f64) -> Vec<Bucket> {
    let count = outcomes
        .iter()
        .map(|o| (o.window_s() / BUCKET_S).ceil() as usize)
        .max();
    let mut buckets = vec![Bucket::default(); count.unwrap_or(0)];
    for outcome in outcomes {
        let at = |us: u64| ((us - outcome.start_us) as f64 / 1e6 / BUCKET_S) as usize;
        for turn in &outcome.turns {
            if let Some(bucket) = buckets.get_mut(at(turn.first_byte_us)) {
                bucket.cached_tokens += u64::from(turn.cached_tokens);
                bucket.prompt_tokens += u64::from(turn.prompt_tokens);
            }
        }
        for poll in &outcome.polls {
            if let Some(bucket) = buckets.get_mut(at(poll.at_us)) {
                bucket.idle += replicas - poll.busy as f64;
                bucket.polls += 1.0;
                bucket.fill_max = bucket.fill_max.max(poll.kv_cache_usage_max);
            }
        }
    }
    buckets
}
