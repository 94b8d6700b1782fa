//! What depends on vLLM's version.

/// Whether the engine of this `/version` honours `X-data-parallel-rank` on `/v1/responses`: vLLM
/// does from 0.33 on. A version that cannot be read does not.
pub fn responses_steerable(version: &str) -> bool {
    is_from(version, (0, 33))
}

/// Whether the engine of this `/version` takes `cache_salt` on all of its APIs: vLLM does from 0.32
/// on (`/v1/messages` came last). A version that cannot be read does not.
pub fn takes_cache_salt(version: &str) -> bool {
    is_from(version, (0, 32))
}

fn is_from(version: &str, first: (u32, u32)) -> bool {
    let version = version.trim();
    let mut numbers = version
        .strip_prefix('v')
        .unwrap_or(version)
        .split('.')
        .map(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part[..digits].parse::<u32>().ok()
        });
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= first,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_0_33_on() {
        for version in [
            "0.33.0",
            "0.33",
            "0.33.0rc1",
            "v0.34.1",
            "1.0.0",
            "0.100.2+cu130",
            " 0.33.0 ",
        ] {
            assert!(responses_steerable(version), "{version}");
        }
        for version in [
            "0.26.0+cpu",
            "0.32.9",
            "0.3.3",
            "",
            "dev",
            "0",
            "0.x",
            "33",
            "é.33",
            "0.é",
        ] {
            assert!(!responses_steerable(version), "{version}");
        }
        assert!(takes_cache_salt("0.32.0") && !takes_cache_salt("0.31.9"));
    }
}
