//! `lm-warden simulate leases-study`: what leases are worth, where, and what each part of the rule is
//! worth.
//!
//! A study is a list of cases; a case is a machine, a workload, a load and a variant of the rule. All
//! variants of one load see the same prompts and the same chances, and start on empty caches.

use super::SimulateError;
use super::figures::FIGURES;
use super::leases_cases::{Case, cases};
use super::run::run_seeds;
use super::table::number;
use crate::results::{ResultCell, Results, write_atomically};
use sim::experiment::Cell;
use sim::run::Waits;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `simulate leases-study`.
#[derive(Debug, Clone, Default)]
pub struct LeasesStudyRequest {
    /// Names of studies; empty means all that need no file.
    pub only: Vec<String>,
    /// Runs of each case, each with another seed; at least 1.
    pub seeds: u32,
    /// The first seed.
    pub first_seed: u64,
    /// Length of a stage, e.g. `20m`.
    pub stage: Option<String>,
    /// Recorded shapes, for the study "shapes".
    pub traces: Option<PathBuf>,
    /// Where results go.
    pub json: Option<PathBuf>,
}

/// A wait's name in results, and how it is read.
type WaitFigure = (&'static str, fn(&Waits) -> Option<f64>);

const WAITS: [WaitFigure; 14] = [
    ("ttfb_s_p75", |w| w.ttfb_s_p75),
    ("ttfb_s_p90", |w| w.ttfb_s_p90),
    ("ttfb_s_p99", |w| w.ttfb_s_p99),
    ("ttfb_s_first", |w| w.ttfb_s_first),
    ("ttfb_s_later", |w| w.ttfb_s_later),
    ("within_1s_percent", |w| w.within_1s_percent),
    ("within_5s_percent", |w| w.within_5s_percent),
    ("session_wait_s_p95", |w| w.session_wait_s_p95),
    ("session_s_mean", |w| w.session_s_mean),
    ("avoidable_miss_percent", |w| w.avoidable_miss_percent),
    ("jain_index", |w| w.jain_index),
    ("jain_index_owners", |w| w.jain_index_owners),
    ("queue_s_max", |w| Some(w.queue_s_max)),
    ("refusals", |w| Some(w.refusals)),
];

/// A column: heading, figure, decimals.
const COLUMNS: [(&str, &str, usize); 24] = [
    ("turns/s", "turns_per_s", 3),
    ("+-", "turns_per_s_sd", 3),
    ("hit %", "prefix_hit_percent", 1),
    ("mean s", "ttfb_s_mean", 2),
    ("p50", "ttfb_s_p50", 2),
    ("p75", "ttfb_s_p75", 1),
    ("p90", "ttfb_s_p90", 1),
    ("p95", "ttfb_s_p95", 1),
    ("p99", "ttfb_s_p99", 1),
    ("first", "ttfb_s_first", 1),
    ("later", "ttfb_s_later", 1),
    ("<1 s %", "within_1s_percent", 0),
    ("<5 s %", "within_5s_percent", 0),
    ("sess", "session_wait_s_mean", 1),
    ("sess95", "session_wait_s_p95", 1),
    ("length", "session_s_mean", 1),
    ("miss %", "avoidable_miss_percent", 1),
    ("preempt", "preemptions", 1),
    ("jain", "jain_index", 3),
    ("owners", "jain_index_owners", 3),
    ("longest", "queue_s_max", 0),
    ("refused", "refusals", 1),
    ("hit max", "bound_prefix_hit_percent", 1),
    ("max/s", "bound_turns_per_s", 3),
];

/// Runs the studies, prints their tables to `out` and writes the results where asked for.
pub fn leases_study(
    request: &LeasesStudyRequest,
    out: &mut impl Write,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), SimulateError> {
    let mut results = Results::of_simulation(serde_json::json!({
        "study": "leases",
        "seeds": request.seeds,
        "first_seed": request.first_seed,
        "stage": request.stage,
    }));
    let mut study = "";
    let cases = cases(request)?;
    for case in &cases {
        if case.study != study {
            study = case.study;
            print_heading(study, out)?;
        }
        let runs = run_seeds(
            &case.experiment,
            request.first_seed,
            request.seeds,
            progress,
        )?;
        for index in 0..runs.first().map_or(0, Vec::len) {
            let cells: Vec<&Cell> = runs.iter().map(|cells| &cells[index]).collect();
            let cell = result_cell(case, &cells);
            print_line(&cell, out)?;
            results.cells.push(cell);
        }
    }
    if let Some(path) = &request.json {
        let json = serde_json::to_vec_pretty(&results).map_err(std::io::Error::from)?;
        write_atomically(path, &json)?;
    }
    Ok(())
}

fn result_cell(case: &Case, runs: &[&Cell]) -> ResultCell {
    let first = runs.first().expect("a cell has runs");
    let mut cell = ResultCell {
        workload: format!("{}: {}", case.study, case.load),
        sessions: first.sessions,
        policy: case.variant.clone(),
        spill_threshold: None,
        runs: runs.len() as u32,
        figures: BTreeMap::new(),
    };
    for (name, figure) in FIGURES {
        let values: Vec<_> = runs.iter().map(|run| figure(&run.figures)).collect();
        cell.insert(name, &values);
    }
    let waits: Vec<Waits> = runs.iter().map(|run| Waits::of(&run.outcome)).collect();
    for (name, figure) in WAITS {
        let values: Vec<_> = waits.iter().map(figure).collect();
        cell.insert(name, &values);
    }
    let bounds: Vec<_> = runs.iter().filter_map(|run| run.bounds).collect();
    if !bounds.is_empty() {
        let hits: Vec<_> = bounds.iter().map(|b| b.prefix_hit_percent).collect();
        cell.insert("bound_prefix_hit_percent", &hits);
        let turns_per_s: Vec<_> = runs.iter().map(|run| turns_per_s_max(run)).collect();
        cell.insert("bound_turns_per_s", &turns_per_s);
    }
    cell
}

/// Turns a second where every avoidable token is cached.
fn turns_per_s_max(run: &Cell) -> Option<f64> {
    let bounds = run.bounds?;
    let tokens_per_turn = run.figures.output_tokens_per_min / run.figures.turns_per_s;
    Some(bounds.output_tokens_per_min / tokens_per_turn)
}

fn print_heading(study: &str, out: &mut impl Write) -> std::io::Result<()> {
    write!(
        out,
        "\n{study}\n{:<26}{:<20}{:>5}",
        "load", "variant", "sess"
    )?;
    for (heading, ..) in COLUMNS {
        write!(out, "{heading:>8}")?;
    }
    writeln!(out)
}

fn print_line(cell: &ResultCell, out: &mut impl Write) -> std::io::Result<()> {
    let load = cell.workload.split_once(": ").map_or("", |(_, load)| load);
    write!(out, "{load:<26}{:<20}{:>5}", cell.policy, cell.sessions)?;
    for (_, figure, decimals) in COLUMNS {
        write!(out, "{:>8}", number(cell.mean(figure), decimals))?;
    }
    writeln!(out)
}
