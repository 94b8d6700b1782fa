//! Tells a connection that failed for want of something here from one that the other side refused.
//!
//! When this process has no file descriptor left, every connect fails at once. Blamed on the
//! replicas, that would take all of them out and move every conversation from its cache.

use std::{error::Error, io};

use nix::errno::Errno;

/// Whether this machine lacked what a connection needs: files, ports or memory.
pub(crate) fn is_ours(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.any(|cause| {
        let code = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        code.is_some_and(|code| {
            matches!(
                Errno::from_raw(code),
                Errno::EMFILE
                    | Errno::ENFILE
                    | Errno::ENOBUFS
                    | Errno::ENOMEM
                    | Errno::EADDRNOTAVAIL
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::ConnectError;

    #[test]
    fn what_this_machine_lacks_is_told_from_what_the_other_side_does() {
        for (code, ours) in [
            (Errno::EMFILE, true),
            (Errno::EADDRNOTAVAIL, true),
            (Errno::ECONNREFUSED, false),
            (Errno::ECONNRESET, false),
            (Errno::EHOSTUNREACH, false),
        ] {
            let bare = io::Error::from_raw_os_error(code as i32);
            assert_eq!(is_ours(&bare), ours, "{code}");
            let wrapped = ConnectError::Scarcity { source: bare };
            assert_eq!(is_ours(&wrapped), ours, "{code}, as a cause");
        }
        assert!(!is_ours(&io::Error::other("something else")));
    }
}
