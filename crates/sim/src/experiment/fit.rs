//! Fits the few free numbers of a profile to the published arms at 4, 8 and 16 sessions.
//!
//! Repeatable: a seed decides every candidate, and all candidates are judged on the same seeds of
//! the simulation. The search draws candidates at random around the best one so far and narrows the
//! range each round; the objective is rough (a stage ends 15 sessions, so one more or less shows),
//! and a method that follows slopes would follow noise. The rows at 24 and 32 sessions are never
//! looked at: they are the test.

use super::{Experiment, published_row};
use crate::policy::PolicyKind;
use crate::profile::Profile;
use crate::random::Random;
use crate::run::{Figures, StageError};

/// Candidates per round.
const CANDIDATES: u32 = 16;
/// What is left of a range after each round.
const NARROWING: f64 = 0.7;

/// One number to find.
struct Free {
    name: &'static str,
    /// What physics and the source's words leave it.
    range: (f64, f64),
    /// Where the search begins: round numbers, the best of a coarse scan (its table is in the study of
    /// the off-arm), so that a fit does not depend on what the last one wrote into the profile.
    start: f64,
}

const fn free(name: &'static str, range: (f64, f64), start: f64) -> Free {
    Free { name, range, start }
}

const FREE: [Free; 6] = [
    free("kv_tokens", (34_000.0, 48_000.0), 40_500.0),
    free("prefill_ms_per_token", (0.13, 0.24), 0.168),
    free("attention_us_per_token_per_1k", (8.0, 30.0), 18.0),
    free("step_overhead_ms", (0.0, 8.0), 2.4),
    free("round_trip_ms", (50.0, 300.0), 60.0),
    free("start_spread_s", (0.0, 15.0), 8.5),
];

/// What a fit found.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Each free number's name and value.
    pub numbers: Vec<(&'static str, f64)>,
    /// The largest deviation of a promised cell, in units of its tolerance, plus the mean loss over all
    /// fitted cells: the square of a deviation, linear beyond 1.
    pub objective: f64,
}

/// How far a fit has come.
#[derive(Debug, Clone, PartialEq)]
pub struct FitProgress<'a> {
    /// Rounds done.
    pub round: u32,
    /// The best so far.
    pub best: &'a Fitted,
}

/// Fits `base` in `rounds` rounds; every candidate is simulated with `seeds` seeds.
pub fn fit(
    base: &Experiment,
    rounds: u32,
    seeds: u32,
    on_round: &mut dyn FnMut(FitProgress<'_>),
) -> Result<Fitted, StageError> {
    let mut random = Random::new(1);
    let mut best = candidate(
        base,
        FREE.map(|free| (free.name, free.start)).to_vec(),
        seeds,
    )?;
    let mut width = 1.0;
    for round in 1..=rounds {
        let center = best.numbers.clone();
        for _ in 0..CANDIDATES {
            let numbers = FREE
                .iter()
                .zip(&center)
                .map(|(free, (_, middle))| {
                    let (low, high) = free.range;
                    let step = (random.unit() - 0.5) * width * (high - low);
                    (free.name, (middle + step).clamp(low, high))
                })
                .collect();
            let found = candidate(base, numbers, seeds)?;
            if found.objective < best.objective {
                best = found;
            }
        }
        width *= NARROWING;
        on_round(FitProgress { round, best: &best });
    }
    Ok(best)
}

fn candidate(
    base: &Experiment,
    numbers: Vec<(&'static str, f64)>,
    seeds: u32,
) -> Result<Fitted, StageError> {
    let mut experiment = base.clone();
    experiment.profile = Profile {
        kv_tokens: numbers[0].1 as u64,
        prefill_ms_per_token: numbers[1].1,
        attention_us_per_token_per_1k: numbers[2].1,
        step_overhead_ms: numbers[3].1,
        ..base.profile.clone()
    };
    experiment.round_trip_ms = numbers[4].1;
    experiment.start_spread_s = numbers[5].1;
    experiment.policies = vec![PolicyKind::Balanced, PolicyKind::AffinityGauge];
    let mut cells = Vec::new();
    for seed in 1..=seeds {
        cells.extend(experiment.run_seed(u64::from(seed), &mut |_| {})?);
    }
    let (mut sum, mut terms, mut worst) = (0.0, 0.0, 0.0);
    for policy in &experiment.policies {
        for level in &experiment.levels {
            let runs: Vec<&Figures> = cells
                .iter()
                .filter(|cell| cell.policy == *policy && cell.sessions == level.sessions)
                .map(|cell| &cell.figures)
                .collect();
            let Some(row) = published_row(*policy, level.sessions) else {
                continue;
            };
            for (cell, deviation) in deviations(*policy, &runs, &row.figures) {
                sum += loss(deviation);
                terms += 1.0;
                if is_promised(*policy, level.sessions, cell) {
                    worst = f64::max(worst, deviation.abs());
                }
            }
        }
    }
    Ok(Fitted {
        numbers,
        objective: worst + sum / f64::max(terms, 1.0),
    })
}

/// Quadratic within the tolerance, linear beyond: a cell that the model cannot reach at all must not
/// outweigh all that it can.
fn loss(deviation: f64) -> f64 {
    let size = deviation.abs();
    if size <= 1.0 {
        size * size
    } else {
        2.0 * size - 1.0
    }
}

/// What a published row and a simulated one are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    Tokens,
    Busy,
    Hits,
    Median,
}

/// Whether the model is expected to come within the tolerance there: without affinity at 4 and 8
/// sessions; with it in throughput at 4, 8 and 16, and in hits at 4 and 8.
fn is_promised(policy: PolicyKind, sessions: u32, cell: CellKind) -> bool {
    match (policy, cell) {
        (PolicyKind::AffinityGauge, CellKind::Tokens) => true,
        (PolicyKind::AffinityGauge, CellKind::Hits) | (PolicyKind::Balanced, _) => sessions < 16,
        _ => false,
    }
}

/// Deviations of the mean over the runs from the published cell, in units of what counts as close:
/// 10 % of throughput, 0.3 replicas, 8 points of hits without affinity and 4 with, 0.6 s of median.
fn deviations(policy: PolicyKind, runs: &[&Figures], published: &Figures) -> [(CellKind, f64); 4] {
    let mean = |figure: fn(&Figures) -> f64| -> f64 {
        runs.iter().map(|figures| figure(figures)).sum::<f64>() / runs.len() as f64
    };
    let off = policy == PolicyKind::Balanced;
    let tokens = |f: &Figures| f.output_tokens_per_min;
    let hits = |f: &Figures| f.prefix_hit_percent_vllm.unwrap_or(0.0);
    let median = |f: &Figures| f.ttfb_s_p50.unwrap_or(0.0);
    let difference = |figure: fn(&Figures) -> f64| mean(figure) - figure(published);
    let tokens_off = difference(tokens) / (0.1 * tokens(published));
    let hits_off = difference(hits) / if off { 8.0 } else { 4.0 };
    [
        (CellKind::Tokens, tokens_off),
        (CellKind::Busy, difference(|f| f.replicas_busy) / 0.3),
        (CellKind::Hits, hits_off),
        (CellKind::Median, difference(median) / 0.6),
    ]
}
