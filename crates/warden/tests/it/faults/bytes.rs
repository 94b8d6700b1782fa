//! No memory is left, to the byte: the third run of a seed leaves exactly what the second one left.
//! The first takes what is made once for all.
//!
//! Every allocation of the process is counted, so nothing else may run in it.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

use super::{run, seeds};

/// The test below by the name that the harness gives it.
const ALONE: &str = "faults::bytes::alone";

fn seeds_here() -> std::ops::Range<u64> {
    seeds(0..40)
}

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
    for seed in seeds_here() {
        run(seed);
        run(seed);
        threads_end();
        let before = INSTRUMENTED_SYSTEM.stats();
        let seen = run(seed).len();
        threads_end();
        let after = INSTRUMENTED_SYSTEM.stats();
        let (bytes, pieces) = (
            live_bytes(after) - live_bytes(before),
            pieces(after) - pieces(before),
        );
        assert!(
            (bytes, pieces) == (0, 0),
            "seed {seed} leaves {bytes} bytes in {pieces} pieces after {seen} requests; replay: LM_WARDEN_SEED={seed} \
             cargo test -p lm-warden-warden --test it faults::bytes"
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

fn live_bytes(stats: Stats) -> i64 {
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

fn pieces(stats: Stats) -> i64 {
    stats.allocations as i64 - stats.deallocations as i64
}
