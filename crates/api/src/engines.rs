//! What engines print, and what reading the configuration again has changed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The last lines that a model's engines printed, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    /// The lines.
    pub lines: Vec<LogLine>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Counts up without a gap; `after` takes it.
    pub number: u64,
    /// The server that printed it, counted from 0.
    pub server: u16,
    /// The line.
    pub text: String,
}

/// What reading the configuration again has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Models whose routing changed.
    pub routing: Vec<String>,
    /// Models whose engines are restarted, because their settings changed.
    pub restarted: Vec<String>,
}
