//! What is on disk about a running engine, so that the next warden finds it again: written before
//! the engine is started and removed when it has ended.
//!
//! A lost record would leave a model in a card's memory that nobody ends. So it lies there twice,
//! each with a checksum (a flipped bit in a pid is a good pid too), and the first whole one counts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

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

/// As it lies on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    record: Record,
    checksum: u64,
}

impl Record {
    /// Reads a record. What cannot be understood is as good as none, and said.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "an engine's record cannot be read");
                Vec::new()
            }
        };
        if let Some(record) = Self::parse(&bytes) {
            return Some(record);
        }
        let twin = fs::read(twin(path)).ok();
        let record = twin.and_then(|bytes| Self::parse(&bytes));
        match &record {
            Some(_) => {
                tracing::warn!(path = %path.display(), "an engine's record is damaged; its copy is taken");
            }
            None => {
                tracing::error!(path = %path.display(), "an engine's record is damaged, and its copy too; if its engine still runs, end it by hand");
            }
        }
        record
    }

    /// A record from the bytes of its file; `None` unless it is as it was written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(bytes).ok()?;
        (stored.checksum == stored.record.checksum()).then_some(stored.record)
    }

    fn checksum(&self) -> u64 {
        XxHash3_64::oneshot(&serde_json::to_vec(self).expect("a record is plain JSON"))
    }

    fn stored(&self) -> Stored {
        Stored {
            record: self.clone(),
            checksum: self.checksum(),
        }
    }

    /// Writes it. Blocks on the disk.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let json = serde_json::to_vec_pretty(&self.stored()).expect("a record is plain JSON");
        write_atomically(path, &json)?;
        write_atomically(&twin(path), &json)
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

/// What holds of any bytes, for the fuzzer.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(record) = Record::parse(bytes) {
        let json = serde_json::to_vec(&record.stored()).expect("a record is plain JSON");
        assert_eq!(Record::parse(&json), Some(record));
    }
}

/// Where the copy lies.
fn twin(path: &Path) -> PathBuf {
    path.with_extension("copy")
}

/// Forgets an engine. Blocks on the disk.
pub(super) fn remove(path: &Path) {
    for path in [path, &twin(path)] {
        match fs::remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // At worst the next warden finds a record of a process that is gone.
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "an engine's record stays");
            }
        }
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
    fn no_flipped_bit_and_no_truncation_loses_an_engine() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server-0.json");
        let record = Record {
            model: "m".to_owned(),
            mark: "a mark".to_owned(),
            process: Identity::of(std::process::id()),
            port: 8000,
            command: 77,
        };
        record.write(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for damaged in [path.clone(), twin(&path)] {
            for at in 0..whole.len() {
                fs::write(&damaged, &whole[..at]).unwrap();
                assert_eq!(Record::read(&path).as_ref(), Some(&record), "cut at {at}");
                for bit in 0..8 {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << bit;
                    fs::write(&damaged, &bytes).unwrap();
                    let read = Record::read(&path);
                    assert_eq!(read.as_ref(), Some(&record), "bit {bit} of byte {at}");
                }
            }
            fs::write(&damaged, &whole).unwrap();
        }
    }

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
        fs::write(twin(&path), b"{").unwrap();
        assert_eq!(Record::read(&path), None);
        remove(&path);
        remove(&path);
        assert_eq!(Record::read(&path), None);
    }
}
