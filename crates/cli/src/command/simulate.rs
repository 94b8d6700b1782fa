//! `lm-warden simulate`.

use std::path::PathBuf;

use bench::simulate::check_trace;

use crate::exit::{Exit, Failure};

/// The simulator of vLLM's scheduler.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Simulate {
    /// Replays recorded runs of vLLM's scheduler and counts the steps that differ.
    ///
    /// Exits 0 where every step equals the recording, else 1.
    CheckTrace {
        /// Recordings (JSON).
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

impl Simulate {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Self::CheckTrace { files } = self;
        match check_trace(&files, &mut std::io::stdout().lock()) {
            Ok(true) => Ok(Exit::Done),
            Ok(false) => Ok(Exit::Failed),
            Err(error) => Err(Failure::new(Exit::Usage, error)),
        }
    }
}
