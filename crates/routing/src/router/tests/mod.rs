//! The promises of routing, one test per rule, each named for it.

mod fleet;
mod sticky;
