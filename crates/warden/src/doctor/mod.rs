//! `lm-warden doctor`: looks at what a configuration needs of this machine, and says what is wrong
//! and what to do. It changes nothing and starts nothing.
//!
//! One file per subject, each a function from the configuration to findings.

mod disk;
mod door;
mod engines;
mod host_memory;
mod machine;
mod ports;
mod report;

pub use report::{print, print_json};
use serde::Serialize;

use crate::config::{Config, Engine, Vllm};

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, but not as well as it could.
    Warning,
    /// It will not work.
    Problem,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject.
    pub check: &'static str,
    /// How grave.
    pub level: Level,
    /// What was seen.
    pub message: String,
    /// What to do about it; `None` where nothing has to be.
    pub mend: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            message: message.into(),
            mend: None,
        }
    }

    fn warning(check: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            mend: Some(mend.into()),
            ..Self::ok(check, message)
        }
    }

    fn problem(check: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            level: Level::Problem,
            ..Self::warning(check, message, mend)
        }
    }
}

/// Looks at everything. Blocks on the disk and the driver.
pub fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = machine::cards(config, &crate::gpus::look());
    findings.extend(engines::findings(config));
    findings.extend(host_memory::findings(config));
    findings.extend(ports::findings(config));
    findings.extend(disk::findings(config));
    findings.extend(door::findings(config));
    findings.push(machine::open_files());
    findings.push(machine::time());
    findings
}

/// The vLLM engines of a configuration, with their models' names.
fn vllm_engines(config: &Config) -> impl Iterator<Item = (&str, &Vllm)> {
    config
        .models
        .iter()
        .filter_map(|model| match &model.engine {
            Engine::Vllm(engine) => Some((model.name.as_str(), engine)),
            _ => None,
        })
}
