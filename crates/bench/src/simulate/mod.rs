//! `lm-warden simulate`: runs the simulator on what the user names, and tells what came out.
//!
//! The model itself is in `sim`, which does no I/O. Here files are read, tables are printed, and
//! errors are sorted into the user's and ours.

mod check_trace;

pub use check_trace::check_trace;

/// Wrong input: running it again will not help.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A file that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file that is no recording.
    #[error("{}: {cause}", path.display())]
    Recording {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong in it.
        cause: sim::check_trace::RecordingError,
    },
    /// The results cannot be written to where they were asked for.
    #[error("cannot write the results: {0}")]
    Write(#[from] std::io::Error),
}
