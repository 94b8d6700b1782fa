//! `lm-warden reload`.

use warden::commands::reload;

use super::status::{Target, failure};
use crate::{
    block_on,
    exit::{Exit, Failure},
};

/// Lets a running warden read its configuration again.
///
/// Routing changes at once; only models whose engine settings changed are restarted. A
/// configuration with an error changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    target: Target,
}

impl Reload {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let client = self.target.client()?;
        block_on(reload::run(&client))?.map_err(failure)?;
        Ok(Exit::Done)
    }
}
