//! Who can come in: keys and TLS.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::Finding;
use crate::{
    clock,
    config::Config,
    gateway::Tls,
    keys::{Key, KeyFile},
};

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![keys(config)];
    findings.extend(tls(config));
    findings
}

fn keys(config: &Config) -> Finding {
    let file = KeyFile::of(&config.server.data_dir);
    let keys = match file.load() {
        Ok(keys) => keys,
        Err(error) => return Finding::problem("keys", error.to_string(), "see above"),
    };
    let now_s = clock::epoch_s(clock::now()) as i64;
    let is_valid = |key: &&Key| !key.has_expired(now_s);
    let valid: Vec<&Key> = keys.iter().filter(is_valid).collect();
    let make = "make one: lm-warden key add --admin --name NAME (and the same --config)";
    if valid.is_empty() {
        let address = config.server.listen;
        return if !address.ip().is_loopback() {
            Finding::problem(
                "keys",
                format!("no valid key, and {address} is to listen"),
                make,
            )
        } else if config.auth.required {
            Finding::warning(
                "keys",
                "auth.required is set, and there is no valid key",
                make,
            )
        } else {
            Finding::ok(
                "keys",
                "none, and none is required: only this machine gets in",
            )
        };
    }
    if let Ok(metadata) = fs::metadata(file.path())
        && metadata.permissions().mode() & 0o077 != 0
    {
        let path = file.path().display();
        return Finding::warning(
            "keys",
            format!("other users can read or write {path}"),
            format!("chmod 600 {path}"),
        );
    }
    let admins = valid.iter().filter(|key| key.role == api::KeyRole::Admin);
    let (all, admins, expired) = (valid.len(), admins.count(), keys.len() - valid.len());
    let found = format!("{all} valid ({admins} of admins), {expired} expired");
    if admins == 0 && config.auth.required {
        return Finding::warning("keys", format!("{found}: nobody can open the pages"), make);
    }
    Finding::ok("keys", found)
}

fn tls(config: &Config) -> Option<Finding> {
    let address = config.server.listen;
    let Some(files) = &config.server.tls else {
        return (!address.ip().is_loopback()).then(|| {
            Finding::warning(
                "tls",
                format!(
                    "{address} is to listen without TLS: keys and prompts can be read on the way"
                ),
                "set server.tls.cert and server.tls.key, or keep it in a network that you trust",
            )
        });
    };
    Some(match Tls::load(files.clone()) {
        Ok(_) => Finding::ok("tls", format!("{} can be used", files.cert.display())),
        Err(error) => Finding::problem("tls", error.to_string(), "see above"),
    })
}
