//! From the file to the configuration: defaults, ranges, and keys that must or must not go together.

mod engine;
mod server;
mod vllm;

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use self::{
    engine::engine,
    server::{auth, server},
};
use super::{Config, ConfigError, History, Model, Overrides, Routing, file};

type Result<T> = std::result::Result<T, ConfigError>;

const MODELS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 256;
/// Concurrent sequences, and so the thresholds that can mean something.
pub(crate) const SEQUENCES: RangeInclusive<i64> = 1..=65_536;
const DAYS: RangeInclusive<i64> = 1..=3650;
const HISTORY_BYTES: RangeInclusive<i64> = 16 << 20..=1 << 40;
const IDLE_S: RangeInclusive<i64> = 10..=7 * 24 * 3600;
/// Turns that a conversation may keep its place for: past the upper end it keeps it to its own end.
pub(crate) const TURNS: RangeInclusive<i64> = 1..=10_000;
const QUEUE_WAIT_S: RangeInclusive<i64> = 1..=24 * 3600;

pub(super) fn config(file: file::Config, overrides: &Overrides) -> Result<Config> {
    let server = server(file.server, overrides)?;
    let auth = auth(&file.auth, &server)?;
    let history = history(&file.history)?;
    if file.models.is_empty() {
        return Err(ConfigError::missing(
            "models",
            "write a [[models]] table with name and [models.engine] for each model to serve",
        ));
    }
    if file.models.len() > MODELS_MAX {
        return Err(ConfigError::value(
            "models",
            format!("{} tables", file.models.len()),
            format!("at most {MODELS_MAX} models are served"),
        ));
    }
    let mut names = BTreeSet::new();
    let models = file
        .models
        .into_iter()
        .enumerate()
        .map(|(index, model)| self::model(&format!("models[{index}]"), model, &mut names))
        .collect::<Result<_>>()?;
    let config = Config {
        server,
        auth,
        history,
        models,
    };
    vllm::share_out(&config.models)?;
    Ok(config)
}

fn history(file: &file::History) -> Result<History> {
    let usual = History::default();
    let days_max = file.days_max.unwrap_or(usual.days_max.cast_signed());
    in_range("history.days_max", days_max, DAYS, "days")?;
    let bytes_max = file.bytes_max.unwrap_or(usual.bytes_max.cast_signed());
    in_range("history.bytes_max", bytes_max, HISTORY_BYTES, "bytes")?;
    Ok(History {
        days_max: days_max as u64,
        bytes_max: bytes_max as u64,
    })
}

fn model(path: &str, file: file::Model, names: &mut BTreeSet<String>) -> Result<Model> {
    let name_key = format!("{path}.name");
    check_name(&name_key, &file.name, names)?;
    if file.name.contains('*') {
        return Err(ConfigError::value(
            name_key,
            file.name,
            "must not hold a *: patterns belong into aliases",
        ));
    }
    for alias in &file.aliases {
        check_name(&format!("{path}.aliases"), alias, names)?;
    }
    Ok(Model {
        name: file.name,
        aliases: file.aliases,
        engine: engine(&format!("{path}.engine"), file.engine)?,
        routing: routing(&format!("{path}.routing"), file.routing)?,
    })
}

fn check_name(key: &str, name: &str, names: &mut BTreeSet<String>) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(ConfigError::value(
            key,
            name,
            format!("must be 1 to {NAME_BYTES_MAX} bytes without control characters"),
        ));
    }
    if !names.insert(name.to_owned()) {
        return Err(ConfigError::value(
            key,
            name,
            "is taken already: each name and alias may stand once, over all models",
        ));
    }
    Ok(())
}

fn routing(path: &str, file: file::Routing) -> Result<Routing> {
    let spill_threshold = match file.spill_threshold {
        None => api::SetThreshold::Word(api::AutoWord::Auto),
        Some(file::Threshold::Word(word)) if word == "auto" => {
            api::SetThreshold::Word(api::AutoWord::Auto)
        }
        Some(file::Threshold::Requests(n)) if SEQUENCES.contains(&n) => {
            api::SetThreshold::Requests(n as u32)
        }
        Some(other) => {
            let value = match other {
                file::Threshold::Requests(n) => toml::Value::from(n),
                file::Threshold::Word(word) => toml::Value::from(word),
            };
            return Err(ConfigError::value(
                format!("{path}.spill_threshold"),
                value,
                format!(
                    "must be \"auto\" or a number of requests from 1 to {}",
                    SEQUENCES.end()
                ),
            ));
        }
    };
    let session_idle_s = file.session_idle_s.unwrap_or(3600);
    in_range(
        &format!("{path}.session_idle_s"),
        session_idle_s,
        IDLE_S,
        "seconds",
    )?;
    let queue_wait_s_max = file.queue_wait_s_max.unwrap_or(240);
    in_range(
        &format!("{path}.queue_wait_s_max"),
        queue_wait_s_max,
        QUEUE_WAIT_S,
        "seconds",
    )?;
    Ok(Routing {
        affinity: file.affinity.unwrap_or(true),
        spill_threshold,
        leases: match file.leases {
            None | Some(file::Leases::Auto) => api::LeasesMode::Auto,
            Some(file::Leases::Off) => api::LeasesMode::Off,
        },
        lease_turns: lease_turns(path, file.lease_turns)?,
        queue_wait_max: Duration::from_secs(queue_wait_s_max as u64),
        session_idle: Duration::from_secs(session_idle_s as u64),
    })
}

fn lease_turns(path: &str, file: Option<file::Turns>) -> Result<api::SetTurns> {
    let value = match file {
        None => return Ok(api::SetTurns::Word(api::AutoWord::Auto)),
        Some(file::Turns::Word(word)) if word == "auto" => {
            return Ok(api::SetTurns::Word(api::AutoWord::Auto));
        }
        Some(file::Turns::Turns(n)) if TURNS.contains(&n) => {
            return Ok(api::SetTurns::Turns(n as u32));
        }
        Some(file::Turns::Turns(n)) => toml::Value::from(n),
        Some(file::Turns::Word(word)) => toml::Value::from(word),
    };
    Err(ConfigError::value(
        format!("{path}.lease_turns"),
        value,
        format!(
            "must be \"auto\" or a number of turns from 1 to {}",
            TURNS.end()
        ),
    ))
}

fn in_range(key: &str, value: i64, range: RangeInclusive<i64>, unit: &str) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::value(
        key,
        value,
        format!("must be {} to {} {unit}", range.start(), range.end()),
    ))
}
