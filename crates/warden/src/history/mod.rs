//! What became of requests, on disk: a row per request, roll-ups for charts, and marks where
//! something was started or set. It is a consumer of telemetry's one stream of events, and what the
//! pages show of the past comes from here.
//!
//! - Who hands something over never waits: a bounded queue, whose overflow is counted and shown.
//! - One thread writes (`writer`), more than once a second; a few connections read (`reader`), each
//!   question bounded in time.
//! - No state of the file stops a request. What is wrong with it is shown (`health`), and mended
//!   where that is possible: damage by putting the file aside.
//!
//! It decides nothing and counts nothing that telemetry counts: totals since the start of the
//! process are telemetry's, figures over time are here alone.

mod distribution;
mod error;
mod figures;
mod health;
mod last_turns;
mod order;
mod reader;
mod request_row;
mod requests;
mod schema;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod words;
mod writer;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::{JoinHandle, Thread},
    time::Duration,
};

use routing::{ServedTurn, Time};
use tokio::sync::oneshot;

pub use self::{
    distribution::Distribution,
    error::HistoryError,
    order::{Column, Cursor, Sort},
    requests::{RequestsQuery, WINDOW},
    stats::{POINTS_MAX, StatsQuery},
};
use self::{
    health::Health,
    reader::Readers,
    requests::Found,
    writer::{Message, SharedBounds, Writer},
};
use crate::{clock, config};

/// Handed over and not yet taken by the writer: far more than ends between two writes.
const QUEUE_MAX: usize = 16_384;
/// How long a question waits for what ended just now to be written.
const FLUSH_MAX: Duration = Duration::from_millis(250);
/// How long the end of the service waits for the last write.
const STOP_MAX: Duration = Duration::from_secs(5);

/// An ended request as its maker keeps it. The writer's thread puts it into the API's words, so that
/// no request waits for that.
pub trait Noted: std::fmt::Debug + Send + Sync {
    /// As the API shows it.
    fn to_api(&self) -> api::Request;
}

/// One that is in the API's words already.
impl Noted for api::Request {
    fn to_api(&self) -> api::Request {
        self.clone()
    }
}

/// The running history.
#[derive(Debug)]
pub struct History {
    queue: SyncSender<Message>,
    health: Arc<Health>,
    bounds: Arc<SharedBounds>,
    readers: Arc<Readers>,
    next: AtomicU64,
    /// Unparked by who cannot wait for the next write.
    writer: Thread,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl History {
    /// Begins to write to this file, whatever state it is in. Fails only where the system gives no
    /// thread.
    pub fn start(path: PathBuf, settings: config::History) -> io::Result<Self> {
        let health = Arc::new(Health::default());
        let bounds = Arc::new(SharedBounds {
            days_max: AtomicU64::new(settings.days_max),
            bytes_max: AtomicU64::new(settings.bytes_max),
        });
        let (queue, messages) = mpsc::sync_channel(QUEUE_MAX);
        let writer = Writer::new(
            path.clone(),
            messages,
            Arc::clone(&health),
            Arc::clone(&bounds),
        );
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self {
            queue,
            readers: Arc::new(Readers::new(path, Arc::clone(&health))),
            health,
            bounds,
            next: AtomicU64::new(1),
            writer: thread.thread().clone(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Other bounds, from the next step of tidying on.
    pub fn configure(&self, settings: config::History) {
        let config::History {
            days_max,
            bytes_max,
        } = settings;
        self.bounds.days_max.store(days_max, Ordering::Relaxed);
        self.bounds.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Hands over an ended request, without waiting. Its number, which [`Self::committed_up_to`]
    /// reaches once it is in the file.
    pub fn push(&self, request: Arc<dyn Noted>, key_name: Option<Arc<str>>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.hand_over(Message::Ended {
            number,
            request,
            key_name,
        });
        number
    }

    /// Hands over a mark, without waiting.
    pub fn mark(&self, mark: api::Mark) {
        self.hand_over(Message::Mark(mark));
    }

    fn hand_over(&self, message: Message) {
        self.health.handed_over();
        if self.queue.try_send(message).is_err() && self.health.dropped(clock::now(), 1) {
            tracing::error!(
                queue = QUEUE_MAX,
                "the history does not keep up: requests are served, but not noted"
            );
        }
    }

    /// Requests up to this number are in the file, or lost.
    pub fn committed_up_to(&self) -> u64 {
        self.health.committed_up_to()
    }

    /// How it fares.
    pub fn state(&self) -> api::HistoryState {
        self.health.view()
    }

    /// Waits a little until all that was handed over is written, if it can be.
    pub async fn flush(&self) {
        let (answer, answered) = oneshot::channel();
        let sent = self.queue.try_send(Message::Flush(answer));
        if !matches!(
            sent,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        ) {
            self.writer.unpark();
            let _ = tokio::time::timeout(FLUSH_MAX, answered).await;
        }
    }

    /// Figures over time, of everything that has ended.
    pub async fn stats(&self, query: StatsQuery) -> Result<api::Stats, HistoryError> {
        self.flush().await;
        self.readers
            .ask(move |connection| query.ask(connection))
            .await
    }

    /// A page of requests. `unwritten` gives those that are not in the file when it is called: in
    /// flight, or waiting to be written.
    pub async fn requests(
        &self,
        query: RequestsQuery,
        unwritten: impl FnOnce() -> Vec<api::Request>,
    ) -> Result<api::Requests, HistoryError> {
        if query.in_flight {
            let chosen = query.select(unwritten());
            return Ok(query.page(chosen, 0, Found::default()));
        }
        self.flush().await;
        let chosen = query.select(unwritten());
        // Each of them stands before some of the rows, so the page's rows begin no earlier.
        let skip = query.offset.saturating_sub(chosen.len() as u64);
        let take = query.offset + query.limit + 1 - skip;
        let (query, found) = self
            .readers
            .ask(move |connection| {
                let found = query.ask(connection, skip, take)?;
                Ok((query, found))
            })
            .await?;
        Ok(query.page(chosen, skip, found))
    }

    /// How each conversation, by model and shown id, was served last since then.
    pub async fn last_turns(
        &self,
        since: Time,
    ) -> Result<HashMap<(String, String), ServedTurn>, HistoryError> {
        // The file may just be being opened.
        self.flush().await;
        self.readers
            .ask(move |connection| last_turns::ask(connection, since))
            .await
    }

    /// How the database answers [`Self::stats`], a line per step: for measurements of it.
    pub async fn stats_plan(&self, query: StatsQuery) -> Result<String, HistoryError> {
        self.readers
            .ask(move |connection| query.plan(connection))
            .await
    }

    /// How the database answers [`Self::requests`], a line per step: for measurements of it.
    pub async fn requests_plan(&self, query: RequestsQuery) -> Result<String, HistoryError> {
        self.readers
            .ask(move |connection| query.plan(connection))
            .await
    }

    /// Writes what is left and ends the thread; gives up where the disk hangs.
    pub fn stop(&self) {
        let thread = self.thread.lock();
        let Some(thread) = thread.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let (ended, end) = mpsc::channel();
        let queue = self.queue.clone();
        std::thread::spawn(move || {
            let _ = queue.send(Message::Stop);
            thread.thread().unpark();
            let _ = ended.send(thread.join().is_ok());
        });
        match end.recv_timeout(STOP_MAX) {
            Ok(true) => {}
            Ok(false) => tracing::error!("the writer of the history panicked"),
            Err(_) => tracing::warn!("the history's last requests could not be written in time"),
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.stop();
    }
}
