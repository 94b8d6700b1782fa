//! `lm-warden check`.

use std::path::PathBuf;

use warden::{
    commands::out,
    config::{Overrides, json_schema},
};

use crate::exit::{Exit, Failure};

/// Checks a configuration file and prints it with every default filled in.
///
/// An error names the key, its value and what to write instead. Nothing is started or touched.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Configuration file (TOML); without one, the demo's configuration is printed.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the JSON schema of the configuration file instead.
    #[arg(long, conflicts_with = "config")]
    schema: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if self.schema {
            out(&(json_schema() + "\n"));
            return Ok(Exit::Done);
        }
        let config = super::load(self.config.as_deref(), &Overrides::default())?;
        out(&config.to_toml());
        Ok(Exit::Done)
    }
}
