//! Operators' changes to routing, kept in a file over restarts.
//!
//! A change goes before the configuration that it was made on. Where the configuration has been
//! edited since, the edit is the younger word and the change is dropped; so each one is kept with
//! the configured value that it replaced.

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::routing::apply;
use crate::{
    config,
    fleet::{Fleet, Model},
    persist::write_atomically,
};

/// The changes of all models, and where they are kept.
#[derive(Debug)]
pub struct Overrides {
    path: PathBuf,
    configured: Mutex<BTreeMap<String, Configured>>,
    changes: Mutex<BTreeMap<String, Changed>>,
}

/// What the configuration says now.
#[derive(Debug, Clone, Copy)]
struct Configured {
    affinity: bool,
    spill_threshold: api::SetThreshold,
    leases: api::LeasesMode,
    lease_turns: api::SetTurns,
}

/// One model's changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Changed {
    affinity: Option<Change<bool>>,
    spill_threshold: Option<Change<api::SetThreshold>>,
    leases: Option<Change<api::LeasesMode>>,
    lease_turns: Option<Change<api::SetTurns>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Change<T> {
    /// What the configuration said then.
    configured: T,
    set: T,
}

impl<T: PartialEq + Copy> Change<T> {
    /// The value to set, where the configuration still says what it said then.
    fn on(change: Option<Self>, configured: T) -> Option<T> {
        let change = change?;
        (change.configured == configured).then_some(change.set)
    }
}

/// Why changes cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum OverridesError {
    /// The file system's word.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Not what this program writes.
    #[error("{} is damaged ({cause}); remove it to go back to the configuration", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: serde_json::Error,
    },
}

impl Overrides {
    /// Reads the changes and puts them in force.
    pub fn load(
        path: PathBuf,
        config: &config::Config,
        fleet: &Fleet,
    ) -> Result<Self, OverridesError> {
        let changes: BTreeMap<String, Changed> = match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|cause| OverridesError::Damaged {
                    path: path.clone(),
                    cause,
                })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(cause) => return Err(OverridesError::Io { path, cause }),
        };
        let overrides = Self {
            path,
            configured: Mutex::default(),
            changes: Mutex::new(changes),
        };
        overrides.reconfigure(config, fleet);
        Ok(overrides)
    }

    /// Puts the changes in force that go before this configuration.
    pub(crate) fn reconfigure(&self, config: &config::Config, fleet: &Fleet) {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut configured = BTreeMap::new();
        for model in &config.models {
            let now = Configured {
                affinity: model.routing.affinity,
                spill_threshold: model.routing.spill_threshold,
                leases: model.routing.leases,
                lease_turns: model.routing.lease_turns,
            };
            configured.insert(model.name.clone(), now);
            let kept = changes.get(&model.name).copied().unwrap_or_default();
            let change = api::PatchRouting {
                affinity: Change::on(kept.affinity, now.affinity),
                spill_threshold: Change::on(kept.spill_threshold, now.spill_threshold),
                leases: Change::on(kept.leases, now.leases),
                lease_turns: Change::on(kept.lease_turns, now.lease_turns),
            };
            if change != api::PatchRouting::default()
                && let Some(served) = fleet.get(&model.name)
            {
                tracing::info!(model = %model.name, ?change, "an operator's change goes before the configuration");
                apply(served, change);
            }
        }
        drop(changes);
        *self.configured() = configured;
    }

    fn configured(&self) -> MutexGuard<'_, BTreeMap<String, Configured>> {
        self.configured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a change in force and keeps it. Blocks on the disk; where that fails it is in force all
    /// the same.
    pub(super) fn change(
        &self,
        model: &Model,
        patch: api::PatchRouting,
    ) -> Result<(), OverridesError> {
        let configured = self.configured().get(&model.name).copied();
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        // One at a time: of two changes the later one is in force, and must be what is kept.
        apply(model, patch);
        let Some(configured) = configured else {
            return Ok(()); // not in the configuration: nothing to keep it beside
        };
        let kept = changes.entry(model.name.clone()).or_default();
        if let Some(set) = patch.affinity {
            let configured = configured.affinity;
            kept.affinity = Some(Change { configured, set });
        }
        if let Some(set) = patch.spill_threshold {
            let configured = configured.spill_threshold;
            kept.spill_threshold = Some(Change { configured, set });
        }
        if let Some(set) = patch.leases {
            let configured = configured.leases;
            kept.leases = Some(Change { configured, set });
        }
        if let Some(set) = patch.lease_turns {
            let configured = configured.lease_turns;
            kept.lease_turns = Some(Change { configured, set });
        }
        let json = serde_json::to_vec_pretty(&*changes).expect("changes are plain JSON");
        write_atomically(&self.path, &json).map_err(|cause| OverridesError::Io {
            path: self.path.clone(),
            cause,
        })
    }
}
