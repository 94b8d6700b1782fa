//! An engine's log: a file that the engine writes to by itself, so that it can go on printing when
//! the warden is gone, and a tail that reads along.
//!
//! The file is put aside at every start; while the engine runs it is copied aside and cut when it
//! has grown too large, since a running process cannot be told to open another.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Files kept beside the current one.
const KEPT: usize = 3;
/// Size at which the current file is put aside.
const BYTES_MAX: u64 = 64 << 20;
/// Most that is read at once.
const READ_BYTES_MAX: u64 = 1 << 20;
/// A line is cut here.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Puts the old file aside and makes a new one for an engine to write to.
pub(super) fn begin(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|old| old.len() > 0) {
        shift(path);
        fs::rename(path, numbered(path, 1))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

/// Makes room for `.1`; what cannot be moved is lost at worst, and the log goes on.
fn shift(path: &Path) {
    for number in (1..KEPT).rev() {
        let _ = fs::rename(numbered(path, number), numbered(path, number + 1));
    }
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Reads along.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    position: u64,
    bytes_max: u64,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
}

impl Tail {
    /// From the beginning of the file.
    pub(super) fn from_start(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            position: 0,
            bytes_max: BYTES_MAX,
            partial: Vec::new(),
        }
    }

    /// From so many bytes before its end.
    pub(super) fn from_end(path: &Path, bytes: u64) -> Self {
        let len = fs::metadata(path).map_or(0, |file| file.len());
        Self {
            position: len.saturating_sub(bytes),
            ..Self::from_start(path)
        }
    }

    /// The lines that were completed since the last look. Blocks on the disk.
    pub(super) fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut file = File::open(&self.path)?;
        let len = file.metadata()?.len();
        if len < self.position {
            self.position = 0; // it was cut
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = std::mem::take(&mut self.partial);
        self.position += file.take(READ_BYTES_MAX).read_to_end(&mut bytes)? as u64;
        let mut lines = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            lines.push(text(&rest[..end]));
            rest = &rest[end + 1..];
        }
        if rest.len() >= LINE_BYTES_MAX {
            lines.push(text(rest));
        } else {
            self.partial = rest.to_vec();
        }
        if self.position >= self.bytes_max {
            self.put_aside()?;
        }
        Ok(lines)
    }

    /// What is printed between the copy and the cut is lost from the file; that is the price of a
    /// log that no pipe carries.
    fn put_aside(&mut self) -> io::Result<()> {
        shift(&self.path);
        fs::copy(&self.path, numbered(&self.path, 1))?;
        OpenOptions::new()
            .write(true)
            .open(&self.path)?
            .set_len(0)?;
        self.position = 0;
        Ok(())
    }
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // A progress bar prints over itself; its last state is what a terminal would show.
    let line = line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line);
    let line = &line[..line.len().min(LINE_BYTES_MAX)];
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_come_once_they_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = begin(&path).unwrap();
        let mut tail = Tail::from_start(&path);
        log.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.lines().unwrap(), ["one"]);
        log.write_all(b"o\r\n 1%\r 99%\nthree").unwrap();
        assert_eq!(tail.lines().unwrap(), ["two", " 99%"]);
        assert_eq!(Tail::from_end(&path, 9).lines().unwrap(), ["99%"]);
        assert!(tail.lines().unwrap().is_empty());
    }

    #[test]
    fn a_start_puts_the_last_log_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for n in 0..6 {
            begin(&path)
                .unwrap()
                .write_all(format!("{n}\n").as_bytes())
                .unwrap();
        }
        let kept: Vec<String> = (1..=KEPT)
            .map(|n| fs::read_to_string(numbered(&path, n)).unwrap())
            .collect();
        assert_eq!(kept, ["4\n", "3\n", "2\n"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), KEPT + 1);
    }

    #[test]
    fn a_log_that_grew_too_large_is_cut_while_its_writer_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = begin(&path).unwrap();
        let mut tail = Tail {
            bytes_max: 8,
            ..Tail::from_start(&path)
        };
        log.write_all(b"a long line\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["a long line"]);
        log.write_all(b"next\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["next"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "next\n");
        assert_eq!(
            fs::read_to_string(numbered(&path, 1)).unwrap(),
            "a long line\n"
        );
    }
}
