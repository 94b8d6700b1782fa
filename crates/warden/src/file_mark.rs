//! What tells that a file is another one than when it was last looked at.

use std::{fs::Metadata, os::unix::fs::MetadataExt as _};

/// A file's state, as far as it shows without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMark {
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds since the epoch.
    modified: (i64, i64),
}

impl From<Metadata> for FileMark {
    fn from(file: Metadata) -> Self {
        Self {
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
        }
    }
}
