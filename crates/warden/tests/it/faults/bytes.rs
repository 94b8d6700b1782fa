//! No memory is left, to the byte: the third run of a seed leaves exactly what the second one left.
//! The first takes what is made once for all.
//!
//! Every allocation of the process is counted, so nothing else may run in it.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use stats_alloc::INSTRUMENTED_SYSTEM;

use super::run;
use crate::support::seeds;

/// The test below by the name that the harness gives it.
const ALONE: &str = "faults::bytes::alone";

/// Of more seeds the first ones: each is run three times.
const SEEDS_MAX: u64 = 40;

#[test]
fn a_run_leaves_not_a_byte_more_than_the_last_one() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([ALONE, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let (told, why) = (output.stdout, output.stderr);
    let told = String::from_utf8_lossy(&told);
    let why = String::from_utf8_lossy(&why);
    assert!(output.status.success(), "{told}{why}");
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
#[ignore = "counts what the whole process allocates; the test above runs it in one of its own"]
fn alone() {
    for seed in seeds(0..SEEDS_MAX).take(SEEDS_MAX as usize) {
        run(seed);
        run(seed);
        threads_end();
        let before = live();
        let seen = run(seed).len();
        threads_end();
        let after = live();
        assert!(
            before == after,
            "seed {seed}: {before:?} before {seen} requests, {after:?} afterwards; replay: \
             LM_WARDEN_SEED={seed} cargo test -p lm-warden-warden --test it faults::bytes"
        );
    }
}

/// Waits for those of a run that were told to end and have not yet.
fn threads_end() {
    // The harness waits in one, and the test runs in another.
    const OWN: usize = 2;
    let deadline = Instant::now() + Duration::from_secs(20);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    while threads() > OWN {
        assert!(Instant::now() < deadline, "{} threads are left", threads());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that are allocated, and in how many pieces.
fn live() -> (usize, usize) {
    let stats = INSTRUMENTED_SYSTEM.stats();
    (
        stats.bytes_allocated - stats.bytes_deallocated,
        stats.allocations - stats.deallocations,
    )
}
