//! `lm-warden engine`.

use crate::exit::{Exit, Failure};

/// Runs the simulated vLLM server alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Engine {}

impl Engine {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Self {} = self;
        Err(anyhow::anyhow!("the simulated engine is not part of this build").into())
    }
}
