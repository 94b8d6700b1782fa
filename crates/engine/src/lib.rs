//! `lm-warden engine`: a simulated vLLM server in real time.
//!
//! Behind vLLM's HTTP surface, metrics and data-parallel header run the exact scheduler and block
//! pool of `sim`, one per rank, paced by a profile. A client cannot tell it from vLLM but by the
//! text. It leaves out sampling parameters, log probabilities, several choices per request
//! (`n` counts as 1) and images' meaning: none of these decide where a prefix is cached.
//!
//! Reading order: [`Config`] and [`Engine`] (the way in), `api` (one module per dialect),
//! `conversation` -> `template` -> `tokens` (what the scheduler sees), `plan` and `script` (what the
//! model "says"), `rank` (one scheduler in real time), `balancer`, `faults`, `metrics`.
//!
//! # Scripts
//! A user's message may carry a directive that makes an agent loop take several turns:
//! `[[script: Read {"file_path":"/x"}; Bash {"command":"echo 1"} & Bash {"command":"echo 2"}; say done]]`.
//! See [`script`] for its grammar.

mod api;
mod balancer;
mod config;
mod conversation;
mod core;
mod error;
mod faults;
mod generation;
mod metrics;
mod plan;
mod random;
mod rank;
pub mod script;
mod server;
mod template;
mod tokens;
mod version;

pub use config::{Config, ConfigError};
pub use faults::{Fault, FaultError, FaultKind};
pub use server::{Engine, Exit, StartError, serve};
pub use version::{ParseVersionError, VllmVersion};
