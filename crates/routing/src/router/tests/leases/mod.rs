//! The promises of leases, one test per rule.

mod around;
mod contention;
mod failure;
mod fuzz;
mod hall;
mod host_memory;
mod owners;
mod queue;
mod waiting;
