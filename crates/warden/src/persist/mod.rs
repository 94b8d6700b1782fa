//! What outlives a restart, on disk: the seed of all hashes, and where conversations live. (The
//! engines' caches outlive the warden, so the homes must too.)
//!
//! `data_dir` makes sure that one process at a time works in the directory. `journal` is the file
//! of one model's homes, `record` its lines, `recover` what a damaged one still tells, `homes` the
//! thread that writes them all. `marks` keeps which processes the attached engines were.

mod atomic;
mod data_dir;
mod homes;
mod journal;
mod marks;
mod record;
mod recover;
#[cfg(test)]
mod tests;

pub(crate) use atomic::write_atomically;
pub use data_dir::{DataDir, DataDirError};
pub use homes::HomesWriter;
pub(crate) use homes::file_name;
pub use marks::Marks;
pub(crate) use recover::check as check_journal;
