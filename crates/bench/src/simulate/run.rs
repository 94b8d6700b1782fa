//! `lm-warden simulate run`.

use super::{RunRequest, SimulateError, compare, figures, series, table};
use crate::option::OptionError;
use crate::results::{ResultCell, Results, write_atomically};
use sim::experiment::{Cell, Experiment};
use sim::policy::PolicyKind;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the experiment, prints its tables to `out` and its progress to `progress`, and writes the
/// results where asked for.
pub fn run(
    request: &RunRequest,
    out: &mut impl Write,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), SimulateError> {
    let mut show = |experiment: &Experiment, runs: &[Vec<Cell>], cells: &[ResultCell]| {
        if let Some(threshold) = experiment.spill_threshold {
            writeln!(out, "Spill threshold {threshold}\n")?;
        }
        table::print(cells, out)?;
        match request.workload.as_str() {
            "published" => compare::print(experiment, cells, out),
            "farm" => series::print(experiment, runs, out),
            _ => Ok(()),
        }
    };
    let results = each_threshold(request, progress, &mut show)?;
    if let Some(path) = &request.json {
        let json = serde_json::to_vec_pretty(&results).map_err(std::io::Error::from)?;
        write_atomically(path, &json)?;
    }
    Ok(())
}

/// Runs the experiment and prints nothing.
pub fn results(
    request: &RunRequest,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Results, SimulateError> {
    each_threshold(request, progress, &mut |_, _, _| Ok(()))
}

/// What is told of a threshold's runs.
type Show<'a> = dyn FnMut(&Experiment, &[Vec<Cell>], &[ResultCell]) -> std::io::Result<()> + 'a;

fn each_threshold(
    request: &RunRequest,
    progress: &(dyn Fn(&str) + Sync),
    show: &mut Show<'_>,
) -> Result<Results, SimulateError> {
    if !(1..=10_000).contains(&request.seeds) {
        let mend = "give a number from 1 to 10000";
        return Err(OptionError::new("--seeds", request.seeds.to_string(), mend).into());
    }
    let base = request.experiment()?;
    let thresholds: Vec<Option<u32>> = match request.spill_thresholds.as_slice() {
        [] => vec![None],
        given => given.iter().copied().map(Some).collect(),
    };
    let mut results = Results::of_simulation(settings(request, &base));
    for spill_threshold in thresholds {
        let experiment = Experiment {
            spill_threshold,
            ..base.clone()
        };
        let runs = run_seeds(&experiment, 1, request.seeds, progress)?;
        let cells = result_cells(request, &experiment, &runs);
        show(&experiment, &runs, &cells)?;
        results.cells.extend(cells);
    }
    Ok(results)
}

/// Runs all seeds, as many at a time as there are cores; the order of the results is that of the
/// seeds.
pub(super) fn run_seeds(
    experiment: &Experiment,
    first_seed: u64,
    seeds: u32,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Vec<Cell>>, SimulateError> {
    let stages = experiment.stages() * seeds as usize;
    let done = AtomicUsize::new(0);
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(seeds as usize);
    let one_core = || {
        let mut runs = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= seeds as usize {
                return runs;
            }
            let cells = experiment.run_seed(first_seed + index as u64, &mut |cell| {
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                let (policy, sessions) = (cell.policy.as_str(), cell.sessions);
                progress(&format!(
                    "{done} of {stages} stages: {policy}, {sessions} sessions"
                ));
            });
            runs.push((index, cells));
        }
    };
    let mut runs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one_core)).collect();
        threads
            .into_iter()
            .flat_map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    runs.sort_by_key(|(index, _)| *index);
    runs.into_iter()
        .map(|(_, cells)| cells.map_err(SimulateError::from))
        .collect()
}

/// One cell per policy and level.
fn result_cells(
    request: &RunRequest,
    experiment: &Experiment,
    runs: &[Vec<Cell>],
) -> Vec<ResultCell> {
    (0..runs[0].len())
        .map(|index| {
            let cells: Vec<&Cell> = runs.iter().map(|cells| &cells[index]).collect();
            figures::result_cell(&request.workload, experiment.spill_threshold, &cells)
        })
        .collect()
}

fn settings(request: &RunRequest, experiment: &Experiment) -> serde_json::Value {
    let profile = &experiment.profile;
    let sources: serde_json::Map<_, _> = profile
        .provenance
        .iter()
        .map(|provenance| {
            let basis = format!("{:?}", provenance.basis).to_lowercase();
            (
                provenance.field.to_owned(),
                serde_json::json!([basis, provenance.source]),
            )
        })
        .collect();
    let policies: Vec<_> = experiment
        .policies
        .iter()
        .copied()
        .map(PolicyKind::as_str)
        .collect();
    serde_json::json!({
        "workload": request.workload,
        "context": request.context,
        "time_scale": request.time_scale,
        "policies": policies,
        "replicas": experiment.replicas,
        "balancer": experiment.balancer.version.as_str(),
        "api_servers": experiment.balancer.api_servers,
        "keeps_connections": experiment.balancer.keeps_connections,
        "stage_s": experiment.window_s,
        "round_trip_ms": experiment.round_trip_ms,
        "start_spread_s": experiment.start_spread_s,
        "second_arm_is_warm": experiment.second_arm_is_warm,
        "seeds": request.seeds,
        "spill_thresholds": request.spill_thresholds,
        "profile": {
            "name": profile.name,
            "step_overhead_ms": profile.step_overhead_ms,
            "prefill_ms_per_token": profile.prefill_ms_per_token,
            "attention_us_per_token_per_1k": profile.attention_us_per_token_per_1k,
            "weights_read_ms": profile.weights_read_ms,
            "kv_read_ms_per_1k": profile.kv_read_ms_per_1k,
            "kv_bytes_per_token": profile.kv_bytes_per_token,
            "kv_tokens": profile.kv_tokens,
            "max_num_seqs": profile.max_num_seqs,
            "max_num_batched_tokens": profile.max_num_batched_tokens,
            "max_model_len": profile.max_model_len,
            "sources": sources,
        },
    })
}
