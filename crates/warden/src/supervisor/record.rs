//! What is on disk about a running engine, so that the next warden finds it again: written before
//! the engine is started and removed when it has ended.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::process::{self, Identity};
use crate::persist::write_atomically;

/// One engine process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The model it serves, for people.
    pub(super) model: String,
    /// What it and all its descendants carry in their environment.
    pub(super) mark: String,
    /// The process; `None` while it is being started.
    pub(super) process: Option<Identity>,
    /// Its loopback port.
    pub(super) port: u16,
    /// Hash of the command that started it.
    pub(super) command: u64,
}

impl Record {
    /// Reads a record. What cannot be understood is as good as none, and said.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "an engine's record cannot be read");
                return None;
            }
        };
        match serde_json::from_slice(&bytes) {
            Ok(record) => Some(record),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "an engine's record is damaged; if its engine still runs, end it by hand");
                None
            }
        }
    }

    /// Writes it. Blocks on the disk.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let json = serde_json::to_vec_pretty(self).expect("a record is plain JSON");
        write_atomically(path, &json)
    }

    /// Ends what is left of it once its process is gone; how much could not be ended. Blocks.
    pub(super) fn sweep(&self) -> usize {
        let leader = self.process.as_ref().map(|process| process.pid);
        process::sweep(&self.mark, leader)
    }

    /// The process, where it is still the one that was recorded: same pid, same start, and with the
    /// mark in its environment.
    pub(super) fn alive(&self) -> Option<&Identity> {
        let process = self.process.as_ref()?;
        (process.is_alive() && process::carries(process.pid, &self.mark)).then_some(process)
    }
}

/// Forgets an engine. Blocks on the disk.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // At worst the next warden finds a record of a process that is gone.
        Err(error) => tracing::warn!(path = %path.display(), %error, "an engine's record stays"),
    }
}

/// The records in a directory.
pub(super) fn all(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_a_stranger_with_its_pid_is_not_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server-0.json");
        let ourselves = Identity::of(std::process::id());
        let record = Record {
            model: "m".to_owned(),
            mark: "no such mark".to_owned(),
            process: ourselves,
            port: 1,
            command: 2,
        };
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path), Some(record.clone()));
        assert_eq!(all(dir.path()), std::slice::from_ref(&path));
        assert_eq!(
            record.alive(),
            None,
            "the right pid and start, but no mark of ours"
        );
        fs::write(&path, b"{").unwrap();
        assert_eq!(Record::read(&path), None);
        remove(&path);
        remove(&path);
        assert_eq!(Record::read(&path), None);
    }
}
