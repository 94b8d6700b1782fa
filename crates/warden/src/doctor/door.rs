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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        config::Overrides,
        doctor::Level,
        keys::{Limits, NewKey},
    };

    /// In the year 2100.
    const EXPIRES_S: i64 = 4_102_444_800;
    const HERE: &str = "127.0.0.1:8090";
    const EVERYWHERE: &str = "0.0.0.0:8090";

    fn config(data_dir: &Path, listen: &str, rest: &str) -> Config {
        let data_dir = data_dir.display();
        let text = format!(
            "[server]\nlisten = \"{listen}\"\ndata_dir = \"{data_dir}\"\n{rest}\n\
             [[models]]\nname = \"m\"\n[models.engine]\nkind = \"simulated\"\n"
        );
        Config::parse(&text, &Overrides::default()).expect("a good configuration")
    }

    fn add(data_dir: &Path, name: &str, role: api::KeyRole, expires_s: Option<i64>) {
        let key = NewKey {
            name: name.to_owned(),
            role,
            expires_s,
            limits: Limits::default(),
        };
        KeyFile::of(data_dir).add(key).expect("a key");
    }

    #[test]
    fn without_a_key_only_a_warden_for_this_machine_is_well() {
        let home = tempfile::tempdir().expect("a folder");
        let level = |listen, rest| keys(&config(home.path(), listen, rest)).level;
        assert_eq!(level(HERE, ""), Level::Ok);
        assert_eq!(level(HERE, "[auth]\nrequired = true"), Level::Warning);
        assert_eq!(level(EVERYWHERE, ""), Level::Problem);
        add(home.path(), "old", api::KeyRole::Admin, Some(EXPIRES_S));
        assert_eq!(level(EVERYWHERE, ""), Level::Ok);
        let file = KeyFile::of(home.path());
        let text = fs::read_to_string(file.path()).expect("keys");
        let expired = text.replace(&EXPIRES_S.to_string(), "1");
        fs::write(file.path(), expired).expect("written");
        assert_eq!(level(EVERYWHERE, ""), Level::Problem, "it has expired");
    }

    #[test]
    fn keys_that_open_nothing_or_that_others_can_read_are_told() {
        let home = tempfile::tempdir().expect("a folder");
        let found = || keys(&config(home.path(), HERE, "[auth]\nrequired = true"));
        add(home.path(), "agent", api::KeyRole::Client, None);
        assert!(found().message.contains("nobody can open"), "{:?}", found());
        add(home.path(), "operator", api::KeyRole::Admin, None);
        assert_eq!(
            (found().level, found().message.as_str()),
            (Level::Ok, "2 valid (1 of admins), 0 expired")
        );
        let file = KeyFile::of(home.path());
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(file.path(), readable).expect("permissions");
        assert!(found().message.contains("other users"), "{:?}", found());
        fs::write(file.path(), "{").expect("written");
        assert_eq!(found().level, Level::Problem);
    }

    #[test]
    fn what_is_open_to_the_network_wants_a_certificate_that_can_be_used() {
        let home = tempfile::tempdir().expect("a folder");
        let found = |listen, rest: &str| tls(&config(home.path(), listen, rest));
        assert_eq!(found(HERE, ""), None);
        let plain = found(EVERYWHERE, "").expect("a finding");
        assert_eq!(plain.level, Level::Warning);

        let (cert, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
        let files = format!(
            "[server.tls]\ncert = \"{}\"\nkey = \"{}\"",
            cert.display(),
            key.display()
        );
        let missing = found(HERE, &files).expect("a finding");
        assert_eq!(missing.level, Level::Problem);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        fs::write(cert, made.cert.pem()).expect("written");
        fs::write(key, made.signing_key.serialize_pem()).expect("written");
        let good = found(EVERYWHERE, &files).expect("a finding");
        assert_eq!(good.level, Level::Ok);
    }
}
