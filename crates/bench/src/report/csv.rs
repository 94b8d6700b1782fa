//! Results as CSV: a line per cell, all figures of all results, empty where one was not measured.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::results::{Kind, Results};

/// The CSV of these results.
pub fn csv(results: &[Results]) -> String {
    let cells = || results.iter().flat_map(|results| results.cells.iter());
    let names: BTreeSet<&String> = cells().flat_map(|cell| cell.figures.keys()).collect();
    let mut text = String::from("kind,workload,sessions,policy,spill_threshold,runs");
    for name in &names {
        text.push(',');
        text.push_str(name);
    }
    text.push('\n');
    for results in results {
        let kind = match results.kind {
            Kind::Bench => "bench",
            Kind::Simulation => "simulation",
        };
        for cell in &results.cells {
            let threshold = cell.spill_threshold.map(|threshold| threshold.to_string());
            let _ = write!(
                text,
                "{kind},{},{},{},{},{}",
                field(&cell.workload),
                cell.sessions,
                field(&cell.policy),
                threshold.unwrap_or_default(),
                cell.runs
            );
            for name in &names {
                text.push(',');
                if let Some(value) = cell.mean(name) {
                    let _ = write!(text, "{value}");
                }
            }
            text.push('\n');
        }
    }
    text
}

/// Quoted where it has to be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
