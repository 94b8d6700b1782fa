//! `lm-warden simulate check-trace`: the scheduler's model against recordings of vLLM's.

use super::SimulateError;
use sim::check_trace::{Difference, Report, check};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Replays every recording, prints where the first difference of each lies and the sums of all, and
/// tells whether there was none.
pub fn check_trace(files: &[PathBuf], out: &mut impl Write) -> Result<bool, SimulateError> {
    let mut total = Report::default();
    let mut differing_traces = 0;
    for path in files {
        let report = replay(path)?;
        total.steps += report.steps;
        total.differing_steps += report.differing_steps;
        if let Some(first) = &report.first {
            differing_traces += 1;
            let (name, differing) = (path.display(), report.differing_steps);
            writeln!(out, "{name}: {differing} of {} steps differ", report.steps)?;
            print_difference(first, out)?;
        }
    }
    writeln!(out, "traces           {}", files.len())?;
    writeln!(out, "differing traces {differing_traces}")?;
    writeln!(out, "steps            {}", total.steps)?;
    writeln!(out, "differing steps  {}", total.differing_steps)?;
    Ok(differing_traces == 0)
}

fn replay(path: &Path) -> Result<Report, SimulateError> {
    let json = std::fs::read_to_string(path).map_err(|cause| SimulateError::Read {
        path: path.to_owned(),
        cause,
    })?;
    check(&json).map_err(|cause| SimulateError::Recording {
        path: path.to_owned(),
        cause,
    })
}

fn print_difference(difference: &Difference, out: &mut impl Write) -> std::io::Result<()> {
    match difference.step {
        Some(step) => writeln!(out, "  first at step {step}:")?,
        None => writeln!(out, "  after the last step:")?,
    }
    for field in &difference.fields {
        writeln!(out, "    {}: recorded {}", field.field, field.recorded)?;
        writeln!(
            out,
            "    {:>1$}  replayed {2}",
            "",
            field.field.len(),
            field.replayed
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = r#"{"num_blocks": 4, "block_size": 16, "max_num_batched_tokens": 32,
        "max_num_seqs": 4, "max_model_len": 64, "steps": [],
        "cached_tokens_at_admission": {}, "final_free_order": [1, 2, 3]}"#;

    fn run(json: &str) -> (Result<bool, SimulateError>, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        std::fs::write(&path, json).unwrap();
        let mut out = Vec::new();
        let result = check_trace(&[path], &mut out);
        (result, String::from_utf8(out).unwrap())
    }

    #[test]
    fn equal_recordings_are_counted() {
        let (result, out) = run(EMPTY);
        assert!(result.unwrap());
        assert!(out.contains("traces           1\n"), "{out}");
    }

    #[test]
    fn a_difference_is_named_by_field() {
        let (result, out) = run(&EMPTY.replace("[1, 2, 3]", "[1, 3, 2]"));
        assert!(!result.unwrap());
        assert!(
            out.contains("final_free_order: recorded [1, 3, 2]"),
            "{out}"
        );
        assert!(out.contains("differing traces 1"), "{out}");
    }

    #[test]
    fn files_that_are_no_recordings_are_the_users_fault() {
        assert!(
            run("{}")
                .0
                .unwrap_err()
                .to_string()
                .contains("missing field")
        );
        let missing = check_trace(&[PathBuf::from("/nonexistent.json")], &mut Vec::new());
        assert!(
            missing
                .unwrap_err()
                .to_string()
                .starts_with("cannot read /nonexistent.json")
        );
    }
}
