//! How the history fares: what the pages and `/metrics` say about it. The writer tells, everybody
//! reads.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use routing::Time;

use crate::clock::epoch_s;

/// Shared by the writer, the readers and those who push.
#[derive(Debug, Default)]
pub(super) struct Health {
    trouble: Mutex<Trouble>,
    /// What was lost because neither the file nor the queue took it.
    dropped: AtomicU64,
    /// Requests in the file that this process put there.
    written: AtomicU64,
    /// Handed over, and neither written nor dropped yet.
    waiting: AtomicU64,
    /// The greatest number of a request that is in the file.
    committed: AtomicU64,
    bytes: AtomicU64,
    set_aside: AtomicU64,
    /// Another file stands in the old one's place: connections to that are of no use.
    generation: AtomicU64,
    /// A reader found damage.
    damage_seen: AtomicBool,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Since when, and what, as long as nothing can be written.
    failing: Option<(Time, String)>,
    /// Name of the last damaged file, and when it was put away.
    set_aside: Option<(Time, String)>,
    /// When the first loss was.
    dropped_since: Option<Time>,
    oldest: Option<f64>,
}

impl Health {
    pub(super) fn view(&self) -> api::HistoryState {
        let trouble = self.trouble();
        let failing = trouble.failing.as_ref();
        let set_aside = trouble.set_aside.as_ref();
        api::HistoryState {
            writable: failing.is_none(),
            failing_since: failing.map(|(since, _)| epoch_s(*since)),
            failure: failing.map(|(_, what)| what.clone()),
            dropped: self.dropped.load(Ordering::Relaxed),
            dropped_since: trouble.dropped_since.map(epoch_s),
            waiting: self.waiting.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            oldest: trouble.oldest,
            set_aside: set_aside.map(|(_, name)| name.clone()),
            set_aside_at: set_aside.map(|(at, _)| epoch_s(*at)),
            set_aside_files: self.set_aside.load(Ordering::Relaxed),
        }
    }

    pub(super) fn handed_over(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// `count` things that were handed over are lost; true for the first ones since all was well.
    pub(super) fn dropped(&self, now: Time, count: u64) -> bool {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        self.dropped.fetch_add(count, Ordering::Relaxed);
        let mut trouble = self.trouble();
        let first = trouble.dropped_since.is_none();
        trouble.dropped_since.get_or_insert(now);
        first
    }

    /// `things` that were handed over are in the file, among them `requests`, up to number
    /// `committed`.
    pub(super) fn committed(&self, things: u64, requests: u64, committed: u64) {
        self.written.fetch_add(requests, Ordering::Relaxed);
        self.committed.fetch_max(committed, Ordering::Release);
        self.waiting.fetch_sub(things, Ordering::Relaxed);
    }

    pub(super) fn committed_up_to(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Writing fails; true where it worked before.
    pub(super) fn fails(&self, now: Time, what: String) -> bool {
        let mut trouble = self.trouble();
        let since = trouble.failing.as_ref().map(|(since, _)| *since);
        trouble.failing = Some((since.unwrap_or(now), what));
        since.is_none()
    }

    /// Writing works; true where it failed before.
    pub(super) fn works(&self) -> bool {
        self.trouble().failing.take().is_some()
    }

    pub(super) fn failure(&self) -> Option<String> {
        let trouble = self.trouble();
        trouble.failing.as_ref().map(|(_, what)| what.clone())
    }

    pub(super) fn measured(&self, bytes: u64, oldest: Option<f64>) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.trouble().oldest = oldest;
    }

    pub(super) fn put_aside(&self, now: Time, name: String) {
        self.trouble().set_aside = Some((now, name));
        self.set_aside.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn new_generation(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A connection of this generation found damage.
    pub(super) fn saw_damage(&self, generation: u64) {
        if generation == self.generation() {
            self.damage_seen.store(true, Ordering::Release);
        }
    }

    pub(super) fn take_damage_seen(&self) -> bool {
        self.damage_seen.swap(false, Ordering::AcqRel)
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
