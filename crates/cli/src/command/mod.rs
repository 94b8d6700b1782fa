//! The commands, one file each: what they take and which function they call.

mod bench;
mod check;
mod claude;
mod doctor;
mod engine;
mod key;
mod logs;
mod manual;
mod reload;
mod serve;
mod simulate;
mod status;

use std::path::Path;

use clap::Subcommand;
use sim::profile::Profile;
use warden::config::{Config, Engine as EngineSettings, Overrides};

use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Status(status::Status),
    Claude(claude::Claude),
    #[command(subcommand)]
    Key(key::Key),
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
            Self::Key(command) => command.run(),
            Self::Logs(command) => command.run(),
            Self::Reload(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Engine(command) => command.run(),
            Self::Manual(command) => command.run(),
        }
    }
}

/// Reads the configuration, or the demo's, and makes sure that what it wants simulated can be: the
/// profiles are the simulator's, which the service itself knows nothing of.
fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Config, Failure> {
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
    let config = Config::load(path, overrides).map_err(|error| usage(error.into()))?;
    for (index, model) in config.models.iter().enumerate() {
        if let EngineSettings::Simulated(engine) = &model.engine
            && let Err(error) = Profile::named(&engine.profile)
        {
            let profile = &engine.profile;
            return Err(usage(anyhow::anyhow!(
                "models[{index}].engine.profile = {profile:?}: {error}"
            )));
        }
    }
    Ok(config)
}
