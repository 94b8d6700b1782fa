//! `lm-warden manual`, which the packages are built with: manual pages and shell completions, made
//! from the same definitions as `--help`, so that they cannot say anything else.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::{
    Arguments,
    exit::{Exit, Failure},
};

/// Where the shells look for completions, below a prefix like /usr.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/lm-warden"),
    (Shell::Zsh, "share/zsh/site-functions/_lm-warden"),
    (
        Shell::Fish,
        "share/fish/vendor_completions.d/lm-warden.fish",
    ),
];

/// Writes the manual pages and the shells' completions below a prefix.
#[derive(Debug, clap::Args)]
pub(crate) struct Manual {
    /// What stands for /usr.
    prefix: PathBuf,
}

impl Manual {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let pages = self.prefix.join("share/man/man1");
        let context = || format!("{} cannot be written", pages.display());
        fs::create_dir_all(&pages).with_context(context)?;
        clap_mangen::generate_to(Arguments::command(), &pages).with_context(context)?;
        for (shell, path) in COMPLETIONS {
            let path = self.prefix.join(path);
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut completed(), "lm-warden", &mut script);
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&path, script))
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(Exit::Done)
    }
}

/// The program as completions know it: they would offer hidden commands too.
fn completed() -> Command {
    let whole = Arguments::command();
    let shown = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("lm-warden")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown.cloned())
}
