//! The stream of what changed (`GET /api/v1/events`, server-sent events). It says what to read
//! again, not the figures themselves: however fast things change, a reader gets a few events per
//! second, and one that was cut off needs no history.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// First event of each connection (`event: hello`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hello {
    /// The warden's version.
    pub version: String,
    /// When this process started, in epoch seconds: another value means another process.
    pub started: f64,
}

/// What changed since the event before (`event: changed`), by names of models.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// Models whose `/models/{name}` reads differently.
    pub models: Vec<String>,
    /// Models with requests that began, moved on or ended (`/requests`, `/stats`,
    /// `/conversations`).
    pub requests: Vec<String>,
}
