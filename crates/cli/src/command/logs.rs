//! `lm-warden logs`.

use warden::commands::logs;

use super::status::{Target, failure};
use crate::{
    block_on,
    exit::{Exit, Failure},
};

/// Prints what a model's engine printed last; with -f also what it prints from now on.
#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// The model; by default the first one.
    model: Option<String>,
    /// Go on until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// How many lines to begin with.
    #[arg(long, short = 'n', default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2000))]
    lines: u16,
    #[command(flatten)]
    target: Target,
}

impl Logs {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let client = self.target.client()?;
        let model = self.model.as_deref();
        block_on(logs::print(&client, model, self.lines, self.follow))?.map_err(failure)?;
        Ok(Exit::Done)
    }
}
