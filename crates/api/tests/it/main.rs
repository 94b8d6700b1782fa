//! Integration tests of the API's types.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "the crate is pure, but its document lies in a file"
)]

mod openapi;
