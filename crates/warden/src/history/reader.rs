//! Reads, apart from the writer: a few connections of their own, each question bounded in time, so
//! that nobody's filter can hold up the pages, let alone the history.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use routing::Time;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::Semaphore;

use super::{
    error::{HistoryError, is_damage},
    health::Health,
    schema,
};
use crate::clock;

/// The most that is spent on one answer, waiting for a connection included.
pub(super) const READ_MAX: Duration = Duration::from_secs(2);
/// Questions answered at a time.
const CONNECTIONS: usize = 4;
/// Steps of the database's machine between two looks at the clock: well under a millisecond.
const STEPS: i32 = 1_000;

/// From one look at a file that is not made yet to the next.
const NOT_YET: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    health: Arc<Health>,
    permits: Semaphore,
    /// Each with the generation of the file it was opened on.
    idle: Mutex<Vec<(u64, Connection)>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, health: Arc<Health>) -> Self {
        Self {
            path,
            health,
            permits: Semaphore::new(CONNECTIONS),
            idle: Mutex::default(),
        }
    }

    /// Asks on a thread that may wait for the disk.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, HistoryError> {
        let began = clock::now();
        let readers = Arc::clone(self);
        let permit = tokio::time::timeout(READ_MAX, readers.permits.acquire()).await;
        let _permit = permit
            .map_err(|_| HistoryError::TooSlow)?
            .expect("the semaphore is never closed");
        let readers = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            readers.answer(READ_MAX.saturating_sub(clock::now().since(began)), question)
        });
        asked
            .await
            .unwrap_or_else(|panic| Err(HistoryError::Unavailable(panic.to_string())))
    }

    fn answer<T>(
        &self,
        within: Duration,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, HistoryError> {
        let generation = self.health.generation();
        let end = clock::now().plus(within);
        let answer = self.connection(generation, end).and_then(|mut connection| {
            connection.progress_handler(STEPS, Some(move || clock::now() > end))?;
            // One view of the file for all statements of the question.
            let transaction = connection.unchecked_transaction()?;
            let answer = question(&transaction)?;
            drop(transaction);
            Ok((answer, connection))
        });
        match answer {
            Ok((answer, connection)) => {
                self.idle().push((generation, connection));
                Ok(answer)
            }
            Err(error) => Err(self.explain(&error, generation)),
        }
    }

    fn connection(&self, generation: u64, end: Time) -> rusqlite::Result<Connection> {
        while let Some((opened_on, connection)) = self.idle().pop() {
            if opened_on == generation {
                return Ok(connection);
            }
        }
        loop {
            let opened = self.open();
            let is_in_the_making = match &opened {
                Ok(file) => schema::version(file).is_ok_and(|version| version < schema::VERSION),
                Err(error) => error.sqlite_error_code() == Some(ErrorCode::CannotOpen),
            };
            // A writer that cannot make it has told so.
            if !is_in_the_making || self.health.failure().is_some() || clock::now() >= end {
                return opened;
            }
            std::thread::sleep(NOT_YET);
        }
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(READ_MAX / 4)?;
        Ok(connection)
    }

    fn explain(&self, error: &rusqlite::Error, generation: u64) -> HistoryError {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return HistoryError::TooSlow;
        }
        if is_damage(error) {
            self.health.saw_damage(generation);
            let what = format!("{error}: the damaged file is put aside, ask again in a second");
            return HistoryError::Unavailable(what);
        }
        let failure = self.health.failure();
        HistoryError::Unavailable(failure.unwrap_or_else(|| error.to_string()))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Connection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
