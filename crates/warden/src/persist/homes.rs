//! The thread that writes homes to disk, for all models: what changed, twice a second.
//!
//! A thread of its own because it waits for the disk. A full or failing disk is told once and tried
//! again; serving goes on, only a restart would forget.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::Duration,
};

use routing::{HomeChange, HomeRecord, ReplicaIndex, Time};
use twox_hash::XxHash3_64;

use super::{DataDir, DataDirError, journal::Journal, record::Record};
use crate::{
    clock,
    fleet::{Fleet, Model},
};

/// From one write to the next.
const INTERVAL: Duration = Duration::from_millis(500);
/// After a failed write the whole table is tried again, which is more work.
const RETRY_EVERY: u32 = 10;

/// The running thread.
#[derive(Debug)]
pub struct HomesWriter {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl HomesWriter {
    /// Puts the homes on disk back into the routers, then begins to write their changes.
    pub fn start(data_dir: &DataDir, fleet: &Fleet, now: Time) -> Result<Self, DataDirError> {
        let directory = data_dir.path("homes");
        let error = |path: &Path| {
            let path = path.to_owned();
            move |cause| DataDirError::Io { path, cause }
        };
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory);
        made.map_err(error(&directory))?;
        let mut tables = Vec::new();
        for model in &fleet.models {
            let path = directory.join(file_name(&model.name));
            let table = Table::open(&path, model, now).map_err(error(&path))?;
            tables.push(table);
        }
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("homes".to_owned())
            .spawn(move || write_until(&stopped, &mut tables))
            .map_err(error(&directory))?;
        Ok(Self { stop, thread })
    }

    /// Writes what is left and ends the thread.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the writer of homes panicked");
        }
    }
}

fn write_until(stopped: &mpsc::Receiver<()>, tables: &mut [Table]) {
    loop {
        let ended = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        for table in &mut *tables {
            table.write(clock::now(), ended);
        }
        if ended {
            return;
        }
    }
}

/// A readable, unique file name for a model.
pub(crate) fn file_name(model: &str) -> PathBuf {
    let readable: String = model
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    PathBuf::from(format!(
        "{readable}-{:08x}",
        XxHash3_64::oneshot(model.as_bytes()) as u32
    ))
}

/// One model's homes in its router and on disk.
#[derive(Debug)]
pub(super) struct Table {
    model: Arc<Model>,
    journal: Journal,
    /// Rounds since a write failed; 0 while all is well.
    failing: u32,
}

impl Table {
    /// Opens the journal and puts its homes back; those of replicas that are no longer configured
    /// are left out.
    pub(super) fn open(path: &Path, model: &Arc<Model>, now: Time) -> io::Result<Self> {
        let (journal, records) = Journal::open(path)?;
        let index = |replica: &str| model.replica_ids.iter().position(|id| id == replica);
        let homes: Vec<HomeRecord> = records
            .into_iter()
            .filter_map(|record| match record {
                Record::Set { mut home, replica } => {
                    home.home = ReplicaIndex(index(&replica)? as u16);
                    Some(home)
                }
                Record::Forget(_) => None,
            })
            .collect();
        tracing::info!(model = %model.name, homes = homes.len(), "homes read");
        let mut router = model.router.lock();
        router.restore(now, homes);
        drop(router);
        Ok(Self {
            model: Arc::clone(model),
            journal,
            failing: 0,
        })
    }

    /// Writes what changed since the last time.
    pub(super) fn write(&mut self, now: Time, last: bool) {
        let changes = self.model.router.lock().take_changes();
        let written = if self.journal.is_broken() {
            self.failing += 1;
            if !last && !self.failing.is_multiple_of(RETRY_EVERY) {
                return;
            }
            self.journal.rewrite(&self.all(now))
        } else if changes.is_empty() {
            return;
        } else {
            let records: Vec<Record> = changes
                .into_iter()
                .map(|change| self.record(change))
                .collect();
            self.journal.append(&records)
        };
        self.tell(written);
    }

    /// Logs when writing begins to fail and when it works again, not every attempt.
    fn tell(&mut self, written: io::Result<()>) {
        let model = &self.model.name;
        match written {
            Ok(()) => {
                if self.failing > 0 {
                    tracing::info!(%model, "homes are written again");
                }
                self.failing = 0;
            }
            Err(error) if self.failing == 0 => {
                self.failing = 1;
                tracing::error!(%model, %error, "homes cannot be written; a restart would forget them");
            }
            Err(error) => tracing::debug!(%model, %error, "homes still cannot be written"),
        }
    }

    fn all(&self, now: Time) -> Vec<Record> {
        let views = self.model.router.lock().conversations(now, usize::MAX);
        let homes = views.into_iter().map(|view| HomeChange::Set(view.record));
        homes.map(|home| self.record(home)).collect()
    }

    fn record(&self, change: HomeChange) -> Record {
        match change {
            HomeChange::Forget(key) => Record::Forget(key),
            HomeChange::Set(home) => Record::Set {
                home,
                replica: self.model.replica_ids[usize::from(home.home.0)].clone(),
            },
        }
    }
}

#[cfg(test)]
impl Table {
    /// As a full disk would.
    pub(super) fn fail_next_write(&mut self) {
        self.journal.fail_next_write();
    }
}
