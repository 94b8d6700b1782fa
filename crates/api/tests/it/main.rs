//! Integration tests of the API's types.
// Tests read and write the committed document; the crate itself may not.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod openapi;
