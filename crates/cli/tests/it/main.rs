//! Tests of the binary as a user runs it.
// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod bench;
mod clients;
mod configuration;
mod crate_graph;
mod engine_command;
mod faults;
mod keys;
#[cfg(target_os = "linux")]
mod killed;
mod replay;
mod restart;
mod salt;
mod serve;
mod service;
#[cfg(target_os = "linux")]
mod strangers;
#[cfg(target_os = "linux")]
mod supervision;
mod support;
