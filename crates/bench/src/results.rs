//! Results of a bench or a simulation, as they are kept in JSON.
//!
//! A cell is one policy at one load; each of its figures is the mean over the runs, with the
//! standard deviation beside it as `<name>_sd`. A figure that no run gave is null.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A whole file of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Real or virtual time.
    pub kind: Kind,
    /// Version of the program that made it.
    pub version: String,
    /// When it was made, seconds since the Unix epoch.
    pub started: u64,
    /// Everything that it depends on.
    pub settings: serde_json::Value,
    /// One per policy and load.
    pub cells: Vec<ResultCell>,
}

/// Where results come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Measured over HTTP.
    Bench,
    /// Simulated.
    Simulation,
}

impl Results {
    /// Of a simulation that starts now; its cells are still to come.
    pub fn of_simulation(settings: serde_json::Value) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            kind: Kind::Simulation,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: since_epoch.map_or(0, |since| since.as_secs()),
            settings,
            cells: Vec::new(),
        }
    }
}

/// One policy at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultCell {
    /// Name of the workload.
    pub workload: String,
    /// Sessions in parallel (or an hour, where they arrive on their own).
    pub sessions: u32,
    /// Name of the policy.
    pub policy: String,
    /// The spill threshold that was set; null where it was left to the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_threshold: Option<u32>,
    /// How many runs the figures are means of.
    pub runs: u32,
    /// The figures by name, and their spreads by `<name>_sd`.
    #[serde(flatten)]
    pub figures: BTreeMap<String, Option<f64>>,
}

impl ResultCell {
    /// Adds a figure of which each run gave one value or none.
    pub fn insert(&mut self, name: &str, runs: &[Option<f64>]) {
        let values: Vec<f64> = runs.iter().copied().flatten().collect();
        let (mean, sd) = mean_and_sd(&values).unzip();
        self.figures.insert(name.to_owned(), mean);
        self.figures.insert(format!("{name}_sd"), sd);
    }

    /// The mean of a figure.
    pub fn mean(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied().flatten()
    }

    /// The standard deviation of a figure over the runs.
    pub fn sd(&self, name: &str) -> Option<f64> {
        self.mean(&format!("{name}_sd"))
    }
}

/// Mean and standard deviation (of a sample; 0 for a single value); `None` without a value.
fn mean_and_sd(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0).max(1.0)).sqrt()))
}

/// Writes a file whole or not at all: a reader never sees half of it.
pub fn write_atomically(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let partial = path.with_file_name(name);
    std::fs::write(&partial, contents)
        .and_then(|()| std::fs::rename(&partial, path))
        .inspect_err(|_| {
            // The error that matters is the first; a leftover is only untidy.
            let _ = std::fs::remove_file(&partial);
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_mean_of_the_runs_that_gave_it_with_its_spread() {
        let mut cell = ResultCell {
            workload: "published".into(),
            sessions: 4,
            policy: "affinity".into(),
            spill_threshold: None,
            runs: 3,
            figures: BTreeMap::new(),
        };
        cell.insert("turns_per_s", &[Some(1.0), Some(3.0), None]);
        cell.insert("stayed_percent", &[None, None, None]);
        assert_eq!(cell.mean("turns_per_s"), Some(2.0));
        assert_eq!(cell.sd("turns_per_s"), Some(2f64.sqrt()));
        let json = serde_json::to_value(&cell).unwrap();
        assert_eq!(json["turns_per_s"], 2.0);
        assert!(json["stayed_percent"].is_null());
        assert_eq!(serde_json::from_value::<ResultCell>(json).unwrap(), cell);
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(write_atomically(&directory.path().join("no/such/file"), b"x").is_err());
    }
}
