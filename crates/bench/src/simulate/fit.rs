//! `lm-warden simulate fit`: the free numbers of the published machine, found again.

use super::request::RunRequest;
use super::{SimulateError, duration_s};
use crate::option::OptionError;
use sim::experiment::{Experiment, Level};
use std::io::Write;

/// Arguments of `simulate fit`.
#[derive(Debug, Clone, Copy)]
pub struct FitRequest {
    /// Rounds of the search, from 1 up.
    pub rounds: u32,
    /// Seeds that each candidate is simulated with, from 1 up.
    pub seeds: u32,
}

/// Fits the profile to the published arms at 4, 8 and 16 sessions and prints its numbers.
pub fn fit(
    request: &FitRequest,
    out: &mut impl Write,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), SimulateError> {
    for (option, value) in [("--rounds", request.rounds), ("--seeds", request.seeds)] {
        if !(1..=1000).contains(&value) {
            let mend = "give a number from 1 to 1000";
            return Err(OptionError::new(option, value.to_string(), mend).into());
        }
    }
    let published = RunRequest {
        workload: "published".to_owned(),
        ..RunRequest::default()
    };
    let base = Experiment {
        levels: [4, 8, 16].map(Level::closed).to_vec(),
        window_s: duration_s("--stage", "3m")?,
        ..published.experiment()?
    };
    let found = sim::experiment::fit(&base, request.rounds, request.seeds, &mut |done| {
        let (round, rounds, objective) = (done.round, request.rounds, done.best.objective);
        progress(&format!(
            "round {round} of {rounds}: {objective:.3} tolerances"
        ));
    })?;
    for (name, value) in &found.numbers {
        writeln!(out, "{name} = {value:.3}")?;
    }
    writeln!(
        out,
        "worst promised cell and mean loss, in tolerances: {:.3}",
        found.objective
    )?;
    Ok(())
}
