//! Errors of the operators' API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every reply that is no success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// A word for programs, such as `not_found`.
    pub code: String,
    /// What happened, why, and what to do next.
    pub message: String,
}
