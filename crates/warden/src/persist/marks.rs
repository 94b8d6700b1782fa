//! Which processes the attached engines were when they were last seen.
//!
//! Homes outlive a restart of the warden because the engines' caches do. An engine that somebody else
//! restarted in the meantime has an empty one, and only what its metrics said before tells. (Engines
//! that are started here are known by their processes.) A lost file costs no more than that.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::write_atomically;
use crate::fleet::{Figures, Fleet, Mark, Model};

/// From one write to the next.
const INTERVAL: Duration = Duration::from_secs(10);

/// By model, then by replica's stable name.
type Seen = BTreeMap<String, BTreeMap<String, Mark>>;

/// Keeps them.
#[derive(Debug)]
pub struct Marks {
    path: PathBuf,
    models: Vec<Arc<Model>>,
    written: Mutex<Seen>,
}

impl Marks {
    /// Reads what an earlier warden saw and hands it to the models, before they are looked at.
    pub fn load(path: PathBuf, fleet: &Fleet) -> Self {
        let seen: Seen = fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let attached = |model: &&Arc<Model>| model.kind == api::EngineKind::Attached;
        let models: Vec<_> = fleet.models.iter().filter(attached).cloned().collect();
        for model in &models {
            let Some(seen) = seen.get(&model.name) else {
                continue;
            };
            for (id, figures) in model.replica_ids.iter().zip(model.figures().iter_mut()) {
                if let Some(mark) = seen.get(id) {
                    figures.remember(*mark);
                }
            }
        }
        Self {
            path,
            models,
            written: Mutex::new(seen),
        }
    }

    /// Writes every few seconds, until this is dropped.
    pub async fn keep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let marks = Arc::clone(&self);
            if tokio::task::spawn_blocking(move || marks.write())
                .await
                .is_err()
            {
                return; // it panicked, and the panic hook has told where
            }
        }
    }

    /// Writes what changed. Blocks on the disk.
    pub fn write(&self) {
        let marks = |model: &Arc<Model>| {
            let figures = model.figures();
            let marks = figures.iter().map(Figures::mark);
            let by_replica = model.replica_ids.iter().cloned().zip(marks).collect();
            (model.name.clone(), by_replica)
        };
        let seen: Seen = self.models.iter().map(marks).collect();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written == seen {
            return;
        }
        let bytes = serde_json::to_vec(&seen).expect("names and numbers are JSON");
        match write_atomically(&self.path, &bytes) {
            Ok(()) => *written = seen,
            Err(error) => tracing::warn!(
                path = %self.path.display(), %error,
                "cannot be written: an engine that is restarted while lm-warden is down will not be noticed"
            ),
        }
    }
}
