//! Measured figures beside what they may be.

use std::process::ExitCode;

/// Collects figures and prints them as they come.
#[derive(Default)]
pub(crate) struct Verdict {
    missed: usize,
}

/// Prints a figure without a bound.
pub(crate) fn tell(what: &str, figure: &str) {
    println!("{what:<58} {figure:>12}");
}

impl Verdict {
    /// A figure that must not exceed its bound.
    pub(crate) fn at_most(&mut self, what: &str, figure: f64, max: f64) {
        let good = figure <= max;
        self.missed += usize::from(!good);
        let word = if good { "reached" } else { "MISSED" };
        let bound = if max < f64::MAX {
            format!("at most {max}")
        } else {
            "at any time".to_owned()
        };
        println!("{what:<58} {figure:>12.2}  {word} ({bound})");
    }

    /// Two figures that must be the same.
    pub(crate) fn same(&mut self, what: &str, one: u64, other: u64) {
        let good = one == other;
        self.missed += usize::from(!good);
        let word = if good { "reached" } else { "MISSED" };
        println!("{what:<58} {one:>12}  {word} (equal to {other})");
    }

    /// Failure where a bound was missed.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.missed == 0 {
            println!("every bound was reached");
            return ExitCode::SUCCESS;
        }
        println!("{} bounds were missed", self.missed);
        ExitCode::FAILURE
    }
}
