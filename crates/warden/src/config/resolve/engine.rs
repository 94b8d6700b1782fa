//! What runs a model: the keys of each kind of engine, and those that it would ignore.

use std::{collections::BTreeSet, env, ops::RangeInclusive};

use super::{
    Result, SEQUENCES, in_range,
    vllm::{not_vllm, vllm},
};
use crate::config::{Attached, ConfigError, Engine, Replicas, Simulated, file, model::Secret};

pub(super) const REPLICAS: RangeInclusive<i64> = 1..=256;
/// `max_num_seqs` of an engine that is started here.
pub(super) const STARTED_SEQUENCES: i64 = 32;
const PROFILE: &str = "demo";
const SPEED_MAX: f64 = 10_000.0;

pub(super) fn engine(path: &str, file: file::Engine) -> Result<Engine> {
    match file.kind {
        file::EngineKind::Vllm => vllm(path, file).map(Engine::Vllm),
        file::EngineKind::Attached => attached(path, file).map(Engine::Attached),
        file::EngineKind::Simulated => simulated(path, file).map(Engine::Simulated),
    }
}

fn attached(path: &str, file: file::Engine) -> Result<Attached> {
    not_vllm(path, "attached", &file)?;
    unused(path, "attached", "profile", file.profile.as_deref())?;
    unused(path, "attached", "speed", file.speed)?;
    let max_num_seqs = file.max_num_seqs.ok_or_else(|| {
        ConfigError::missing(
            format!("{path}.max_num_seqs"),
            "write the engine's --max-num-seqs; the automatic spill threshold is a quarter of it",
        )
    })?;
    in_range(
        &format!("{path}.max_num_seqs"),
        max_num_seqs,
        SEQUENCES,
        "sequences",
    )?;
    let replicas = replicas(path, file.url, file.urls, file.data_parallel_size)?;
    let api_key = match &file.api_key_env {
        Some(name) => Some(api_key(&format!("{path}.api_key_env"), name)?),
        None => None,
    };
    Ok(Attached {
        replicas,
        max_num_seqs: max_num_seqs as u32,
        api_key_env: file.api_key_env,
        api_key,
    })
}

fn replicas(
    path: &str,
    url: Option<String>,
    urls: Option<Vec<String>>,
    data_parallel_size: Option<i64>,
) -> Result<Replicas> {
    match (url, urls) {
        (Some(url), None) => {
            let size = data_parallel_size.unwrap_or(1);
            in_range(
                &format!("{path}.data_parallel_size"),
                size,
                REPLICAS,
                "replicas",
            )?;
            Ok(Replicas::Ranks {
                url: base_url(&format!("{path}.url"), &url)?,
                data_parallel_size: size as u16,
            })
        }
        (None, Some(urls)) => {
            if let Some(size) = data_parallel_size {
                return Err(ConfigError::value(
                    format!("{path}.data_parallel_size"),
                    size,
                    "goes with url only: with urls, every URL is one replica; remove it",
                ));
            }
            Ok(Replicas::Urls {
                urls: replica_urls(&format!("{path}.urls"), &urls)?,
            })
        }
        (Some(url), Some(_)) => Err(ConfigError::value(
            format!("{path}.url"),
            url,
            "does not go with urls: keep url for ranks behind one server, or urls for one \
                 replica each",
        )),
        (None, None) => Err(ConfigError::missing(
            format!("{path}.url"),
            "write where the engine is reached, such as \"http://127.0.0.1:8000\"",
        )),
    }
}

fn replica_urls(key: &str, urls: &[String]) -> Result<Vec<String>> {
    let count = i64::try_from(urls.len()).unwrap_or(i64::MAX);
    if !REPLICAS.contains(&count) {
        return Err(ConfigError::value(
            key,
            urls.to_vec(),
            format!(
                "must name {} to {} replicas",
                REPLICAS.start(),
                REPLICAS.end()
            ),
        ));
    }
    let mut seen = BTreeSet::new();
    urls.iter()
        .map(|url| {
            let url = base_url(key, url)?;
            if !seen.insert(url.clone()) {
                return Err(ConfigError::value(
                    key,
                    url,
                    "stands twice; each replica has a URL of its own",
                ));
            }
            Ok(url)
        })
        .collect()
}

pub(super) fn api_key(key: &str, name: &str) -> Result<Secret> {
    match env::var(name) {
        Ok(value) if !value.is_empty() && value.chars().all(|c| c.is_ascii_graphic()) => {
            Ok(Secret(value))
        }
        Ok(_) => Err(ConfigError::value(
            key,
            name,
            "this variable is empty or holds what no HTTP header may; set it to the engine's key",
        )),
        Err(_) => Err(ConfigError::value(
            key,
            name,
            "this variable is not set; set it to the engine's --api-key before lm-warden starts",
        )),
    }
}

fn base_url(key: &str, text: &str) -> Result<String> {
    let mend = "must be \"http://host:port\", without a path";
    let bad = || ConfigError::value(key, text, mend);
    let uri: http::Uri = text.parse().map_err(|_| bad())?;
    let authority = uri.authority().ok_or_else(bad)?;
    let (host, port) = (authority.host(), authority.port_u16());
    // What is neither host nor host:port holds a user's name or no port number.
    let plain = match port {
        None => authority.as_str() == host,
        Some(port) => port > 0 && authority.as_str() == format!("{host}:{port}"),
    };
    if uri.scheme_str() != Some("http")
        || !matches!(uri.path(), "" | "/")
        || uri.query().is_some()
        || host.is_empty()
        || !plain
    {
        return Err(bad());
    }
    Ok(format!("http://{host}:{}", port.unwrap_or(80)))
}

fn simulated(path: &str, file: file::Engine) -> Result<Simulated> {
    not_vllm(path, "simulated", &file)?;
    unused(path, "simulated", "url", file.url)?;
    unused(path, "simulated", "urls", file.urls)?;
    unused(path, "simulated", "api_key_env", file.api_key_env)?;
    let data_parallel_size = file.data_parallel_size.unwrap_or(1);
    in_range(
        &format!("{path}.data_parallel_size"),
        data_parallel_size,
        REPLICAS,
        "replicas",
    )?;
    let max_num_seqs = file.max_num_seqs.unwrap_or(STARTED_SEQUENCES);
    in_range(
        &format!("{path}.max_num_seqs"),
        max_num_seqs,
        SEQUENCES,
        "sequences",
    )?;
    let speed = file.speed.unwrap_or(1.0);
    if !(speed > 0.0 && speed <= SPEED_MAX) {
        return Err(ConfigError::value(
            format!("{path}.speed"),
            speed,
            format!("must be over 0 and at most {SPEED_MAX}; 1.0 is as fast as the hardware"),
        ));
    }
    Ok(Simulated {
        data_parallel_size: data_parallel_size as u16,
        max_num_seqs: max_num_seqs as u32,
        profile: file.profile.unwrap_or_else(|| PROFILE.to_owned()),
        speed,
    })
}

/// Refuses a key that this kind of engine would ignore.
pub(super) fn unused(
    path: &str,
    kind: &str,
    key: &str,
    value: Option<impl Into<toml::Value>>,
) -> Result<()> {
    match value {
        None => Ok(()),
        Some(value) => Err(ConfigError::value(
            format!("{path}.{key}"),
            value,
            format!("has no meaning with kind = \"{kind}\"; remove it"),
        )),
    }
}
