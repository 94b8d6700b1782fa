//! The file as the writer sees it: opened, written in batches, kept within its bounds in small
//! steps.
//!
//! WAL with `synchronous = NORMAL`: a commit survives the end of this process, whatever ends it,
//! and costs no wait for the disk; only a power cut may take the last seconds.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};

use super::{
    error::StoreError,
    figures::Figures,
    request_row, schema,
    words::{self, MARKS, ROUTES},
};

/// Steps of the roll-ups, in seconds, each with how long it is kept at most (`None`: as long as
/// requests are). What the API gives for a step is read from the coarsest that divides it.
pub(super) const STEPS_S: [(u64, Option<u64>); 3] =
    [(10, Some(2 * 3600)), (60, Some(8 * 86_400)), (3600, None)];

/// How long a lock of somebody else's is waited for: short, since meanwhile the queue fills.
const BUSY: Duration = Duration::from_millis(250);
/// Pages of the log after which they are copied into the file: the more, the more often a page of an
/// index is copied once for many rows. 16 MiB.
const CHECKPOINT_PAGES: u32 = 4096;
/// Pages of the file kept in memory: those of the indexes that one batch touches, or they are read
/// again and written twice.
const CACHE_KIB: i32 = 8 << 10;
/// Rows that one step of retention removes at most: some 10 ms.
const REMOVED_MAX: u32 = 500;
/// Pages that one step gives back to the file system at most.
const FREED_MAX: u32 = 256;
/// Marks are few; a loop of restarts must not make them many.
const MARKS_MAX: u32 = 10_000;

/// An ended request on its way into the file.
#[derive(Debug)]
pub(super) struct Ended {
    /// Counts up within this process.
    pub(super) number: u64,
    pub(super) request: api::Request,
    pub(super) key_name: Option<std::sync::Arc<str>>,
}

/// What is written in one transaction.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) ended: Vec<Ended>,
    pub(super) marks: Vec<api::Mark>,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.ended.len() + self.marks.len()
    }
}

/// What may stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) days_max: u64,
    pub(super) bytes_max: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    connection: Connection,
    path: PathBuf,
    /// Tells this file from another that was put into its place.
    inode: u64,
}

impl Store {
    /// Opens the file, makes it where there is none, and brings it to the current version.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut private = OpenOptions::new();
        private.create(true).truncate(false).write(true).mode(0o600);
        let inode = private.open(path)?.metadata()?.ino();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        // Works for a new file only, before its first table.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.set_prepared_statement_cache_capacity(32);
        schema::migrate(&mut connection)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            inode,
        })
    }

    /// Whether the file still stands where it was opened.
    pub(super) fn is_in_place(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.ino() == self.inode)
    }

    /// Writes all of it, or nothing.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rollups = BTreeMap::new();
        let mut inserter = request_row::inserter(&transaction)?;
        for ended in &batch.ended {
            request_row::insert(&mut inserter, ended)?;
            roll_up(&mut rollups, &ended.request);
        }
        drop(inserter);
        for (key, figures) in rollups {
            add(&transaction, key, figures)?;
        }
        for mark in &batch.marks {
            let kind = words::word(&MARKS, &mark.kind);
            transaction
                .prepare_cached(
                    "INSERT INTO marks (at_us, kind, model, text) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![int(micros(mark.t)), kind, mark.model, mark.text])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// One small step towards the bounds; true where another one is needed.
    pub(super) fn tidy(&mut self, now_s: u64, bounds: Bounds) -> Result<bool, StoreError> {
        let oldest_s = now_s.saturating_sub(bounds.days_max * 86_400);
        let mut more = self.remove_requests_before(oldest_s)?;
        for (step_s, kept_s) in STEPS_S {
            let kept_s = kept_s.unwrap_or(u64::MAX).min(bounds.days_max * 86_400);
            more |= self.remove_rollups(step_s, now_s.saturating_sub(kept_s))?;
        }
        self.remove_marks(oldest_s)?;
        if self.used_bytes()? > bounds.bytes_max {
            more |= self.remove_oldest()?;
        }
        more |= self.give_back()?;
        Ok(more)
    }

    fn remove_requests_before(&self, oldest_s: u64) -> Result<bool, StoreError> {
        let removed = self
            .connection
            .prepare_cached(
                "DELETE FROM requests WHERE seq IN
                    (SELECT seq FROM requests WHERE ended_us < ?1 ORDER BY ended_us LIMIT ?2)",
            )?
            .execute(params![
                int(oldest_s.saturating_mul(1_000_000)),
                REMOVED_MAX
            ])?;
        Ok(removed == REMOVED_MAX as usize)
    }

    fn remove_rollups(&self, step_s: u64, oldest_s: u64) -> Result<bool, StoreError> {
        let removed = self
            .connection
            .prepare_cached(
                "DELETE FROM rollups WHERE (step_s, t_s, model, route) IN
                    (SELECT step_s, t_s, model, route FROM rollups
                     WHERE step_s = ?1 AND t_s < ?2 LIMIT ?3)",
            )?
            .execute(params![int(step_s), int(oldest_s), REMOVED_MAX])?;
        Ok(removed == REMOVED_MAX as usize)
    }

    fn remove_marks(&self, oldest_s: u64) -> Result<(), StoreError> {
        let remove = "DELETE FROM marks WHERE at_us < ?1
            OR seq <= (SELECT max(seq) FROM marks) - ?2";
        self.connection
            .prepare_cached(remove)?
            .execute(params![int(oldest_s.saturating_mul(1_000_000)), MARKS_MAX])?;
        Ok(())
    }

    /// The oldest requests; where none are left, the oldest roll-ups.
    fn remove_oldest(&self) -> Result<bool, StoreError> {
        let removed = self
            .connection
            .prepare_cached(
                "DELETE FROM requests WHERE seq IN
                    (SELECT seq FROM requests ORDER BY ended_us LIMIT ?1)",
            )?
            .execute([REMOVED_MAX])?;
        if removed > 0 {
            return Ok(true);
        }
        let mut more = false;
        for (step_s, _) in STEPS_S {
            more |= self.remove_rollups(step_s, u64::MAX >> 1)?;
        }
        Ok(more)
    }

    /// Gives free pages back to the file system.
    fn give_back(&self) -> Result<bool, StoreError> {
        let free = self.pragma("freelist_count")?;
        if free > 0 {
            // Each row that is taken gives one page back.
            let vacuum = format!("PRAGMA incremental_vacuum({FREED_MAX})");
            let mut statement = self.connection.prepare_cached(&vacuum)?;
            let mut pages = statement.query([])?;
            while pages.next()?.is_some() {}
        }
        Ok(free > u64::from(FREED_MAX))
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        let pages = self.pragma("page_count")? - self.pragma("freelist_count")?;
        Ok(pages * self.pragma("page_size")?)
    }

    fn pragma(&self, name: &str) -> Result<u64, StoreError> {
        let pragma = format!("PRAGMA {name}");
        let value: i64 = self.connection.query_row(&pragma, [], |row| row.get(0))?;
        Ok(value as u64)
    }

    /// Bytes on disk, and when the oldest request ended, in epoch seconds.
    pub(super) fn measure(&self) -> Result<(u64, Option<f64>), StoreError> {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let wal = self.path.with_extension("sqlite-wal");
        let oldest: Option<i64> = self
            .connection
            .prepare_cached("SELECT ended_us FROM requests ORDER BY ended_us LIMIT 1")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let oldest = oldest.map(|us| us as f64 / 1e6);
        Ok((size(&self.path) + size(&wal), oldest))
    }
}

#[cfg(test)]
impl Store {
    /// Lets the file grow no more, or again.
    pub(super) fn fill_disk(&self, full: bool) {
        let pages = if full { 1 } else { 1 << 30 };
        let pragma = format!("PRAGMA max_page_count = {pages}");
        self.connection.query_row(&pragma, [], |_| Ok(())).unwrap();
    }
}

/// Step, begin of the bucket, model and route.
type Bucket<'a> = (u64, u64, &'a str, &'static str);

fn roll_up<'a>(rollups: &mut BTreeMap<Bucket<'a>, Figures>, request: &'a api::Request) {
    // What named no model served here belongs to no model's chart, but to the sum of all.
    let model = request.model.as_deref().unwrap_or("");
    let route = request.route.and_then(|route| words::word(&ROUTES, &route));
    let ended_s = ended_us(request) / 1_000_000;
    for (step_s, _) in STEPS_S {
        let begin_s = ended_s - ended_s % step_s;
        let key = (step_s, begin_s, model, route.unwrap_or(""));
        rollups.entry(key).or_default().count(request);
    }
}

fn add(
    transaction: &Transaction<'_>,
    bucket: Bucket<'_>,
    mut figures: Figures,
) -> Result<(), StoreError> {
    let (step_s, t_s, model, route) = bucket;
    let before = transaction
        .prepare_cached(
            "SELECT requests, cached_tokens, computed_tokens, completion_tokens, unmeasured, ttfb
             FROM rollups WHERE step_s = ?1 AND t_s = ?2 AND model = ?3 AND route = ?4",
        )?
        .query_row(params![int(step_s), int(t_s), model, route], |row| {
            merge_row(&mut figures, row, 0)
        })
        .optional();
    before?;
    let Figures {
        requests,
        cached_tokens,
        computed_tokens,
        completion_tokens,
        unmeasured,
        ttfb,
    } = figures;
    let insert = "INSERT OR REPLACE INTO rollups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    transaction.prepare_cached(insert)?.execute(params![
        int(step_s),
        int(t_s),
        model,
        route,
        int(requests),
        int(cached_tokens),
        int(computed_tokens),
        int(completion_tokens),
        int(unmeasured),
        ttfb.to_bytes(),
    ])?;
    Ok(())
}

/// Adds a roll-up's figures, which stand in the row from column `first` on in the table's order.
pub(super) fn merge_row(
    figures: &mut Figures,
    row: &rusqlite::Row<'_>,
    first: usize,
) -> rusqlite::Result<()> {
    add_to(&mut figures.requests, row.get(first)?);
    add_to(&mut figures.cached_tokens, row.get(first + 1)?);
    add_to(&mut figures.computed_tokens, row.get(first + 2)?);
    add_to(&mut figures.completion_tokens, row.get(first + 3)?);
    add_to(&mut figures.unmeasured, row.get(first + 4)?);
    let ttfb = row.get_ref(first + 5)?.as_blob()?;
    figures.ttfb.merge_bytes(ttfb).ok_or_else(|| {
        let what = "not a stored histogram".into();
        rusqlite::Error::FromSqlConversionFailure(first + 5, rusqlite::types::Type::Blob, what)
    })
}

fn add_to(sum: &mut u64, stored: i64) {
    *sum = sum.saturating_add(stored as u64);
}

/// Stored integers have a sign; a figure beyond them, which only a broken engine tells, is cut.
pub(super) fn int(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

/// When a request ended, in microseconds since the epoch.
pub(super) fn ended_us(request: &api::Request) -> u64 {
    micros(request.t + request.total_ms.unwrap_or(0.0) / 1e3)
}

/// Epoch seconds, as the API gives them, in microseconds.
pub(super) fn micros(t: f64) -> u64 {
    (t * 1e6).round() as u64
}
