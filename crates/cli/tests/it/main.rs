//! Tests of the binary as a user runs it.

mod crate_graph;
mod engine_command;
mod replay;
mod service;
