//! The binary as a user runs it, and what is needed to talk to it.
//!
//! Waits are bounded far above what anything takes, so that a slow machine passes and a hang fails.

mod engine;
mod http;
mod process;
#[path = "../../../../warden/tests/it/support/seeds.rs"]
mod seeds;

use std::{
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

pub(crate) use engine::EngineProcess;
pub(crate) use http::{Url, messages};
pub(crate) use process::{CONFIG, REFUSED_BY_THE_ENGINE, Warden, homes_bytes};
pub(crate) use seeds::seeds;

/// Bound of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a value is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The binary, with nothing of this machine's settings in its way.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lm-warden"));
    command
        .env_remove("LM_WARDEN_URL")
        .env_remove("LM_WARDEN_LOG")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// Runs a command that ends by itself.
pub(crate) fn run(arguments: &[&str]) -> Output {
    binary().args(arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The `n`th number of a seed (splitmix64), below `end`.
pub(crate) fn drawn(seed: u64, n: u64, end: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % end
}
