//! How many files (connections above all) this process may have open.
//!
//! Shells and units often start with a soft limit of 1024, which one busy team reaches; the hard
//! limit is there to be taken. Where even that is low, fewer client connections are let in, since
//! one that is let in needs a second one to its replica, and must not find that there is none.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files for everything that is no client: listener, probes, children's pipes, data directory.
const RESERVED: u64 = 128;
/// A client's connection, the one to its replica, and one that lies idle there.
const PER_CONNECTION: u64 = 3;
/// So many clients are always let in; with fewer the service would be of no use.
const CONNECTIONS_MIN: usize = 16;

/// Raises the soft limit to the hard one. Gives back what is in force, `None` where the system
/// does not say.
pub(crate) fn raise_limit() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return Some(hard);
    }
    Some(soft)
}

/// Client connections that so many open files allow, at most `wanted`.
pub(crate) fn connections_max(open_files: u64, wanted: usize) -> usize {
    let allowed = open_files.saturating_sub(RESERVED) / PER_CONNECTION;
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    allowed.max(CONNECTIONS_MIN).min(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_within_the_files_that_may_be_open() {
        for (open_files, expected) in [
            (u64::MAX, 4096),
            (20_000, 4096),
            (1024, 298),
            (256, 42),
            (64, 16),
            (0, 16),
        ] {
            assert_eq!(connections_max(open_files, 4096), expected, "{open_files}");
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_limit();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((soft, Some(soft)), (hard, raised));
    }
}
