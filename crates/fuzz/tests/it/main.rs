//! The laws over the kept inputs and a fixed series of their mutants.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};

use fuzz::{Mutants, TARGETS, Target};

/// Mutants of each target.
const MUTANTS: usize = 2_000;

fn check(target: &Target, what: &str, bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.bin", target.name));
        std::fs::write(&path, bytes).expect("the folder of tests can be written");
        panic!(
            "{what} breaks a law of {name}; replay: cargo run -p lm-warden-fuzz -- {name} {}",
            path.display(),
            name = target.name,
        );
    }
}

#[test]
fn kept_inputs_and_their_mutants_break_no_law() {
    for target in &TARGETS {
        let kept = fuzz::corpus(target).unwrap();
        for (path, bytes) in &kept {
            check(target, &path.display().to_string(), bytes);
        }
        let kept: Vec<Vec<u8>> = kept.into_iter().map(|(_, bytes)| bytes).collect();
        for (number, bytes) in Mutants::of(&kept, 1).take(MUTANTS).enumerate() {
            check(target, &format!("mutant {number}"), &bytes);
        }
    }
}

/// Without this a mutator that returns its input would pass unseen.
#[test]
fn mutants_differ_from_their_parents_and_from_each_other() {
    let parents = [b"one".to_vec(), b"another".to_vec()];
    let mutants: std::collections::HashSet<_> = Mutants::of(&parents, 1).take(500).collect();
    assert!(mutants.len() > 300, "{}", mutants.len());
}
