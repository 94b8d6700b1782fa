//! Tells watchers that something changed, not what: each model has two generation numbers, and a
//! watcher compares them with those it saw last. However many events there are, nothing queues up.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

/// Generations of all models.
#[derive(Debug)]
pub struct Changes {
    models: BTreeMap<Arc<str>, Generations>,
    signal: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Generations {
    model: AtomicU64,
    requests: AtomicU64,
}

/// One watcher's last look.
#[derive(Debug)]
pub struct Watcher {
    changes: watch::Receiver<()>,
    seen: BTreeMap<Arc<str>, (u64, u64)>,
}

impl Changes {
    pub(super) fn new(models: impl Iterator<Item = Arc<str>>) -> Self {
        Self {
            models: models.map(|name| (name, Generations::default())).collect(),
            signal: watch::Sender::new(()),
        }
    }

    /// A request of this model began, moved on or ended; its panel counts it too.
    pub(super) fn request(&self, model: &str) {
        if let Some(generations) = self.models.get(model) {
            generations.requests.fetch_add(1, Ordering::Relaxed);
            generations.model.fetch_add(1, Ordering::Relaxed);
            self.signal.send_replace(());
        }
    }

    /// The model's own figures changed: state, gauges, settings.
    pub fn model(&self, model: &str) {
        if let Some(generations) = self.models.get(model) {
            generations.model.fetch_add(1, Ordering::Relaxed);
            self.signal.send_replace(());
        }
    }

    /// Watches from now on.
    pub fn watch(&self) -> Watcher {
        let mut watcher = Watcher {
            changes: self.signal.subscribe(),
            seen: BTreeMap::new(),
        };
        watcher.look(self);
        watcher
    }
}

impl Watcher {
    /// Waits until something may have changed since the last look.
    pub async fn changed(&mut self) {
        // The sender lives as long as the telemetry, which outlives every watcher.
        let _ = self.changes.changed().await;
    }

    /// What changed since the last look.
    pub fn look(&mut self, changes: &Changes) -> api::Changed {
        let mut difference = api::Changed::default();
        for (name, generations) in &changes.models {
            let now = (
                generations.model.load(Ordering::Relaxed),
                generations.requests.load(Ordering::Relaxed),
            );
            let before = self.seen.insert(Arc::clone(name), now).unwrap_or_default();
            if now.0 != before.0 {
                difference.models.push(name.to_string());
            }
            if now.1 != before.1 {
                difference.requests.push(name.to_string());
            }
        }
        difference
    }
}
