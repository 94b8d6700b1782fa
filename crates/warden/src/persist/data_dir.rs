//! The directory for what outlives a restart: locked for one process, with the secret seed of the
//! hashes of strangers' ids.
//!
//! Another seed makes every conversation a new one, so it lies there twice, the copy with a
//! checksum. Where neither can be believed the service begins anew: homes make turns fast, and are
//! no reason not to serve.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use routing::Seed;
use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_64;

use super::atomic::sync_directory;
use crate::keys::hex;

/// An open data directory. It is locked until this is dropped, or the process is gone.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    seed: Seed,
    /// Holds the lock.
    _lock: File,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The file system's word.
    #[error("the data directory cannot be used: {}: {cause}; make room and let lm-warden write there, or choose another with server.data_dir", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Another process works there.
    #[error("another lm-warden uses the data directory {}; end it, or choose another directory with server.data_dir or --data-dir", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
}

impl DataDir {
    /// Opens, and where needed makes, the directory.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(io_error(path))?;
        let lock_path = path.join("lock");
        let lock = private().open(&lock_path).map_err(io_error(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DataDirError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io_error(&lock_path)(error)),
        }
        Ok(Self {
            seed: seed(&path.join("seed"))?,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Secret seed of the hashes, the same for as long as the directory exists.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// A name that sets this directory's warden apart from others, in 8 hex digits. Not secret: the
    /// seed cannot be told from it.
    pub fn instance(&self) -> String {
        let digest = Sha256::digest([&b"instance"[..], &self.seed.0].concat());
        hex(&digest[..4])
    }

    /// A file or directory in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The seed of this directory; made where there is none.
fn seed(path: &Path) -> Result<Seed, DataDirError> {
    let copy_path = path.with_extension("copy");
    let (bytes, copy) = (read(path)?, read(&copy_path)?);
    let told = bytes.as_deref().and_then(|bytes| bytes.try_into().ok());
    let kept = copy.as_deref().and_then(copied);
    let seed = match (kept, told) {
        (Some(kept), _) => kept,
        // A directory of a version that kept no copy, or one that was only begun.
        (None, Some(told)) => told,
        (None, None) => {
            if bytes.is_some() {
                tracing::error!(path = %path.display(), "the seed is damaged; conversations are placed anew");
            }
            let mut new = [0; 16];
            getrandom::fill(&mut new).map_err(|error| io_error(path)(io::Error::other(error)))?;
            new
        }
    };
    if told != Some(seed) {
        write(path, &seed)?;
    }
    if kept != Some(seed) {
        write(
            &copy_path,
            &[&seed[..], &XxHash3_64::oneshot(&seed).to_le_bytes()].concat(),
        )?;
    }
    Ok(Seed(seed))
}

/// The seed in the bytes of its copy, where they are as they were written.
fn copied(bytes: &[u8]) -> Option<[u8; 16]> {
    let (seed, checksum) = bytes.split_first_chunk()?;
    (checksum == XxHash3_64::oneshot(seed).to_le_bytes()).then_some(*seed)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, DataDirError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(path)(error)),
    }
}

/// Whole or not at all: a half-written seed would not be one.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DataDirError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut options = private();
    options
        .truncate(true)
        .open(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| sync_directory(path))
        .map_err(io_error(path))
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> DataDirError + use<> {
    let path = path.to_owned();
    move |cause| DataDirError::Io {
        path: path.clone(),
        cause,
    }
}

/// For a file that only this user may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options
}
