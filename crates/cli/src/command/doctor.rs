//! `lm-warden doctor`.

use std::path::PathBuf;

use warden::{
    config::Overrides,
    doctor::{self, Level},
};

use crate::exit::{Exit, Failure};

/// Looks at cards, driver, vLLM, ports, disk, limits and clock: what is wrong, and what to do.
///
/// Nothing is started or changed. Exits 0 when nothing keeps the configuration from working, 4
/// when something does.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Configuration file (TOML); without one, the demo is looked at.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let config = super::load(self.config.as_deref(), &Overrides::default())?;
        let findings = doctor::examine(&config);
        if self.json {
            doctor::print_json(&findings);
        } else {
            doctor::print(&findings);
        }
        let works = findings
            .iter()
            .all(|finding| finding.level < Level::Problem);
        Ok(if works { Exit::Done } else { Exit::Degraded })
    }
}
