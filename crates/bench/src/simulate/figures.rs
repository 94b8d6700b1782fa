//! The names of all figures, and means over the seeds.

use crate::results::ResultCell;
use sim::experiment::Cell;
use sim::run::Figures;
use std::collections::BTreeMap;

/// A figure's name in results, and how it is read.
pub(crate) type Figure = (&'static str, fn(&Figures) -> Option<f64>);

/// All figures of a stage.
pub(crate) const FIGURES: [Figure; 14] = [
    ("sessions_per_hour", |f| Some(f.sessions_per_hour)),
    ("output_tokens_per_min", |f| Some(f.output_tokens_per_min)),
    ("turns_per_s", |f| Some(f.turns_per_s)),
    ("ttfb_s_mean", |f| f.ttfb_s_mean),
    ("ttfb_s_p50", |f| f.ttfb_s_p50),
    ("ttfb_s_p95", |f| f.ttfb_s_p95),
    ("turn_s_mean", |f| f.turn_s_mean),
    ("session_wait_s_mean", |f| f.session_wait_s_mean),
    ("replicas_busy", |f| Some(f.replicas_busy)),
    ("prefix_hit_percent", |f| f.prefix_hit_percent),
    ("prefix_hit_percent_vllm", |f| f.prefix_hit_percent_vllm),
    ("own_hit_percent", |f| f.own_hit_percent),
    ("stayed_percent", |f| f.stayed_percent),
    ("preemptions", |f| Some(f.preemptions)),
];

/// The cell of one policy and load from its runs, which are not empty.
pub(super) fn result_cell(
    workload: &str,
    spill_threshold: Option<u32>,
    runs: &[&Cell],
) -> ResultCell {
    let first = runs.first().expect("a cell has runs");
    let mut cell = ResultCell {
        workload: workload.to_owned(),
        sessions: first.sessions,
        policy: first.policy.as_str().to_owned(),
        spill_threshold,
        runs: runs.len() as u32,
        figures: BTreeMap::new(),
    };
    for (name, figure) in FIGURES {
        let values: Vec<_> = runs.iter().map(|run| figure(&run.figures)).collect();
        cell.insert(name, &values);
    }
    // Every turn in flight at the end of a stage is drained, and no simulated engine fails.
    for name in ["censored", "failed"] {
        cell.insert(name, &vec![Some(0.0); runs.len()]);
    }
    let bounds: Vec<_> = runs.iter().filter_map(|run| run.bounds).collect();
    if !bounds.is_empty() {
        let hits: Vec<_> = bounds
            .iter()
            .map(|bounds| bounds.prefix_hit_percent)
            .collect();
        cell.insert("bound_prefix_hit_percent", &hits);
        let tokens: Vec<_> = bounds
            .iter()
            .map(|bounds| Some(bounds.output_tokens_per_min))
            .collect();
        cell.insert("bound_output_tokens_per_min", &tokens);
    }
    cell
}
