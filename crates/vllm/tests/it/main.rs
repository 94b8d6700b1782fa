//! Integration tests of the `vllm` crate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod recorded;
mod replay;
