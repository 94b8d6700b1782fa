//! Replays of recorded shapes: real sessions without their text.
//!
//! A row is a request; `in`, `out`, `cached_ideal` and `think_time` say all that a cache can see. A
//! pause that was not recorded (an empty field) is none.
//! What different sessions share is not recorded, so they share nothing here.

use super::{Session, Turn};
use crate::random::Random;

/// Shapes of recorded sessions.
#[derive(Debug, Clone)]
pub struct Recorded {
    traces: Vec<Vec<Turn>>,
}

/// What is wrong with a file of shapes: the user's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// A column that is needed is not there.
    #[error("line 1: no column \"{column}\"")]
    NoColumn {
        /// Its name.
        column: &'static str,
    },
    /// A field that cannot be read.
    #[error("line {line}, column \"{column}\": \"{value}\" is not {expected}")]
    Field {
        /// Line of the file, from 1.
        line: usize,
        /// The column's name.
        column: &'static str,
        /// What stands there; empty where the line is too short.
        value: String,
        /// What should.
        expected: &'static str,
    },
    /// No session that could be replayed.
    #[error(
        "no session: the file is empty, or every first prompt is longer than the cap of {context_tokens_max} tokens"
    )]
    Empty {
        /// The cap.
        context_tokens_max: u32,
    },
}

const COLUMNS: [&str; 5] = ["trace", "in", "out", "cached_ideal", "think_time"];

impl Recorded {
    /// Reads a file of shapes (CSV with a heading line; at least the columns `trace`, `in`, `out`,
    /// `cached_ideal` and `think_time`). Pauses are multiplied by `time_scale`; a session ends before
    /// its first prompt or context over `context_tokens_max`.
    pub fn from_csv(
        text: &str,
        time_scale: f64,
        context_tokens_max: u32,
    ) -> Result<Self, RecordedError> {
        let mut lines = text.lines();
        let heading: Vec<&str> = lines
            .next()
            .unwrap_or("")
            .split(',')
            .map(str::trim)
            .collect();
        let mut at = [0; COLUMNS.len()];
        for (index, column) in COLUMNS.iter().enumerate() {
            at[index] = heading
                .iter()
                .position(|name| name == column)
                .ok_or(RecordedError::NoColumn { column })?;
        }
        let mut traces: Vec<Vec<Turn>> = Vec::new();
        let mut current = "";
        let mut is_over = false;
        for (index, line) in lines
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let row = Row {
                line: index + 2,
                fields: &fields,
                at: &at,
            };
            let name = row.text(0);
            if name != current || traces.is_empty() {
                current = name;
                is_over = false;
                traces.push(Vec::new());
            }
            let turn = row.turn(time_scale)?;
            is_over |= u64::from(row.count(1)?) + u64::from(turn.output_tokens)
                > u64::from(context_tokens_max);
            if !is_over {
                traces.last_mut().expect("one was pushed").push(turn);
            }
        }
        traces.retain(|turns| !turns.is_empty());
        if traces.is_empty() {
            return Err(RecordedError::Empty { context_tokens_max });
        }
        Ok(Self { traces })
    }

    /// The same shapes with no pause longer than so many seconds.
    #[must_use]
    pub fn with_pauses_of_at_most(mut self, seconds: f64) -> Self {
        for turn in self.traces.iter_mut().flatten() {
            turn.think_us = turn.think_us.min((seconds * 1e6) as u64);
        }
        self
    }

    /// How many sessions were recorded.
    pub fn sessions(&self) -> usize {
        self.traces.len()
    }

    pub(super) fn session(&self, random: &mut Random) -> Session {
        let id = random.bits();
        let turns = self.traces[random.below(self.traces.len() as u64) as usize].clone();
        Session {
            owner: 0,
            id,
            shared_tokens: 0,
            turns,
        }
    }
}

struct Row<'a, 'text> {
    line: usize,
    fields: &'a [&'text str],
    at: &'a [usize; COLUMNS.len()],
}

impl<'text> Row<'_, 'text> {
    fn text(&self, column: usize) -> &'text str {
        self.fields.get(self.at[column]).copied().unwrap_or("")
    }

    fn count(&self, column: usize) -> Result<u32, RecordedError> {
        let value = self.text(column);
        value
            .parse()
            .map_err(|_| self.error(column, "a whole number"))
    }

    fn turn(&self, time_scale: f64) -> Result<Turn, RecordedError> {
        let prompt = self.count(1)?;
        let kept_tokens = self.count(3)?.min(prompt.saturating_sub(1));
        let think_s = match self.text(4) {
            // The recording did not see when the answer before it ended.
            "" => 0.0,
            text => text
                .parse()
                .ok()
                .filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
                .ok_or_else(|| self.error(4, "a number of seconds"))?,
        };
        if prompt == 0 {
            return Err(self.error(1, "a prompt of at least one token"));
        }
        Ok(Turn {
            kept_tokens,
            new_tokens: prompt - kept_tokens,
            output_tokens: self.count(2)?.max(1),
            stops: true,
            think_us: (think_s * time_scale * 1e6) as u64,
        })
    }

    fn error(&self, column: usize, expected: &'static str) -> RecordedError {
        RecordedError::Field {
            line: self.line,
            column: COLUMNS[column],
            value: self.text(column).to_owned(),
            expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "trace,req,t,in,out,cached_ideal,think_time,api_time\n";

    fn read(rows: &str) -> Result<Recorded, RecordedError> {
        Recorded::from_csv(&format!("{HEADING}{rows}"), 0.5, 1000)
    }

    #[test]
    fn rows_become_turns_and_the_cap_ends_a_session() {
        let recorded = read("a,0,0.0,100,7,0,0.0,1\na,1,5,300,9,96,4.0,1\na,2,9,999,9,96,4.0,1\na,3,9,10,9,0,4,1\nb,0,0,50,0,0,0,1\n").unwrap();
        assert_eq!(
            recorded.traces.iter().map(Vec::len).collect::<Vec<_>>(),
            [2, 1]
        );
        let turn = recorded.traces[0][1];
        assert_eq!(
            (turn.kept_tokens, turn.new_tokens, turn.think_us),
            (96, 204, 2_000_000)
        );
        assert_eq!(recorded.traces[1][0].output_tokens, 1);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_line_and_column() {
        let message = |rows| read(rows).unwrap_err().to_string();
        assert_eq!(
            message("a,0,0.0,100,7,0,0.0,1\na,1,0.0,1x0,7,0,0.0,1\n"),
            "line 3, column \"in\": \"1x0\" is not a whole number"
        );
        assert_eq!(
            message("a,0,0.0,100,7,0,-1,1\n"),
            "line 2, column \"think_time\": \"-1\" is not a number of seconds"
        );
        assert!(message("a,0\n").starts_with("line 2, column \"in\": \"\""));
        assert!(message("").starts_with("no session"));
        let error = Recorded::from_csv("trace,in\n", 1.0, 10).unwrap_err();
        assert_eq!(error.to_string(), "line 1: no column \"out\"");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
    fn the_recorded_sessions_of_claude_code_are_read_whole() {
        let shared = std::env::var_os("LM_WARDEN_SHARED").map_or_else(
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
            std::path::PathBuf::from,
        );
        let path = shared.join("traces/claude_code_shapes.csv");
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("SKIPPED: {} is not there", path.display());
            return;
        };
        let recorded = Recorded::from_csv(&text, 1.0, u32::MAX).unwrap();
        assert_eq!(recorded.sessions(), 710);
        let turns: usize = recorded.traces.iter().map(Vec::len).sum();
        assert_eq!(turns, 48_658);
    }
}
