//! The one thread that writes.
//!
//! It takes what is handed over, writes it more than once a second, and keeps what it could not write
//! for the next attempt, up to a bound; past that the newest is dropped and counted. Nothing that
//! befalls the file reaches a request: who hands over never waits. A damaged file is put aside under
//! a name of its own and a new one begun; a full disk, a lock or a missing directory is tried again.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
    time::Duration,
};

use routing::Time;
use tokio::sync::oneshot;

use super::{
    Noted,
    error::StoreError,
    health::Health,
    store::{Batch, Bounds, Ended, Store},
};
use crate::clock;

/// From one write to the next, and so what a kill may cost. Rows of the same conversations share pages
/// of the indexes, so that the longer it is, the fewer pages are written for each row.
const INTERVAL: Duration = Duration::from_millis(700);
/// From one failed attempt to the next.
const RETRY: Duration = Duration::from_secs(1);
/// From one look at age and size to the next.
const TIDY: Duration = Duration::from_secs(1);
/// Kept in memory while nothing can be written: some 20 MB.
const KEPT_MAX: usize = 20_000;
/// Written in one transaction.
const BATCH_MAX: usize = 4_000;
/// Damaged files that are kept; the oldest goes first.
const ASIDE_MAX: usize = 2;

/// What is handed to the writer.
#[derive(Debug)]
pub(super) enum Message {
    /// An ended request, with its number and the name of its key.
    Ended {
        number: u64,
        request: Arc<dyn Noted>,
        key_name: Option<Arc<str>>,
    },
    Mark(api::Mark),
    /// Write now, then answer, whether it worked or not.
    Flush(oneshot::Sender<()>),
    /// Write what is left, and end.
    Stop,
}

/// Bounds that may change at any time.
#[derive(Debug)]
pub(super) struct SharedBounds {
    pub(super) days_max: AtomicU64,
    pub(super) bytes_max: AtomicU64,
}

/// What of the queue has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// As much as goes into one transaction.
    Some,
    /// All that is there by now.
    All,
    /// All that will ever be there.
    Last,
}

#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    queue: Receiver<Message>,
    health: Arc<Health>,
    bounds: Arc<SharedBounds>,
    store: Option<Store>,
    kept: Batch,
    flushes: Vec<oneshot::Sender<()>>,
    next_write: Time,
    next_tidy: Time,
    #[cfg(test)]
    disk_is_full: bool,
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        queue: Receiver<Message>,
        health: Arc<Health>,
        bounds: Arc<SharedBounds>,
    ) -> Self {
        Self {
            path,
            queue,
            health,
            bounds,
            store: None,
            kept: Batch::default(),
            flushes: Vec::new(),
            next_write: Time::default(),
            next_tidy: Time::default(),
            #[cfg(test)]
            disk_is_full: false,
        }
    }

    /// Runs until it is told to stop or nobody can hand anything over any more.
    ///
    /// It looks at the queue when it is time to write, or when its thread is unparked by who cannot
    /// wait for that: woken for every request it would cost each of them a switch of threads.
    pub(super) fn run(mut self) {
        self.write(clock::now());
        loop {
            std::thread::park_timeout(self.next_write.since(clock::now()));
            let taken = self.take_all();
            let now = clock::now();
            // While it fails, only time brings the next attempt.
            let pressed = !self.flushes.is_empty() || taken == Taken::Some;
            let at_once = pressed && self.health.failure().is_none();
            if taken == Taken::Last || at_once || now >= self.next_write {
                self.write(now);
            }
            if taken == Taken::Some && self.health.failure().is_none() {
                self.next_write = now;
            }
            for flush in self.flushes.drain(..) {
                // Who asked may have stopped waiting.
                let _ = flush.send(());
            }
            if taken == Taken::Last {
                return;
            }
        }
    }

    /// What has queued up goes into the same transaction.
    fn take_all(&mut self) -> Taken {
        loop {
            match self.queue.try_recv() {
                Ok(message) => {
                    if self.take(message) {
                        return Taken::Last;
                    }
                }
                Err(TryRecvError::Empty) => return Taken::All,
                Err(TryRecvError::Disconnected) => return Taken::Last,
            }
            if self.kept.ended.len() == BATCH_MAX {
                return Taken::Some;
            }
        }
    }

    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Flush(answer) => self.flushes.push(answer),
            Message::Stop => return true,
            Message::Ended { .. } | Message::Mark(_) if self.kept.len() >= KEPT_MAX => {
                self.drop_one();
            }
            Message::Ended {
                number,
                request,
                key_name,
            } => self.kept.ended.push(Ended {
                number,
                request: request.to_api(),
                key_name,
            }),
            Message::Mark(mark) => self.kept.marks.push(mark),
        }
        false
    }

    fn drop_one(&self) {
        if self.health.dropped(clock::now(), 1) {
            tracing::error!(
                kept = KEPT_MAX,
                "the history cannot be written and no more is kept in memory: requests are served, \
                 but not noted"
            );
        }
    }

    fn write(&mut self, now: Time) {
        let attempt = self.attempt(now);
        let attempt = match attempt {
            Err(error) if error.is_damage() => self
                .begin_anew(now, &error)
                .and_then(|()| self.attempt(now)),
            other => other,
        };
        match attempt {
            Ok(more) => {
                let wait = if more { Duration::ZERO } else { INTERVAL };
                self.next_write = now.plus(wait);
                if self.health.works() {
                    tracing::info!("the history is written again");
                }
            }
            Err(error) => self.fail(now, &error),
        }
    }

    fn fail(&mut self, now: Time, error: &StoreError) {
        self.next_write = now.plus(RETRY);
        let mend = error.mend();
        let what = format!("{}: {error}; {mend}", self.path.display());
        if self.health.fails(now, what) {
            tracing::error!(%error, mend, "the history cannot be written; requests are served all the same");
        }
        if !error.is_passing() {
            self.store = None;
        }
    }

    /// Writes what is kept and takes one step of tidying; true where more is to be done at once.
    fn attempt(&mut self, now: Time) -> Result<bool, StoreError> {
        if self.health.take_damage_seen() {
            self.put_aside(now)?;
        }
        if self
            .store
            .as_ref()
            .is_some_and(|store| !store.is_in_place())
        {
            tracing::warn!(file = %self.path.display(), "the history's file is gone; a new one is begun");
            self.close();
        }
        let store = match &mut self.store {
            Some(store) => store,
            None => self.store.insert(Store::open(&self.path)?),
        };
        #[cfg(test)]
        store.fill_disk(self.disk_is_full);
        while self.kept.len() > 0 {
            let rest = self
                .kept
                .ended
                .split_off(self.kept.ended.len().min(BATCH_MAX));
            let written = store.write(&self.kept);
            if let Err(error) = written {
                self.kept.ended.extend(rest);
                return Err(error);
            }
            let last = self.kept.ended.last().map_or(0, |ended| ended.number);
            let (all, requests) = (self.kept.len() as u64, self.kept.ended.len() as u64);
            self.health.committed(all, requests, last);
            self.kept.marks.clear();
            self.kept.ended = rest;
        }
        if now < self.next_tidy {
            return Ok(false);
        }
        let bounds = Bounds {
            days_max: self.bounds.days_max.load(Ordering::Relaxed),
            bytes_max: self.bounds.bytes_max.load(Ordering::Relaxed),
        };
        let more = store.tidy(now.0 / 1_000_000, bounds)?;
        let (bytes, oldest) = store.measure()?;
        self.health.measured(bytes, oldest);
        if !more {
            self.next_tidy = now.plus(TIDY);
        }
        Ok(more)
    }

    fn begin_anew(&mut self, now: Time, error: &StoreError) -> Result<(), StoreError> {
        tracing::error!(%error, file = %self.path.display(), "the history is damaged; it is put aside and a new one is begun");
        self.put_aside(now)
    }

    fn put_aside(&mut self, now: Time) -> Result<(), StoreError> {
        self.close();
        let name = aside_name(&self.path, now);
        let aside = self.path.with_file_name(&name);
        fs::rename(&self.path, &aside)?;
        for end in ["-wal", "-shm"] {
            let mut beside = self.path.clone().into_os_string();
            beside.push(end);
            let mut to = aside.clone().into_os_string();
            to.push(end);
            match fs::rename(beside, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        self.health.new_generation();
        self.health.put_aside(now, name);
        remove_oldest_aside(&self.path);
        Ok(())
    }

    fn close(&mut self) {
        self.store = None;
        self.health.new_generation();
    }
}

#[cfg(test)]
impl Writer {
    /// One turn of the thread.
    pub(super) fn take_and_write(&mut self, now: Time) {
        while let Ok(message) = self.queue.try_recv() {
            self.take(message);
        }
        self.write(now);
    }

    /// As a new process finds things.
    pub(super) fn forget_store(&mut self) {
        self.store = None;
    }

    /// Whether the file may grow any more.
    pub(super) fn fill_disk(&mut self, full: bool) {
        self.disk_is_full = full;
    }
}

/// A name that no file has yet: `history.damaged-1764470000.sqlite`.
fn aside_name(path: &Path, now: Time) -> String {
    let mut at_s = now.0 / 1_000_000;
    loop {
        let name = format!("history.damaged-{at_s}.sqlite");
        if !path.with_file_name(&name).exists() {
            return name;
        }
        at_s += 1;
    }
}

/// So that a disk that damages files is not filled with them. What cannot be removed stays.
fn remove_oldest_aside(path: &Path) {
    let Some(Ok(entries)) = path.parent().map(fs::read_dir) else {
        return;
    };
    let names = entries.flatten().map(|entry| entry.path());
    let mut aside: Vec<PathBuf> = names
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                name.starts_with("history.damaged-") && name.ends_with(".sqlite")
            })
        })
        .collect();
    aside.sort();
    aside.reverse();
    for old in aside.into_iter().skip(ASIDE_MAX) {
        tracing::warn!(file = %old.display(), "an older damaged history is removed");
        for end in ["", "-wal", "-shm"] {
            let mut file = old.clone().into_os_string();
            file.push(end);
            let _ = fs::remove_file(file);
        }
    }
}
