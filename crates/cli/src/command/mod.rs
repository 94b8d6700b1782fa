//! The commands, one file each: what they take and which function they call.

mod check;
mod claude;
mod engine;
mod serve;
mod simulate;
mod status;

use clap::Subcommand;

use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Check(check::Check),
    Status(status::Status),
    Claude(claude::Claude),
    #[command(subcommand)]
    Simulate(simulate::Simulate),
    Engine(Box<engine::Engine>),
}

impl Command {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Claude(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Engine(command) => command.run(),
        }
    }
}
