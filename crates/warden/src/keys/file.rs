//! Where keys are kept: `keys.json` in the data directory, with hashes only, readable by the
//! service's user alone. Each change writes it anew and renames it over the old one, so a warden
//! that reads it meanwhile sees either; two commands at once take turns.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::secret::{Hash, KeyId, Secret};
use crate::{clock, persist::write_atomically};

const NAME: &str = "keys.json";
const VERSION: u32 = 1;

/// Most keys that one warden keeps.
const KEYS_MAX: usize = 1000;
/// Longest name, in bytes: it is a label in metrics and a column of pages.
const NAME_BYTES_MAX: usize = 64;
/// Largest limit that can be set.
const LIMIT_MAX: u32 = 1_000_000_000;

/// What a key may use; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Requests per minute.
    pub requests_per_min: Option<u32>,
    /// Requests in flight.
    pub concurrent_requests: Option<u32>,
    /// Computed prompt tokens and generated tokens per minute.
    pub tokens_per_min: Option<u32>,
}

/// A key as it is kept.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// Its name; no two have the same.
    pub name: String,
    /// What it may do.
    pub role: api::KeyRole,
    /// When it was made, in epoch seconds.
    pub created_s: i64,
    /// From when on it is not taken any more, in epoch seconds.
    pub expires_s: Option<i64>,
    /// What it may use.
    pub limits: Limits,
    pub(super) hash: Hash,
}

impl Key {
    /// Whether it is past its time.
    pub fn has_expired(&self, now_s: i64) -> bool {
        self.expires_s.is_some_and(|expires_s| now_s >= expires_s)
    }
}

/// What is wanted of a new key.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: api::KeyRole,
    /// From when on it is not taken any more, in epoch seconds.
    pub expires_s: Option<i64>,
    /// What it may use.
    pub limits: Limits,
}

/// Why the keys cannot be read or changed. The operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system's word.
    #[error("the keys cannot be used: {}: {cause}; run this as the user that runs lm-warden, or name its data directory with --config or --data-dir", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Not what was written here.
    #[error("{} is damaged ({reason}); restore it from a copy, or remove it and make new keys", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that cannot be made so.
    #[error("{0}")]
    Refused(String),
    /// No such key.
    #[error("there is no key \"{name}\"; the keys are: {known}")]
    Unknown {
        /// As asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    keys: Vec<StoredKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    id: String,
    name: String,
    role: api::KeyRole,
    sha256: String,
    created: i64,
    expires: Option<i64>,
    limits: Limits,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The one of this data directory.
    pub fn of(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join(NAME),
        }
    }

    /// Where it is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, expired ones too, by name; none where there is no file yet.
    pub fn load(&self) -> Result<Vec<Key>, FileError> {
        match fs::read(&self.path) {
            Ok(bytes) => self.parse(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.io(error)),
        }
    }

    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Vec<Key>, FileError> {
        let damaged = |reason: String| FileError::Damaged {
            path: self.path.clone(),
            reason,
        };
        let stored: Stored =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if stored.version != VERSION {
            let version = stored.version;
            return Err(damaged(format!("version {version}, and this is {VERSION}")));
        }
        if stored.keys.len() > KEYS_MAX {
            return Err(damaged(format!("more than {KEYS_MAX} keys")));
        }
        let mut keys = Vec::with_capacity(stored.keys.len());
        for key in stored.keys {
            let parsed = KeyId::parse(&key.id).zip(Hash::parse(&key.sha256));
            let (id, hash) = parsed.ok_or_else(|| damaged(format!("the key {:?}", key.name)))?;
            keys.push(Key {
                id,
                name: key.name,
                role: key.role,
                created_s: key.created,
                expires_s: key.expires,
                limits: key.limits,
                hash,
            });
        }
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(keys)
    }

    /// Makes a key. Its secret is nowhere but in the answer.
    pub fn add(&self, new: NewKey) -> Result<(Key, Secret), FileError> {
        let _lock = self.lock()?;
        let mut keys = self.load()?;
        check(&new, &keys)?;
        let generated = loop {
            let generated = Secret::generate().map_err(|error| self.io(io::Error::other(error)))?;
            if keys.iter().all(|key| key.id != generated.0) {
                break generated;
            }
        };
        let (id, secret) = generated;
        let key = Key {
            id,
            name: new.name,
            role: new.role,
            created_s: now_s(),
            expires_s: new.expires_s,
            limits: new.limits,
            hash: Hash::of(secret.reveal().as_bytes()),
        };
        keys.push(key.clone());
        self.store(&keys)?;
        Ok((key, secret))
    }

    /// Takes a key away.
    pub fn revoke(&self, name: &str) -> Result<(), FileError> {
        let _lock = self.lock()?;
        let mut keys = self.load()?;
        let before = keys.len();
        keys.retain(|key| key.name != name);
        if keys.len() == before {
            let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            return Err(FileError::Unknown {
                name: name.to_owned(),
                known: if names.is_empty() {
                    "none yet".to_owned()
                } else {
                    names.join(", ")
                },
            });
        }
        self.store(&keys)
    }

    fn store(&self, keys: &[Key]) -> Result<(), FileError> {
        let stored = Stored {
            version: VERSION,
            keys: keys.iter().map(stored).collect(),
        };
        let json = serde_json::to_vec_pretty(&stored).expect("keys are plain JSON");
        write_atomically(&self.path, &json)
            .and_then(|()| self.give_to_the_service(&self.path))
            .map_err(|error| self.io(error))
    }

    /// One change at a time, whoever makes it.
    fn lock(&self) -> Result<File, FileError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let path = self.path.with_extension("lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let locked = builder
            .create(directory)
            .and_then(|()| options.open(&path))
            .and_then(|file| file.lock().map(|()| file));
        let file = locked.map_err(|error| self.io(error))?;
        let given = self.give_to_the_service(&path);
        given.map_err(|error| self.io(error)).map(|()| file)
    }

    /// Root makes keys for a service that runs as another user: the file must be that one's.
    fn give_to_the_service(&self, path: &Path) -> io::Result<()> {
        let directory = fs::metadata(self.path.parent().unwrap_or(Path::new(".")))?;
        if fs::metadata(path)?.uid() == directory.uid() {
            return Ok(());
        }
        std::os::unix::fs::chown(path, Some(directory.uid()), Some(directory.gid()))
    }

    fn io(&self, cause: io::Error) -> FileError {
        FileError::Io {
            path: self.path.clone(),
            cause,
        }
    }
}

fn stored(key: &Key) -> StoredKey {
    StoredKey {
        id: key.id.to_string(),
        name: key.name.clone(),
        role: key.role,
        sha256: key.hash.to_hex(),
        created: key.created_s,
        expires: key.expires_s,
        limits: key.limits,
    }
}

fn check(new: &NewKey, keys: &[Key]) -> Result<(), FileError> {
    let refuse = |why: String| Err(FileError::Refused(why));
    let name = new.name.as_str();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return refuse(format!(
            "a key's name is 1 to {NAME_BYTES_MAX} bytes without control characters"
        ));
    }
    if keys.iter().any(|key| key.name == name) {
        return refuse(format!(
            "there is a key \"{name}\" already; choose another name, or revoke it first"
        ));
    }
    if keys.len() >= KEYS_MAX {
        return refuse(format!(
            "there are {KEYS_MAX} keys, the most that are kept; revoke some"
        ));
    }
    if new.expires_s.is_some_and(|expires_s| expires_s <= now_s()) {
        return refuse("the key would have expired already; choose a later date".to_owned());
    }
    let limits = [
        ("requests per minute", new.limits.requests_per_min),
        ("concurrent requests", new.limits.concurrent_requests),
        ("tokens per minute", new.limits.tokens_per_min),
    ];
    for (name, limit) in limits {
        if limit.is_some_and(|limit| !(1..=LIMIT_MAX).contains(&limit)) {
            return refuse(format!("{name} must be 1 to {LIMIT_MAX}"));
        }
    }
    Ok(())
}

pub(super) fn now_s() -> i64 {
    clock::epoch_s(clock::now()) as i64
}
