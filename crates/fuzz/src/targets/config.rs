//! The configuration file.
//!
//! Laws: a refusal says something; a configuration that is accepted is accepted again, and means
//! the same, when it is written out with all defaults.

use warden::config::{Config, Overrides};

pub(super) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let overrides = Overrides {
        data_dir: Some("/state".into()),
        ..Overrides::default()
    };
    match Config::parse(text, &overrides) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(config) => {
            let written = config.to_toml();
            match Config::parse(&written, &Overrides::default()) {
                Ok(again) => assert_eq!(again.to_toml(), written),
                Err(error) => panic!("{error}\nin what was written out:\n{written}"),
            }
        }
    }
}
