//! Where the warden listens, and its bounds.

use std::{env, net::SocketAddr, path::PathBuf};

use super::{Result, in_range};
use crate::config::{Auth, ConfigError, Overrides, Server, TlsFiles, file};

const LISTEN: &str = "127.0.0.1:8484";
const BODY_BYTES_MAX: i64 = 64 << 20;
const BUFFERED_BYTES_MAX: i64 = 1 << 30;

pub(super) fn server(file: file::Server, overrides: &Overrides) -> Result<Server> {
    let listen = match overrides.listen {
        Some(listen) => listen,
        None => listen(file.listen.as_deref().unwrap_or(LISTEN))?,
    };
    let body_bytes_max = file.body_bytes_max.unwrap_or(BODY_BYTES_MAX);
    in_range(
        "server.body_bytes_max",
        body_bytes_max,
        1024..=1 << 30,
        "bytes",
    )?;
    let buffered_bytes_max = file
        .buffered_bytes_max
        .unwrap_or(BUFFERED_BYTES_MAX.max(body_bytes_max));
    in_range(
        "server.buffered_bytes_max",
        buffered_bytes_max,
        1024..=1 << 40,
        "bytes",
    )?;
    if buffered_bytes_max < body_bytes_max {
        return Err(ConfigError::value(
            "server.buffered_bytes_max",
            buffered_bytes_max,
            format!(
                "must be at least server.body_bytes_max ({body_bytes_max}), or no body of that size could pass"
            ),
        ));
    }
    let mut given = overrides.data_dir.iter().chain(&file.data_dir);
    if given.any(|data_dir| data_dir.as_os_str().is_empty()) {
        let mend = "must name a directory; leave it out to use the usual one";
        return Err(ConfigError::value("server.data_dir", "", mend));
    }
    let data_dir = match overrides.data_dir.clone().or(file.data_dir) {
        Some(data_dir) => data_dir,
        None => default_data_dir()?,
    };
    Ok(Server {
        listen,
        data_dir,
        body_bytes_max: body_bytes_max as usize,
        buffered_bytes_max: buffered_bytes_max as usize,
        tls: file.tls.map(tls).transpose()?,
        stop_engines: overrides.stop_engines || file.stop_engines.unwrap_or(false),
    })
}

fn tls(file: file::Tls) -> Result<TlsFiles> {
    for (key, path) in [
        ("server.tls.cert", &file.cert),
        ("server.tls.key", &file.key),
    ] {
        if path.as_os_str().is_empty() {
            return Err(ConfigError::value(key, "", "must name a PEM file"));
        }
    }
    Ok(TlsFiles {
        cert: file.cert,
        key: file.key,
    })
}

pub(super) fn auth(file: &file::Auth, server: &Server) -> Result<Auth> {
    let is_loopback = server.listen.ip().is_loopback();
    let required = file.required.unwrap_or(!is_loopback);
    if !required && !is_loopback {
        return Err(ConfigError::value(
            "auth.required",
            false,
            format!(
                "must be true (or left out) where {} listens: whoever reaches it could use the \
                 models and change their routing; only a loopback address such as 127.0.0.1 does \
                 without keys",
                server.listen
            ),
        ));
    }
    Ok(Auth {
        required,
        cache_salt: file.cache_salt.unwrap_or(false),
    })
}

fn listen(text: &str) -> Result<SocketAddr> {
    text.parse().map_err(|_| {
        ConfigError::value(
            "server.listen",
            text,
            format!("must be an address and a port, such as \"{LISTEN}\""),
        )
    })
}

fn default_data_dir() -> Result<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("lm-warden"))
        .ok_or_else(|| {
            ConfigError::missing(
                "server.data_dir",
                "neither XDG_STATE_HOME nor HOME is set, so write a directory",
            )
        })
}
