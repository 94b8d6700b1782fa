//! Log lines that a stranger can cause, at most one in a while.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// At most one line in this time.
const EVERY: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// How often it happened since the last line, this time included; `None` where no line is due.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, times) = &mut *state;
        *times += 1;
        if last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_that_tells_its_size() {
        let seldom = Seldom::default();
        let start = Instant::now();
        assert_eq!(seldom.due_at(start), Some(1));
        for _ in 0..1000 {
            assert_eq!(seldom.due_at(start), None);
        }
        assert_eq!(seldom.due_at(start + EVERY), Some(1001));
    }
}
