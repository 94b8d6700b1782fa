//! Tests of the scan: what it finds, which prompts it holds for equal, and that nothing breaks it.

mod differential;
mod extract;
mod prompt;
mod resume;

use super::{BodyError, BodyFacts, Digests};
use crate::Dialect;

/// The scan with all digests.
fn scan(dialect: Dialect, body: &[u8]) -> Result<BodyFacts<'_>, BodyError> {
    super::scan(dialect, Digests::Prompt, body)
}

/// Facts of a body that must be good.
fn facts(dialect: Dialect, body: &str) -> BodyFacts<'_> {
    scan(dialect, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
}
