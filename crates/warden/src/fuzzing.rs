//! What must hold of files whose parsers nobody else needs from outside: entry points of the
//! `fuzz` crate. Each panics where a law is broken.

/// A journal of homes: what it tells, written anew, tells the same.
pub fn journal(bytes: &[u8]) {
    crate::persist::check_journal(bytes);
}

/// An engine's record: one that is accepted reads back as itself.
pub fn engine_record(bytes: &[u8]) {
    crate::supervisor::check_record(bytes);
}
