//! `lm-warden claude`.

use std::{ffi::OsString, os::unix::process::CommandExt as _, process};

use anyhow::Context as _;
use warden::commands::{claude, out};

use super::status::{Target, failure};
use crate::{
    block_on,
    exit::{Exit, Failure},
};

/// Prints the environment that points Claude Code at the warden, or runs Claude Code with it.
///
/// `eval "$(lm-warden claude)"` sets it in the shell; `lm-warden claude demo -- -p "hello"` runs
/// `claude -p "hello"` with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Claude {
    /// Model to use; the first one that the warden serves where none is named.
    model: Option<String>,
    /// Run `claude` with these arguments instead of printing.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
    #[command(flatten)]
    target: Target,
}

impl Claude {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let client = self.target.client()?;
        let environment =
            block_on(claude::environment(&client, self.model.as_deref()))?.map_err(failure)?;
        // clap does not tell a bare `--` from none.
        let prints = self.arguments.is_empty() && !std::env::args_os().any(|word| word == "--");
        if prints {
            out(&claude::as_shell(&environment));
            return Ok(Exit::Done);
        }
        let error = process::Command::new("claude")
            .args(self.arguments)
            .envs(environment)
            .exec();
        Err(error)
            .context("claude cannot be started; install it with: npm install -g @anthropic-ai/claude-code")
            .map_err(Failure::from)
    }
}
