//! Integration tests of the API's types.
#![allow(clippy::unwrap_used)]

mod openapi;
