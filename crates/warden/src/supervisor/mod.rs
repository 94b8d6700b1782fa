//! Engines that the warden starts itself: their processes, from the first spawn to the last exit.
//!
//! `machine` says what to do, as a pure function. `unit` is the one owner of one vLLM server, who does
//! it; `launch` is its command, `process` its processes, `log_file` its log, `record` what the next
//! warden must know of it, `health` whether it serves, `host_memory` what it keeps beside its
//! KV cache. `reach` tells that owner; `control` is what
//! operators, requests and the
//! shutdown want of all servers of a model; `cards` lets models on demand take turns.
//!
//! Engines outlive the warden, because their cache is worth more than its uptime: they run in
//! process groups of their own, print into files, and are adopted by the next warden.

mod cards;
mod control;
mod demand;
mod health;
mod host_memory;
mod launch;
mod log_file;
pub mod machine;
mod process;
mod reach;
mod record;
mod strays;
mod unit;
mod words;

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
};

pub use control::{ControlError, Supervisor};
pub(crate) use record::check as check_record;
use routing::ReplicaIndex;

use crate::fleet::{Model, ReplicaTarget};

/// Puts the addresses of some of a model's replicas, keeping the others'.
fn put_targets(
    model: &Model,
    replicas: Range<u16>,
    target: impl Fn(ReplicaIndex) -> ReplicaTarget,
) {
    let before = model.targets();
    let all = model.replicas().map(|replica| {
        if replicas.contains(&replica.0) {
            return target(replica);
        }
        let known = before.get(usize::from(replica.0)).cloned();
        // Nobody is sent there: it is out until its server has told its port.
        known.unwrap_or(ReplicaTarget {
            url: "http://127.0.0.1:9".to_owned(),
            rank: None,
        })
    });
    model.set_targets(all.collect());
}

/// The directory of a model's logs and records.
fn directory(data_dir: &Path, model: &str) -> io::Result<PathBuf> {
    let directory = data_dir
        .join("engines")
        .join(crate::persist::file_name(model));
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&directory)?;
    Ok(directory)
}
