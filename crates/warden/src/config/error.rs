//! What can be wrong with a configuration: always the operator's to mend.

use std::{io, path::PathBuf};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}; {mend}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
        /// What to do.
        mend: &'static str,
    },
    /// Not TOML, an unknown key, or a value of another type.
    #[error("the configuration cannot be read: {message}")]
    Syntax {
        /// Line, column and what was expected there.
        message: String,
    },
    /// A value out of its range, or keys that do not go together.
    #[error("{key} = {value}: {mend}")]
    Value {
        /// The key, with its tables.
        key: String,
        /// What the file says, as TOML.
        value: String,
        /// What it must be, and why.
        mend: String,
    },
    /// A key that is needed is absent.
    #[error("{key} is missing: {mend}")]
    Missing {
        /// The key, with its tables.
        key: String,
        /// What to write.
        mend: String,
    },
}

impl ConfigError {
    /// A value out of range.
    pub(super) fn value(
        key: impl Into<String>,
        value: impl Into<toml::Value>,
        mend: impl Into<String>,
    ) -> Self {
        Self::Value {
            key: key.into(),
            value: value.into().to_string(),
            mend: mend.into(),
        }
    }

    /// An absent key.
    pub(super) fn missing(key: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Missing {
            key: key.into(),
            mend: mend.into(),
        }
    }
}
