//! Keys that the documentation knows but this version does not serve yet. They would be refused as
//! unknown anyway; here they get an error that says so, instead of one that suggests a typing error.

use toml::{Table, Value};

use super::ConfigError;

/// Refuses what is not served in this version. What is no TOML at all passes: the real parser says
/// it better.
pub(super) fn check(text: &str) -> Result<(), ConfigError> {
    let Ok(root) = text.parse::<Table>() else {
        return Ok(());
    };
    if let Some(server) = root.get("server").and_then(Value::as_table) {
        refuse(
            server,
            "tls",
            "server.tls",
            "remove it, and listen on loopback",
        )?;
    }
    Ok(())
}

fn refuse(table: &Table, key: &str, path: &str, mend: &'static str) -> Result<(), ConfigError> {
    if table.contains_key(key) {
        return Err(ConfigError::Unsupported {
            key: path.to_owned(),
            mend,
        });
    }
    Ok(())
}
