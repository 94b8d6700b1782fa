//! `lm-warden serve`.

use std::{net::SocketAddr, path::PathBuf};

use warden::{config::Overrides, reload::Source, serve::ServeError};

use crate::{
    block_on,
    exit::{Exit, Failure},
    logging,
};

/// Runs the service: the gateway for clients, the operators' API and the pages, on one port.
///
/// Without a configuration file it starts four simulated replicas as model "demo", good for a
/// first look without a GPU. It runs until SIGTERM or Ctrl-C, which let running replies end
/// (within a bound); a second signal ends at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Configuration file (TOML); `lm-warden check` explains what is wrong with one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, instead of the configured one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Directory for what outlives a restart, instead of the configured one.
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// Stop vLLM engines when the warden ends. By default they go on and are adopted by the next
    /// warden, with their cache; Ctrl-C at a terminal stops them in any case.
    #[arg(long)]
    stop_engines: bool,
    /// Log lines as JSON.
    #[arg(long)]
    log_json: bool,
}

impl Serve {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let overrides = Overrides {
            listen: self.listen,
            data_dir: self.data_dir,
            stop_engines: self.stop_engines,
        };
        let config = super::load(self.config.as_deref(), &overrides)?;
        let _log = logging::start(self.log_json);
        let source = Source {
            path: self.config,
            overrides,
        };
        block_on(warden::serve::run(config, source))?
            .map_err(|error| Failure::new(exit(&error), error))?;
        Ok(Exit::Done)
    }
}

fn exit(error: &ServeError) -> Exit {
    match error {
        ServeError::NoKeys { .. } | ServeError::Tls(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}
