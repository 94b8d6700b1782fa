//! What is made of results: a table in the terminal, CSV, JSON, and one HTML file that shows the
//! measurement, the simulation and the published numbers side by side.
//!
//! Computes no figure: whatever stands in a report stands in the results.

mod columns;
mod console;
mod csv;
mod html;
#[cfg(test)]
mod tests;

use crate::option::OptionError;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sim::experiment::published_rows;

pub use console::print;
pub use csv::csv;
pub use html::html;

use crate::{
    load::BenchError,
    results::{Kind, ResultCell, Results, write_atomically},
    simulate::{self, FIGURES, RunRequest},
};

/// Runs of the simulation that stands beside a measurement.
const SIMULATED_SEEDS: u32 = 5;

/// Where reports go; each file is written whole or not at all.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// Results as JSON.
    pub json: Option<PathBuf>,
    /// Results as CSV.
    pub csv: Option<PathBuf>,
    /// The report.
    pub html: Option<PathBuf>,
}

/// What a report shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of the program that made it.
    pub version: &'static str,
    /// In the order in which they are shown.
    pub sources: Vec<Source>,
}

/// Results of one origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Source {
    /// `bench`, `simulation` or `published`.
    pub kind: &'static str,
    /// What people read above it.
    pub name: String,
    /// Seconds since the Unix epoch; null for published ones.
    pub started: Option<u64>,
    /// What the figures depend on.
    pub settings: serde_json::Value,
    /// The figures.
    pub cells: Vec<ResultCell>,
}

impl Outputs {
    /// Finds out before a long run whether the files can be written after it.
    pub fn check(&self) -> Result<(), BenchError> {
        let files = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--html", &self.html),
        ];
        for (option, path) in files {
            let Some(path) = path else { continue };
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            if path.is_dir() || path.file_name().is_none() || !folder.is_dir() {
                let value = path.display().to_string();
                let mend = "give a file in a folder that exists";
                return Err(OptionError::new(option, value, mend).into());
            }
        }
        Ok(())
    }

    /// Writes JSON and CSV of results.
    pub fn write(&self, results: &[Results]) -> Result<(), BenchError> {
        if let Some(path) = &self.json {
            let json = match results {
                [one] => serde_json::to_vec_pretty(one),
                several => serde_json::to_vec_pretty(several),
            };
            write_atomically(path, &json.map_err(std::io::Error::from)?)?;
        }
        if let Some(path) = &self.csv {
            write_atomically(path, csv(results).as_bytes())?;
        }
        Ok(())
    }
}

impl Report {
    /// A report of these results. Where they hold no simulation, one of the same load is run; the
    /// published numbers stand beside whatever ran the published workload.
    pub fn of(
        results: &[Results],
        simulate: bool,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, BenchError> {
        let mut sources: Vec<Source> = results.iter().map(Source::of).collect();
        let is_published = |cell: &ResultCell| cell.workload == "published";
        let published = results.iter().any(|r| r.cells.iter().any(is_published));
        let simulated = results.iter().any(|r| r.kind == Kind::Simulation);
        if published && simulate && !simulated {
            let request = simulation_of(results);
            sources.push(Source::of(&simulate::results(&request, progress)?));
        }
        if published {
            sources.push(Source::published());
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            sources,
        })
    }
}

/// The simulation of what was measured: the same levels and stages on the published machine.
fn simulation_of(results: &[Results]) -> RunRequest {
    let mut sessions: Vec<u32> = results
        .iter()
        .flat_map(|results| results.cells.iter().map(|cell| cell.sessions))
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    let stage_s = results.iter().find_map(|r| r.settings["stage_s"].as_f64());
    RunRequest {
        workload: "published".to_owned(),
        policies: vec!["balanced".to_owned(), "affinity".to_owned()],
        sessions,
        stage: stage_s.map(|seconds| format!("{seconds}s")),
        seeds: SIMULATED_SEEDS,
        ..RunRequest::default()
    }
}

impl Source {
    fn of(results: &Results) -> Self {
        let (kind, name) = match results.kind {
            Kind::Bench => ("bench", "Measured"),
            Kind::Simulation => ("simulation", "Simulated"),
        };
        Self {
            kind,
            name: name.to_owned(),
            started: Some(results.started),
            settings: results.settings.clone(),
            cells: results.cells.clone(),
        }
    }

    /// The published table of four RTX A4000.
    fn published() -> Self {
        let cells = published_rows().into_iter().map(|row| {
            let policy = if row.affinity { "affinity" } else { "balanced" };
            let figures = FIGURES
                .iter()
                .filter(|(name, _)| columns::is_published(name))
                .map(|(name, figure)| ((*name).to_owned(), figure(&row.figures)));
            ResultCell {
                workload: "published".to_owned(),
                sessions: row.sessions,
                policy: policy.to_owned(),
                spill_threshold: None,
                runs: 1,
                figures: figures.collect(),
            }
        });
        Self {
            kind: "published",
            name: "Published".to_owned(),
            started: None,
            settings: serde_json::json!({
                "machine": "four NVIDIA RTX A4000, one replica each",
                "engine": "vLLM 0.26, Qwen3-4B in bf16",
                "stage_s": 180,
                "runs": 1,
            }),
            cells: cells.collect(),
        }
    }
}

/// Results out of files that `--json` wrote, one or several in each.
pub fn load(paths: &[PathBuf]) -> Result<Vec<Results>, BenchError> {
    let mut all = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path).map_err(|cause| BenchError::Read {
            path: path.clone(),
            cause,
        })?;
        let bad = |cause: serde_json::Error| BenchError::NoResults {
            path: path.clone(),
            cause: cause.to_string(),
        };
        // Asked for by its form, so that an error speaks of the field at fault.
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            all.extend(serde_json::from_slice::<Vec<Results>>(&bytes).map_err(bad)?);
        } else {
            all.push(serde_json::from_slice(&bytes).map_err(bad)?);
        }
    }
    Ok(all)
}
