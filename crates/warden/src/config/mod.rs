//! The configuration: what the file may say (`file`), what it comes to (here), and how one becomes
//! the other (`resolve`), with errors that name the key, its value and the mend.
//!
//! Parse, don't validate: a [`Config`] that exists is within all ranges, so no other module checks
//! a setting again. A key that this version could only ignore is an error, not a comment.

mod error;
mod file;
mod model;
mod resolve;
#[cfg(test)]
mod tests;
mod vllm;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use error::ConfigError;
pub use model::{Attached, Engine, Model, Replicas, Routing, Secret, Simulated};
pub(crate) use resolve::{SEQUENCES as THRESHOLD, TURNS};
pub use vllm::{Layout, Start, Vllm};

/// The whole configuration, resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The warden itself.
    pub server: Server,
    /// Who may use it.
    pub auth: Auth,
    /// What is kept of requests.
    pub history: History,
    /// The served models, at least one.
    pub models: Vec<Model>,
}

/// Where the warden listens and what it holds at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// Address of clients' APIs, operators' API, pages and metrics.
    pub listen: SocketAddr,
    /// Directory for what outlives a restart.
    pub data_dir: PathBuf,
    /// Largest request body.
    pub body_bytes_max: usize,
    /// All bodies held at once.
    pub buffered_bytes_max: usize,
    /// Whether vLLM engines end with the warden.
    pub stop_engines: bool,
    /// Certificate and key, where clients come over TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
}

/// Where certificate and key are, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// The certificate, followed by those of its issuers.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Who may use the warden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Auth {
    /// Whether a request without a key is refused.
    pub required: bool,
    /// Whether each key has a prefix cache of its own.
    pub cache_salt: bool,
}

/// What is kept of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct History {
    /// Days after which a request is removed.
    pub days_max: u64,
    /// Size of the file past which the oldest are removed.
    pub bytes_max: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            days_max: 30,
            bytes_max: 2 << 30,
        }
    }
}

/// What the command line says instead of the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Instead of `server.listen`.
    pub listen: Option<SocketAddr>,
    /// Instead of `server.data_dir`.
    pub data_dir: Option<PathBuf>,
    /// True goes before `server.stop_engines`.
    pub stop_engines: bool,
}

/// What is served without a configuration file: four simulated replicas that answer to every model
/// name that Claude Code may ask for.
const DEMO: &str = r#"
[[models]]
name = "demo"
aliases = ["claude-*"]
[models.engine]
kind = "simulated"
data_parallel_size = 4
"#;

impl Config {
    /// Reads the file, or the demo's settings where none is named.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let Some(path) = path else {
            return Self::parse(DEMO, overrides);
        };
        let text = fs::read_to_string(path).map_err(|cause| ConfigError::Read {
            path: path.to_owned(),
            mend: match cause.kind() {
                io::ErrorKind::NotFound => "check the path given with --config",
                io::ErrorKind::PermissionDenied => "let the user that runs lm-warden read it",
                _ => "it must be a readable text file in UTF-8",
            },
            cause,
        })?;
        Self::parse(&text, overrides)
    }

    /// Reads a configuration from its text.
    pub fn parse(text: &str, overrides: &Overrides) -> Result<Self, ConfigError> {
        let file: file::Config = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            message: error.to_string().trim_end().to_owned(),
        })?;
        resolve::config(file, overrides)
    }

    /// The configuration as a file with every default filled in.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration came from TOML and fits into it")
    }
}

/// JSON schema of the configuration file.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(file::Config);
    serde_json::to_string_pretty(&schema).expect("a schema is JSON")
}
