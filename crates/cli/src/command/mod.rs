//! The commands, one file each: what they take and which function they call.

mod bench;
mod check;
mod claude;
mod doctor;
mod engine;
mod logs;
mod manual;
mod reload;
mod serve;
mod simulate;
mod status;

use clap::Subcommand;

use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Status(status::Status),
    Claude(claude::Claude),
    Logs(logs::Logs),
    Reload(reload::Reload),
    #[command(subcommand)]
    Bench(bench::Bench),
    #[command(subcommand)]
    Simulate(simulate::Simulate),
    Engine(Box<engine::Engine>),
    #[command(hide = true)]
    Manual(manual::Manual),
}

impl Command {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Doctor(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Claude(command) => command.run(),
            Self::Logs(command) => command.run(),
            Self::Reload(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Engine(command) => command.run(),
            Self::Manual(command) => command.run(),
        }
    }
}
