//! What holds for every parser of outside bytes, whatever the bytes.
//!
//! A target is a function of bytes that panics where a law is broken. The same functions run in
//! three ways: over the kept inputs (`corpus/`) and some of their mutants in every `cargo test`;
//! under libFuzzer, guided by coverage, with `make fuzz`; and over one file from the command line,
//! to replay a finding. Each law is stated in its target; what a parser *means* is tested beside it.
//!
//! libFuzzer instead of tools that need nightly or their own runner: the compiler's coverage pass is
//! reachable on stable (`scripts/fuzz`), and the library is one C++ archive that only that build
//! links.

mod mutant;
mod targets;

use std::{fs, io, path::PathBuf};

pub use mutant::Mutants;
pub use targets::{TARGETS, Target};

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The kept inputs of a target, with their files, in the order of their names.
pub fn corpus(target: &Target) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name);
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        inputs.push((path.clone(), fs::read(path)?));
    }
    inputs.sort();
    Ok(inputs)
}
