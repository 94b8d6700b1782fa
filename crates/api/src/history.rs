//! How the history on disk fares.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The history: what `/stats` and `/requests` read. Its troubles never touch a client's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryState {
    /// Whether the last attempt to write succeeded.
    pub writable: bool,
    /// Since when writing fails, in epoch seconds.
    pub failing_since: Option<f64>,
    /// What failed and what to do about it, in words.
    pub failure: Option<String>,
    /// Requests and marks that were lost since this process started, because neither the file nor
    /// the memory set aside for it took them.
    pub dropped: u64,
    /// When the first of them was lost, in epoch seconds.
    pub dropped_since: Option<f64>,
    /// Handed over, and not written yet.
    pub waiting: u64,
    /// Requests written since this process started.
    pub written: u64,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// When the oldest request in it ended, in epoch seconds; null while it is empty.
    pub oldest: Option<f64>,
    /// Name of the damaged file that was put aside last, in the data directory.
    pub set_aside: Option<String>,
    /// When that was, in epoch seconds.
    pub set_aside_at: Option<f64>,
    /// Files put aside since this process started.
    pub set_aside_files: u64,
}
