//! `lm-warden key`.

use std::path::PathBuf;

use warden::{
    commands::{key, out},
    config::Overrides,
    keys::{KeyFile, Limits, NewKey},
};

use crate::exit::{Exit, Failure};

/// Makes, lists and revokes keys. A running warden follows within a second.
///
/// Keys are kept as hashes in the data directory of the configuration, so run this as the user
/// that runs lm-warden (or as root), with the same --config.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Key {
    /// Makes a key and prints it, once: it is kept as a hash, and nobody can look it up later.
    Add(Add),
    /// Lists keys, their roles, limits and when they expire.
    List(List),
    /// Takes a key away. Its requests in flight go on; its next one is refused.
    Revoke(Revoke),
}

/// Whose keys.
#[derive(Debug, clap::Args)]
struct Place {
    /// Configuration file (TOML) of the warden.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The warden's data directory, instead of the configured one.
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// Whose it is: a name for lists, logs and metrics.
    #[arg(long)]
    name: String,
    /// For operators: also opens the pages, the operators' API and the metrics.
    #[arg(long)]
    admin: bool,
    /// Last day on which it is taken (UTC), such as 2027-03-31, or a moment, such as
    /// 2027-03-31T12:00:00Z.
    #[arg(long, value_name = "DATE", value_parser = key::expiry)]
    expires: Option<i64>,
    /// Most requests per minute.
    #[arg(long, value_name = "N")]
    requests_per_min: Option<u32>,
    /// Most requests in flight.
    #[arg(long, value_name = "N")]
    concurrent_requests: Option<u32>,
    /// Most tokens per minute: prompt tokens that were not cached, and generated ones.
    #[arg(long, value_name = "N")]
    tokens_per_min: Option<u32>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The key's name.
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Place {
    fn file(&self) -> Result<KeyFile, Failure> {
        let overrides = Overrides {
            data_dir: self.data_dir.clone(),
            ..Overrides::default()
        };
        let config = super::load(self.config.as_deref(), &overrides)?;
        Ok(KeyFile::of(&config.server.data_dir))
    }
}

impl Key {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let failed = |error| Failure::new(Exit::Failed, error);
        match self {
            Self::Add(add) => {
                let role = if add.admin {
                    api::KeyRole::Admin
                } else {
                    api::KeyRole::Client
                };
                let new = NewKey {
                    name: add.name,
                    role,
                    expires_s: add.expires,
                    limits: Limits {
                        requests_per_min: add.requests_per_min,
                        concurrent_requests: add.concurrent_requests,
                        tokens_per_min: add.tokens_per_min,
                    },
                };
                let (key, secret) = add.place.file()?.add(new).map_err(failed)?;
                if add.place.json {
                    out(&key::added_json(&key, &secret));
                } else {
                    eprintln!(
                        "The key \"{}\", shown this once; a running warden takes it within a second:",
                        key.name
                    );
                    out(&format!("{}\n", secret.reveal()));
                }
            }
            Self::List(list) => {
                let keys = list.place.file()?.load().map_err(failed)?;
                out(&if list.place.json {
                    key::list_json(&keys)
                } else {
                    key::list(&keys)
                });
            }
            Self::Revoke(revoke) => {
                let file = revoke.place.file()?;
                file.revoke(&revoke.name).map_err(failed)?;
                if revoke.place.json {
                    out(&key::revoked_json(&revoke.name));
                } else {
                    eprintln!(
                        "\"{}\" is revoked; a running warden refuses it within a second.",
                        revoke.name
                    );
                }
            }
        }
        Ok(Exit::Done)
    }
}
