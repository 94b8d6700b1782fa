//! `kind = "vllm"`: its keys, and the cards and ports that all models share.

use std::{collections::BTreeMap, ops::RangeInclusive, path::PathBuf, time::Duration};

use super::{
    Result, SEQUENCES,
    engine::{REPLICAS, STARTED_SEQUENCES, api_key, unused},
    in_range,
};
use crate::config::{ConfigError, Engine, Layout, Model, Start, Vllm, file};

const CARDS_PER_REPLICA: RangeInclusive<i64> = 1..=64;
const CARD: RangeInclusive<i64> = 0..=255;
const OFFLOAD_GIB: RangeInclusive<i64> = 0..=65_536;
const PORT: RangeInclusive<i64> = 1024..=65_535;
const IDLE_S: RangeInclusive<i64> = 1..=7 * 24 * 3600;
const START_S: RangeInclusive<i64> = 10..=7 * 24 * 3600;
const IDLE_STOP_S: i64 = 1800;
const START_S_MAX: i64 = 1800;
/// Arguments that the warden sets from other keys, and the key to use instead.
const OWN_ARGUMENTS: &[(&str, &str)] = &[
    ("--port", "port"),
    ("--host", "port"),
    ("--served-model-name", "models.name"),
    ("--data-parallel-size", "data_parallel_size"),
    ("-dp", "data_parallel_size"),
    ("--tensor-parallel-size", "tensor_parallel_size"),
    ("-tp", "tensor_parallel_size"),
    ("--max-num-seqs", "max_num_seqs"),
    ("--api-key", "api_key_env"),
];

pub(super) fn vllm(path: &str, file: file::Engine) -> Result<Vllm> {
    let key = |name: &str| format!("{path}.{name}");
    let sizes = Sizes::of(path, &file)?;
    unused(path, "vllm", "url", file.url)?;
    unused(path, "vllm", "urls", file.urls)?;
    unused(path, "vllm", "profile", file.profile)?;
    unused(path, "vllm", "speed", file.speed)?;
    let model = file
        .model
        .filter(|model| !model.is_empty())
        .ok_or_else(|| {
            ConfigError::missing(
                key("model"),
                "write the model to load, such as \"Qwen/Qwen3-4B-Instruct-2507\" or a folder",
            )
        })?;
    let start = match file.start {
        Some(file::Start::OnDemand) => Start::OnDemand,
        None | Some(file::Start::Always) => Start::Always,
    };
    if start == Start::Always {
        unused(
            path,
            "vllm\" and start = \"always",
            "idle_stop_s",
            file.idle_stop_s,
        )?;
    }
    let layout = match file.layout {
        Some(file::Layout::Servers) => Layout::Servers,
        None | Some(file::Layout::Ranks) => Layout::Ranks,
    };
    single_on_macos(std::env::consts::OS, path, sizes.replicas, sizes.cards)?;
    let args = file.args.unwrap_or_default();
    check_args(&key("args"), &args)?;
    let api_key = match &file.api_key_env {
        Some(name) => Some(api_key(&key("api_key_env"), name)?),
        None => None,
    };
    let gpus = gpus(&key("gpus"), file.gpus, &sizes)?;
    let parser = file.tool_call_parser;
    Ok(Vllm {
        gpus,
        tool_call_parser: tool_call_parser(&key("tool_call_parser"), parser, &model)?,
        port: port(&key("port"), file.port, layout, sizes.replicas)?,
        env: env(&key("env"), file.env.unwrap_or_default())?,
        executable: file.executable.unwrap_or_else(|| PathBuf::from("vllm")),
        dtype: file.dtype,
        data_parallel_size: sizes.replicas as u16,
        tensor_parallel_size: sizes.cards as u16,
        max_num_seqs: sizes.sequences as u32,
        layout,
        kv_offload_gib: sizes.offload_gib as u32,
        args,
        start,
        idle_stop: (start == Start::OnDemand).then_some(sizes.idle_stop),
        start_max: sizes.start_max,
        api_key_env: file.api_key_env,
        api_key,
        model,
    })
}

/// The numbers, each within its range.
struct Sizes {
    replicas: i64,
    cards: i64,
    sequences: i64,
    offload_gib: i64,
    idle_stop: Duration,
    start_max: Duration,
}

impl Sizes {
    fn of(path: &str, file: &file::Engine) -> Result<Self> {
        let number = |name: &str, value: Option<i64>, default: i64, (range, unit)| {
            let value = value.unwrap_or(default);
            in_range(&format!("{path}.{name}"), value, range, unit).map(|()| value)
        };
        let seconds = |name: &str, value: Option<i64>, default: i64, range| {
            let value = number(name, value, default, (range, "seconds"))?;
            Ok(Duration::from_secs(value as u64))
        };
        let (replicas, cards) = (file.data_parallel_size, file.tensor_parallel_size);
        let (sequences, offload) = (file.max_num_seqs, file.kv_offload_gib);
        Ok(Self {
            replicas: number("data_parallel_size", replicas, 1, (REPLICAS, "replicas"))?,
            cards: number(
                "tensor_parallel_size",
                cards,
                1,
                (CARDS_PER_REPLICA, "cards"),
            )?,
            sequences: number(
                "max_num_seqs",
                sequences,
                STARTED_SEQUENCES,
                (SEQUENCES, "sequences"),
            )?,
            offload_gib: number("kv_offload_gib", offload, 0, (OFFLOAD_GIB, "GiB"))?,
            idle_stop: seconds("idle_stop_s", file.idle_stop_s, IDLE_STOP_S, IDLE_S)?,
            start_max: seconds("start_s_max", file.start_s_max, START_S_MAX, START_S)?,
        })
    }
}

/// Refuses the keys that only a vLLM started here has.
pub(super) fn not_vllm(path: &str, kind: &str, file: &file::Engine) -> Result<()> {
    let present = [
        ("model", toml(file.model.as_ref())),
        ("executable", toml(file.executable.as_ref())),
        ("dtype", toml(file.dtype.as_ref())),
        ("tensor_parallel_size", toml(file.tensor_parallel_size)),
        ("gpus", toml(file.gpus.as_ref())),
        ("layout", toml(file.layout)),
        ("kv_offload_gib", toml(file.kv_offload_gib)),
        ("tool_call_parser", toml(file.tool_call_parser.as_ref())),
        ("args", toml(file.args.as_ref())),
        // Values of environment variables may be secrets, and errors end in logs.
        ("env", toml(file.env.as_ref().map(|_| "…"))),
        ("port", toml(file.port)),
        ("start", toml(file.start)),
        ("idle_stop_s", toml(file.idle_stop_s)),
        ("start_s_max", toml(file.start_s_max)),
    ];
    for (name, value) in present {
        unused(path, kind, name, value)?;
    }
    Ok(())
}

/// A value as the file says it.
fn toml(value: Option<impl serde::Serialize>) -> Option<toml::Value> {
    value.and_then(|value| toml::Value::try_from(value).ok())
}

/// Cards and ports of models that run at the same time must not overlap; models on demand take
/// turns on their cards.
pub(super) fn share_out(models: &[Model]) -> Result<()> {
    let engines: Vec<(usize, &str, &Vllm)> = models
        .iter()
        .enumerate()
        .filter_map(|(index, model)| match &model.engine {
            Engine::Vllm(engine) => Some((index, model.name.as_str(), engine)),
            _ => None,
        })
        .collect();
    share_ports(&engines)?;
    share_cards(&engines)
}

fn share_ports(engines: &[(usize, &str, &Vllm)]) -> Result<()> {
    let mut taken: BTreeMap<u16, &str> = BTreeMap::new();
    for (index, name, engine) in engines {
        let own = engine.port.map(|first| first..first + engine.servers());
        for port in own.into_iter().flatten() {
            if let Some(other) = taken.insert(port, name) {
                return Err(ConfigError::value(
                    format!("models[{index}].engine.port"),
                    i64::from(port),
                    format!("is used by model {other:?} too; leave port out, or choose another"),
                ));
            }
        }
    }
    Ok(())
}

fn share_cards(engines: &[(usize, &str, &Vllm)]) -> Result<()> {
    let error = |index: usize, card: u32, mend: String| {
        let key = format!("models[{index}].engine.gpus");
        Err(ConfigError::value(key, i64::from(card), mend))
    };
    let (always, on_demand): (Vec<_>, Vec<_>) = engines
        .iter()
        .partition(|(_, _, engine)| engine.start == Start::Always);
    let mut taken: BTreeMap<u32, &str> = BTreeMap::new();
    for (index, name, engine) in always {
        for card in engine.gpus.iter().flatten() {
            if let Some(other) = taken.insert(*card, name) {
                let mend = format!(
                    "card {card} is used by model {other:?} too, and both always run; give each \
                     its own cards, or set start = \"on-demand\" for both"
                );
                return error(index, *card, mend);
            }
        }
    }
    for (index, _, engine) in on_demand {
        let mut cards = engine.cards().into_iter();
        let clash = cards.find_map(|card| Some((card, taken.get(&card)?)));
        if let Some((card, other)) = clash {
            let mend = format!(
                "model {other:?} always runs on card {card}, so this one could never start; give \
                 it other cards, or set start = \"on-demand\" for both"
            );
            return error(index, card, mend);
        }
    }
    Ok(())
}

fn gpus(key: &str, gpus: Option<Vec<i64>>, sizes: &Sizes) -> Result<Option<Vec<u32>>> {
    let Some(gpus) = gpus else {
        return Ok(None);
    };
    for card in &gpus {
        in_range(
            key,
            *card,
            CARD,
            "(a card's number, as nvidia-smi prints it)",
        )?;
    }
    let cards: Vec<u32> = gpus.iter().map(|card| *card as u32).collect();
    let (replicas, per_replica) = (sizes.replicas as usize, sizes.cards as usize);
    vllm::serve::assign_gpus(&cards, replicas, per_replica).map_err(|error| {
        let mend = "name each card once, as many as there are replicas x cards per replica";
        ConfigError::value(key, gpus, format!("{error}; {mend}"))
    })?;
    Ok(Some(cards))
}

fn tool_call_parser(key: &str, set: Option<String>, model: &str) -> Result<Option<String>> {
    match set.as_deref() {
        None | Some("auto") => Ok(vllm::serve::tool_parser_for(model).map(str::to_owned)),
        Some("off") => Ok(None),
        Some(name)
            if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty() =>
        {
            Ok(set)
        }
        Some(name) => Err(ConfigError::value(
            key,
            name,
            "must be \"auto\", \"off\", or a name that `vllm serve --help=tool-call-parser` lists",
        )),
    }
}

fn port(key: &str, port: Option<i64>, layout: Layout, replicas: i64) -> Result<Option<u16>> {
    let Some(port) = port else {
        return Ok(None);
    };
    in_range(
        key,
        port,
        PORT,
        "(a loopback port for vLLM, not the warden's)",
    )?;
    let last = match layout {
        Layout::Ranks => port,
        Layout::Servers => port + replicas - 1,
    };
    in_range(
        key,
        last,
        PORT,
        "(the last server's port; they count up from the first)",
    )?;
    Ok(Some(port as u16))
}

fn env(key: &str, env: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(ConfigError::value(
                format!("{key}.{name}"),
                value.as_str(),
                "is no environment variable: names hold no =, and neither holds a zero byte",
            ));
        }
        if name == "VLLM_API_KEY" {
            return Err(ConfigError::value(
                format!("{key}.{name}"),
                "…",
                "does not belong into a file: set a variable where lm-warden starts, and name it \
                 in api_key_env",
            ));
        }
    }
    Ok(env)
}

fn check_args(key: &str, args: &[String]) -> Result<()> {
    for arg in args {
        let name = arg.split('=').next().unwrap_or(arg);
        if let Some((_, instead)) = OWN_ARGUMENTS.iter().find(|(own, _)| *own == name) {
            return Err(ConfigError::value(
                key,
                name,
                format!("is set by the warden, which has to know it; use {instead}"),
            ));
        }
        if arg.contains('\0') {
            return Err(ConfigError::value(
                key,
                arg.as_str(),
                "must not hold a zero byte",
            ));
        }
    }
    Ok(())
}

fn single_on_macos(os: &str, path: &str, replicas: i64, cards: i64) -> Result<()> {
    if os != "macos" {
        return Ok(());
    }
    for (name, size) in [
        ("data_parallel_size", replicas),
        ("tensor_parallel_size", cards),
    ] {
        if size > 1 {
            return Err(ConfigError::value(
                format!("{path}.{name}"),
                size,
                "must be 1 on macOS: vLLM's parallel engines need NCCL and CUDA, which macOS does \
                 not have",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macos_serves_single_replicas_and_is_told_why_not_more() {
        let check = |os, replicas, cards| single_on_macos(os, "models[0].engine", replicas, cards);
        let told = |error: Result<()>| error.expect_err("refused").to_string();
        let ranks = told(check("macos", 2, 1));
        assert!(
            ranks.starts_with("models[0].engine.data_parallel_size = 2: must be 1 on macOS")
                && ranks.contains("NCCL"),
            "{ranks}"
        );
        assert!(told(check("macos", 1, 2)).contains("tensor_parallel_size = 2"));
        assert!(check("macos", 1, 1).is_ok());
        assert!(check("linux", 8, 2).is_ok());
    }
}
