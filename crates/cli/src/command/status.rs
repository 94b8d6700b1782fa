//! `lm-warden status`.

use std::path::PathBuf;

use warden::commands::{Client, ClientError, status};

use crate::{
    block_on,
    exit::{Exit, Failure},
};

/// Shows the models of a running warden, their replicas, and how conversations are routed.
///
/// Exits 0 when all models are ready, 4 when one is not, 3 when no warden answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Print what the API gives, as JSON.
    #[arg(long)]
    json: bool,
    /// Show it again every second, until Ctrl-C.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    target: Target,
}

/// Which warden to talk to.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Where the warden listens.
    #[arg(long, env = "LM_WARDEN_URL", default_value = "http://127.0.0.1:8484")]
    pub(crate) url: String,
}

impl Target {
    /// A client of it, with the key from the environment: an argument would show in `ps`.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let key = std::env::var("LM_WARDEN_KEY").ok();
        Client::new(&self.url, key.as_deref(), issuers().as_deref()).map_err(failure)
    }
}

/// The file that says whose certificates to trust, where the environment names one.
pub(crate) fn issuers() -> Option<PathBuf> {
    std::env::var_os("LM_WARDEN_CA").map(PathBuf::from)
}

impl Status {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let client = self.target.client()?;
        let outcome = block_on(async {
            if self.json {
                status::print_json(&client).await
            } else if self.watch {
                status::watch(&client).await
            } else {
                status::print(&client).await
            }
        })?
        .map_err(failure)?;
        Ok(if outcome.all_ready {
            Exit::Done
        } else {
            Exit::Degraded
        })
    }
}

/// The exit code that goes with a client's error.
pub(crate) fn failure(error: ClientError) -> Failure {
    let exit = match error {
        ClientError::Url { .. } | ClientError::Issuers { .. } => Exit::Usage,
        ClientError::Unreachable { .. } => Exit::Unreachable,
        _ => Exit::Failed,
    };
    Failure::new(exit, error)
}
