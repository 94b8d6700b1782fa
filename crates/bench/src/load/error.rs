//! What can end a bench, sorted by whose fault it is.

use std::path::PathBuf;

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A value on the command line that cannot be. The user's fault.
    #[error(transparent)]
    Option(#[from] crate::option::OptionError),
    /// A file that cannot be read. The user's fault.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file of session shapes that cannot be replayed. The user's fault.
    #[error("{}: {cause}", path.display())]
    Shapes {
        /// The file.
        path: PathBuf,
        /// What is wrong in it, by line and column.
        cause: sim::workload::RecordedError,
    },
    /// A file that holds no results. The user's fault.
    #[error("{} holds no results of a bench or a simulation: {cause}", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        cause: String,
    },
    /// The model is not served. The user's fault.
    #[error("no model \"{asked}\" is served; there are: {known}")]
    UnknownModel {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// Nobody answers.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why.
        reason: String,
    },
    /// Somebody answers, but not as a warden would.
    #[error(
        "{url} is no warden ({reason}); `bench run` measures other servers, `bench ab` needs \
         `lm-warden serve`"
    )]
    NoWarden {
        /// What was asked.
        url: String,
        /// What is odd.
        reason: String,
    },
    /// The warden refuses a change of its routing.
    #[error("the warden refuses {change}: {status} {reason}")]
    Refused {
        /// What was asked of it.
        change: String,
        /// Its status.
        status: u16,
        /// Its words.
        reason: String,
    },
    /// The model does not serve.
    #[error("model \"{model}\" does not serve ({reason})")]
    NotReady {
        /// The model.
        model: String,
        /// Its state.
        reason: String,
    },
    /// Turn after turn fails.
    #[error("the engine fails: {failures} turns in a row did not end well; the last one: {last}")]
    EngineFails {
        /// How many.
        failures: u32,
        /// What happened to the last one.
        last: String,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The settings could not be put back.
    #[error("{cause}; and the model's routing could NOT be put back to {settings}: {reason}")]
    NotRestored {
        /// What had gone wrong before.
        cause: String,
        /// What it was.
        settings: String,
        /// Why not.
        reason: String,
    },
    /// The simulation beside the measurement.
    #[error(transparent)]
    Simulate(#[from] crate::simulate::SimulateError),
    /// The results cannot be written to where they were asked for.
    #[error("cannot write the results: {0}")]
    Write(#[from] std::io::Error),
}
