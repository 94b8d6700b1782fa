//! The directory for what outlives a restart: locked for one process, with the secret seed of the
//! hashes of strangers' ids.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use routing::Seed;

use super::atomic::sync_directory;

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
    #[error("the data directory cannot be used: {}: {cause}; let lm-warden write there, or choose another with server.data_dir", path.display())]
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
    /// The seed is not 16 bytes.
    #[error("{} is damaged (it must hold 16 bytes); remove it to begin anew, which forgets where conversations live", path.display())]
    Seed {
        /// The file.
        path: PathBuf,
    },
}

impl DataDir {
    /// Opens, and where needed makes, the directory.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |cause| DataDirError::Io { path, cause }
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(io(path))?;
        let lock_path = path.join("lock");
        let lock = private().open(&lock_path).map_err(io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DataDirError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io(&lock_path)(error)),
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

    /// A file or directory in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn seed(path: &Path) -> Result<Seed, DataDirError> {
    let io = |cause| DataDirError::Io {
        path: path.to_owned(),
        cause,
    };
    match fs::read(path) {
        Ok(bytes) => match bytes.try_into() {
            Ok(bytes) => return Ok(Seed(bytes)),
            Err(_) => {
                return Err(DataDirError::Seed {
                    path: path.to_owned(),
                });
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io(io::Error::other(error)))?;
    // Whole or not at all: a half-written seed would not be one.
    let beside = path.with_extension("new");
    let mut file = private().truncate(true).open(&beside).map_err(io)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| sync_directory(path))
        .map_err(io)?;
    Ok(Seed(bytes))
}

/// For a file that only this user may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options
}
