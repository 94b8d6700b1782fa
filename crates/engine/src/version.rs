//! vLLM's version decides a handful of behaviours that clients and gateways have to live with.

use std::{fmt, str::FromStr};

/// A version of vLLM that the engine acts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VllmVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

/// The text is no `MAJOR.MINOR[.PATCH]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a vLLM version; write it as 0.26.0")]
pub struct ParseVersionError(String);

impl VllmVersion {
    /// The version whose behaviour was measured.
    pub const DEFAULT: Self = Self::new(0, 26, 0);

    /// A version by its numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// From 0.27 on the internal balancer looks at load; before, dense models get round-robin.
    pub(crate) fn balances_by_load(self) -> bool {
        self >= Self::new(0, 27, 0)
    }

    /// From 0.32 on the Messages API answers a client's mistake with 400; before, with 500.
    pub(crate) fn messages_blame_the_client(self) -> bool {
        self >= Self::new(0, 32, 0)
    }

    /// From 0.32 on inline `role:"system"` messages stay where they stand; before, they are moved
    /// to the front of the prompt, which breaks the cached prefix.
    pub(crate) fn keeps_inline_system(self) -> bool {
        self >= Self::new(0, 32, 0)
    }

    /// From 0.32 on all APIs take a `cache_salt`; the Messages API did not before.
    pub(crate) fn takes_cache_salt(self) -> bool {
        self >= Self::new(0, 32, 0)
    }

    /// From 0.33 on `/v1/responses` honours `X-data-parallel-rank`.
    pub(crate) fn steers_responses(self) -> bool {
        self >= Self::new(0, 33, 0)
    }
}

impl FromStr for VllmVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseVersionError(text.to_owned());
        let mut numbers = text.splitn(3, '.').map(str::parse::<u16>);
        let mut next = || numbers.next().transpose().map_err(|_| error());
        let (major, minor, patch) = (next()?, next()?, next()?);
        Ok(Self::new(
            major.ok_or_else(error)?,
            minor.ok_or_else(error)?,
            patch.unwrap_or(0),
        ))
    }
}

impl fmt::Display for VllmVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_and_print() {
        assert_eq!("0.26.0".parse(), Ok(VllmVersion::DEFAULT));
        assert_eq!("0.33".parse(), Ok(VllmVersion::new(0, 33, 0)));
        assert_eq!(VllmVersion::new(0, 32, 1).to_string(), "0.32.1");
        for bad in ["", "0", "latest", "0.x.1", "0.26.0.1"] {
            assert!(bad.parse::<VllmVersion>().is_err(), "{bad}");
        }
    }
}
