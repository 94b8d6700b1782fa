//! What can be wrong with what the user asked the simulator for.

use std::path::PathBuf;

/// Wrong input: running it again will not help.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A file that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file that is no recording.
    #[error("{}: {cause}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        cause: sim::check_trace::RecordingError,
    },
    /// A file of session shapes that cannot be replayed.
    #[error("{}: {cause}", path.display())]
    Shapes {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        cause: sim::workload::RecordedError,
    },
    /// No such profile, or one that no machine can have.
    #[error(transparent)]
    Profile(#[from] sim::profile::ProfileError),
    /// A run that the machine cannot do.
    #[error(transparent)]
    Stage(#[from] sim::run::StageError),
    /// A value on the command line that cannot be. The user's fault.
    #[error(transparent)]
    Option(#[from] crate::option::OptionError),
    /// The results cannot be written to where they were asked for.
    #[error("cannot write the results: {0}")]
    Write(std::io::Error),
}

impl From<std::io::Error> for SimulateError {
    fn from(cause: std::io::Error) -> Self {
        Self::Write(cause)
    }
}
