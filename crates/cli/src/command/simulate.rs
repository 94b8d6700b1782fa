//! `lm-warden simulate`.

use std::path::PathBuf;

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
        let _ = files;
        Err(anyhow::anyhow!("check-trace is not part of this build").into())
    }
}
