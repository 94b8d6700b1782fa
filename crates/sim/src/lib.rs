//! A model of a fleet of vLLM replicas: the scheduler and block pool exactly as vLLM's, step times
//! from a profile, and (around them) vLLM's own balancer and agent sessions in virtual time.
//!
//! Pure: reads no clock and does no I/O. `engine` runs the scheduler in real time behind HTTP.

#![deny(clippy::iter_over_hash_type)]

pub mod check_trace;
pub mod experiment;
pub mod fleet;
pub mod policy;
pub mod profile;
pub mod random;
pub mod run;
pub mod scheduler;
pub mod workload;
