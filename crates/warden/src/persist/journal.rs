//! The file of one model's homes: changes are appended, and now and then the file is written anew
//! with only the last one of each conversation.
//!
//! A torn tail, as a crash or a power cut leaves it, is cut off at the next start; damage before
//! that costs the records it touches (`recover`), and the file is then written anew. One in which
//! no record is found is set aside. After a write
//! that failed (a full disk) the file no longer tells the truth, so nothing is appended until the
//! whole table has been written anew: the caller then gives all homes instead of the changes.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::{
    atomic::write_atomically,
    record::Record,
    recover::{MAGIC, Recovered},
};

/// So many records more than conversations before the file is written anew.
const SURPLUS_RECORDS: usize = 10_000;

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Records in the file.
    records: usize,
    /// Conversations among them, when it was last written anew.
    live: usize,
    /// Whether a write failed since.
    broken: bool,
}

impl Journal {
    /// Opens or makes the file; gives back the last record of each conversation, oldest activity
    /// first.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<Record>)> {
        let mut file = open_or_make(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let found = Recovered::of(&bytes);
        // A start that was cut short leaves less than the first bytes, and nothing to keep.
        let ours = bytes.starts_with(MAGIC) || found.records > 0 || MAGIC.starts_with(&bytes);
        if !ours {
            set_aside(path)?;
            file = open_or_make(path)?;
        }
        let mut journal = Self {
            path: path.to_owned(),
            file,
            records: found.records,
            live: found.len(),
            broken: false,
        };
        if found.damaged_bytes > 0 {
            tracing::warn!(
                path = %path.display(),
                bytes = found.damaged_bytes,
                homes = found.len(),
                "the journal is damaged; the homes it still tells are kept, and it is written anew"
            );
            // On a full disk it stays as it is, and the next write tries again.
            if let Err(error) = journal.replace(&found) {
                tracing::error!(path = %path.display(), %error, "the journal could not be written anew");
            }
        } else if !bytes.starts_with(MAGIC) {
            journal.begin()?;
        } else {
            journal.cut_tail(bytes.len(), found.whole_bytes)?;
        }
        Ok((journal, found.homes()))
    }

    /// Leaves only the first bytes in the file.
    fn begin(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(MAGIC)?;
        self.file.sync_all()
    }

    /// Cuts off what stands behind the last whole record, and goes there.
    fn cut_tail(&mut self, file_bytes: usize, whole_bytes: usize) -> io::Result<()> {
        if whole_bytes < file_bytes {
            tracing::warn!(
                path = %self.path.display(),
                bytes = file_bytes - whole_bytes,
                "the end of the journal is torn, as a crash leaves it; cut off"
            );
            self.file.set_len(whole_bytes as u64)?;
        }
        self.file.seek(SeekFrom::Start(whole_bytes as u64))?;
        Ok(())
    }

    /// Whether the next write must be [`Self::rewrite`].
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Appends changes and flushes them to the disk.
    pub(super) fn append(&mut self, changes: &[Record]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in changes {
            record.write(&mut bytes);
        }
        let written = self
            .file
            .write_all(&bytes)
            .and_then(|()| self.file.sync_data());
        if written.is_err() {
            self.broken = true;
            return written;
        }
        self.records += changes.len();
        if self.records > 2 * self.live + SURPLUS_RECORDS {
            self.compact()?;
        }
        Ok(())
    }

    /// Writes the file anew with exactly these homes.
    pub(super) fn rewrite(&mut self, homes: &[Record]) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        for record in homes {
            record.write(&mut bytes);
        }
        self.replace_with(&bytes, homes.len())
    }

    /// From the file itself, so that the router is not asked for its whole table.
    fn compact(&mut self) -> io::Result<()> {
        let bytes = fs::read(&self.path)?;
        self.replace(&Recovered::of(&bytes))
    }

    fn replace(&mut self, found: &Recovered<'_>) -> io::Result<()> {
        self.replace_with(&found.anew(), found.len())
    }

    fn replace_with(&mut self, bytes: &[u8], homes: usize) -> io::Result<()> {
        let written = write_atomically(&self.path, bytes).and_then(|()| {
            self.file = OpenOptions::new().append(true).open(&self.path)?;
            Ok(())
        });
        self.broken = written.is_err();
        if written.is_ok() {
            self.records = homes;
            self.live = homes;
        }
        written
    }
}

fn open_or_make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Homes make turns fast, and nothing depends on them: a file that is none of ours, or too damaged
/// to tell, is kept for whoever misses it, and the service begins anew.
fn set_aside(path: &Path) -> io::Result<()> {
    let aside = path.with_extension("damaged");
    fs::rename(path, &aside)?;
    tracing::warn!(
        path = %aside.display(),
        "this is no journal of homes; set aside, and conversations are placed anew"
    );
    Ok(())
}

#[cfg(test)]
impl Journal {
    /// As a full disk would: the file takes nothing more.
    pub(super) fn fail_next_write(&mut self) {
        self.file = File::open(&self.path).expect("the journal exists");
    }
}
