//! What can go wrong with the history. None of it ever concerns a client's request.

use rusqlite::ErrorCode;

/// Why the file cannot be written; the writer tries again.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// The database's word.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file system's.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file was made by a later version of this program.
    #[error("the file is of version {version}, this lm-warden knows {known}", known = super::schema::VERSION)]
    Newer {
        /// Its version.
        version: usize,
    },
}

impl StoreError {
    /// Whether what stands in the file makes no sense any more.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_damage(error))
    }

    /// Whether the connection is as good as before.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }

    /// What an operator can do.
    pub(super) fn mend(&self) -> &'static str {
        let code = match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            Self::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                Some(ErrorCode::DiskFull)
            }
            Self::Newer { .. } => {
                return "run that version again, or move history.sqlite away to begin anew";
            }
            Self::Io(_) => None,
        };
        match code {
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
                "make room on the disk of the data directory, or lower history.bytes_max"
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another program holds history.sqlite locked: end it"
            }
            _ => "let lm-warden write history.sqlite in the data directory",
        }
    }
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    ) || matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..)
    )
}

/// Why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// Ours or the disk's: there is nothing to read from at present.
    #[error("the history cannot be read: {0}; requests are served all the same")]
    Unavailable(String),
    /// Theirs: the answer would take too long.
    #[error(
        "the answer took longer than {} s, the most that is spent on one; ask for less: a shorter \
         time, one model, or fewer filters",
        super::reader::READ_MAX.as_secs()
    )]
    TooSlow,
}
