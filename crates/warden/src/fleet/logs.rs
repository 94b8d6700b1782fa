//! The last lines that a model's engines printed: a bounded ring, read by the page, the API and
//! `lm-warden logs`. The whole log is in the file.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Lines kept, at most.
const LINES_MAX: usize = 2000;
/// Longest line kept; the rest of it is cut off.
const LINE_BYTES_MAX: usize = 2048;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Counts up from 1 without a gap.
    pub number: u64,
    /// The server that printed it, counted from 0.
    pub server: u16,
    /// The line, without its end.
    pub text: String,
}

/// The ring.
#[derive(Debug, Default)]
pub struct Logs(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    last: u64,
}

impl Logs {
    /// A server printed a line.
    pub fn push(&self, server: u16, text: &str) {
        let fits = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=text.len().min(LINE_BYTES_MAX)).rev().find(fits);
        let mut ring = self.ring();
        ring.last += 1;
        if ring.lines.len() == LINES_MAX {
            ring.lines.pop_front();
        }
        let number = ring.last;
        ring.lines.push_back(LogLine {
            number,
            server,
            text: text[..end.unwrap_or(0)].to_owned(),
        });
    }

    /// The lines after this number, at most so many, the youngest of them.
    pub fn after(&self, number: u64, lines_max: usize) -> Vec<LogLine> {
        let ring = self.ring();
        let newer = ring.lines.iter().rev();
        let mut lines: Vec<LogLine> = newer
            .take_while(|line| line.number > number)
            .take(lines_max)
            .cloned()
            .collect();
        lines.reverse();
        lines
    }

    /// What a server printed last, at most so many lines.
    pub fn last_of(&self, server: u16, lines_max: usize) -> Vec<String> {
        let ring = self.ring();
        let own = ring.lines.iter().rev().filter(|line| line.server == server);
        let mut lines: Vec<String> = own.take(lines_max).map(|line| line.text.clone()).collect();
        lines.reverse();
        lines
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_youngest_lines_and_cuts_long_ones() {
        let logs = Logs::default();
        for n in 0..=LINES_MAX {
            logs.push((n % 2) as u16, &format!("line {n}"));
        }
        let all = logs.after(0, usize::MAX);
        assert_eq!((all.len(), all[0].number), (LINES_MAX, 2));
        assert_eq!(logs.after(LINES_MAX as u64, 10).len(), 1);
        assert_eq!(logs.after(0, 1)[0].text, "line 2000");
        assert_eq!(logs.last_of(1, 2), ["line 1997", "line 1999"]);
        logs.push(0, &"ä".repeat(LINE_BYTES_MAX));
        assert_eq!(logs.after(0, 1)[0].text.len(), LINE_BYTES_MAX);
    }
}
