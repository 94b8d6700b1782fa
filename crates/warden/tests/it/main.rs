//! Tests of the warden over sockets.
// Helpers of tests may unwrap as tests do, and a future that holds a whole warden may be large.
#![allow(clippy::unwrap_used, clippy::large_futures)]

mod faults;
mod fleet;
mod gateway;
mod operators;
mod support;

/// Counts what is allocated, for the tests that ask (`faults::bytes`).
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;
