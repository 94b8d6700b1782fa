//! The commands, one file each: what they take and which function they call.

mod check;
mod engine;
mod simulate;

use clap::Subcommand;

use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(check::Check),
    #[command(subcommand)]
    Simulate(simulate::Simulate),
    Engine(Box<engine::Engine>),
}

impl Command {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Check(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Engine(command) => command.run(),
        }
    }
}
