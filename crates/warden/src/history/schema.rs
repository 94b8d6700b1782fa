//! The file's tables, and how an older file becomes a current one.
//!
//! Migrations are only ever added: number `n` (from 1) turns version `n - 1` into `n`, each in a
//! transaction of its own, noted in `schema_versions`. A file of a later version is left alone,
//! since what it means is not known here.

use rusqlite::{Connection, OptionalExtension as _};

use super::error::StoreError;

const MIGRATIONS: [&str; 3] = [
    // 1: a row per ended request, roll-ups for charts, and marks on the time axis.
    "
CREATE TABLE requests (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    arrived_us INTEGER NOT NULL,
    ended_us INTEGER NOT NULL,
    model TEXT,
    conversation TEXT,
    session TEXT,
    agent TEXT,
    key_name TEXT,
    api TEXT NOT NULL,
    route TEXT,
    reason TEXT,
    scores TEXT NOT NULL,
    replica INTEGER,
    turn INTEGER,
    queue_ms REAL,
    ttfb_ms REAL,
    total_ms REAL,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    completion_tokens INTEGER,
    status INTEGER,
    ending TEXT
) STRICT;
CREATE INDEX requests_arrived ON requests (arrived_us, id);
CREATE INDEX requests_ended ON requests (ended_us);
CREATE INDEX requests_model ON requests (model, arrived_us, id);
CREATE INDEX requests_session ON requests (session, arrived_us, id);
CREATE INDEX requests_conversation ON requests (conversation, arrived_us, id);

CREATE TABLE rollups (
    step_s INTEGER NOT NULL,
    t_s INTEGER NOT NULL,
    model TEXT NOT NULL,
    route TEXT NOT NULL,
    requests INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    computed_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    unmeasured INTEGER NOT NULL,
    ttfb BLOB NOT NULL,
    PRIMARY KEY (step_s, t_s, model, route)
) STRICT, WITHOUT ROWID;

CREATE TABLE marks (
    seq INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    model TEXT,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX marks_at ON marks (at_us);
",
    // 2: why a turn was cold, as the API says it, and what that is judged by.
    "
ALTER TABLE requests ADD COLUMN cold TEXT;
ALTER TABLE requests ADD COLUMN gap_ms REAL;
ALTER TABLE requests ADD COLUMN side INTEGER;
",
    // 3: what is looked for because it is rare. The usual route and the usual end are left out: they
    // are found in the order of arrival, and would cost every row two more entries.
    "
CREATE INDEX requests_unusual_route ON requests (route, arrived_us, id) WHERE route <> 'sticky';
CREATE INDEX requests_unusual_end ON requests (ending, arrived_us, id) WHERE ending <> 'complete';
",
];

/// The version that this program reads and writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// Brings the file to [`VERSION`].
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let version = version(connection)?;
    if version > VERSION {
        return Err(StoreError::Newer { version });
    }
    migrate_from(connection, version, VERSION)
}

fn migrate_from(connection: &mut Connection, from: usize, to: usize) -> Result<(), StoreError> {
    for (number, migration) in (1..=to).zip(MIGRATIONS).skip(from) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.execute_batch(
            "CREATE TABLE IF NOT EXISTS schema_versions (
                version INTEGER PRIMARY KEY, applied_s INTEGER NOT NULL
            ) STRICT",
        )?;
        transaction.execute(
            "INSERT INTO schema_versions VALUES (?1, unixepoch())",
            [number.cast_signed()],
        )?;
        transaction.commit()?;
    }
    Ok(())
}

/// 0 for an empty file.
pub(super) fn version(connection: &Connection) -> Result<usize, StoreError> {
    let known = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = 'schema_versions'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    if known.is_none() {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) FROM schema_versions";
    let version: i64 = connection.query_row(version, [], |row| row.get(0))?;
    Ok(version as usize)
}

/// An older version's file, for tests of what becomes of it.
#[cfg(test)]
pub(super) fn create(connection: &mut Connection, version: usize) {
    migrate_from(connection, 0, version).unwrap();
}

#[cfg(test)]
pub(super) fn note_version(connection: &Connection, version: usize) {
    connection
        .execute(
            "INSERT INTO schema_versions VALUES (?1, 0)",
            [version.cast_signed()],
        )
        .unwrap();
}
