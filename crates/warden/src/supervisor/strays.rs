//! Engines of an earlier configuration: they run, were started here, and nobody wants them any
//! more. They are ended before the configured ones start, since they may hold their cards.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::{
    process::signal_group,
    record::{self, Record},
};

/// How long one may take after SIGTERM.
const TERMINATE_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);

/// Ends all recorded engines but those whose records are `wanted`. Blocks until they are gone.
pub(super) fn end(engines: &Path, wanted: &[PathBuf]) {
    let Ok(models) = std::fs::read_dir(engines) else {
        return; // no engine was ever started here
    };
    let records = models
        .filter_map(|model| Some(model.ok()?.path()))
        .flat_map(|model| record::all(&model))
        .filter(|path| !wanted.contains(path));
    let strays: Vec<(PathBuf, Record)> = records
        .filter_map(|path| Record::read(&path).map(|record| (path, record)))
        .collect();
    for (_, record) in &strays {
        if let Some(identity) = record.alive() {
            tracing::info!(model = %record.model, pid = identity.pid, "a vLLM that is no longer configured is stopped");
            signal_group(identity.pid, Signal::SIGTERM);
        }
    }
    let deadline = Instant::now() + TERMINATE_MAX;
    while Instant::now() < deadline && strays.iter().any(|(_, record)| record.alive().is_some()) {
        std::thread::sleep(POLL);
    }
    for (path, record) in strays {
        let left = record.sweep();
        if left > 0 {
            tracing::error!(model = %record.model, left, "processes of a vLLM cannot be killed");
        }
        record::remove(&path);
    }
}
