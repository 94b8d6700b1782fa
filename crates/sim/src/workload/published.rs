//! The workload of the published four-card measurement: short synthetic sessions in a closed loop.
//!
//! The ten published figures of output tokens a minute are, each within its rounding, whole numbers
//! of turns of 256 tokens in three minutes; so every answer ran to its limit, and no output length
//! is left to fit.

use super::{Session, Turn};
use crate::random::Random;

/// Sizes of the sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// System prompt, the same for all: "about 3.5k tokens".
    pub shared_tokens: u32,
    /// Least of the own first message: "measured 7.2 to 7.5k".
    pub first_tokens_min: u32,
    /// Most of it.
    pub first_tokens_max: u32,
    /// Turns after the first.
    pub further_turns: u32,
    /// New tokens of each: "about 400".
    pub further_tokens: u32,
    /// Tokens of each answer.
    pub output_tokens: u32,
    /// Pause before each further turn, seconds: the published clients make none.
    pub think_s: f64,
}

impl Default for Published {
    fn default() -> Self {
        Self {
            shared_tokens: 3500,
            first_tokens_min: 7200,
            first_tokens_max: 7500,
            further_turns: 5,
            further_tokens: 400,
            output_tokens: 256,
            think_s: 0.0,
        }
    }
}

impl Published {
    pub(super) fn session(&self, random: &mut Random) -> Session {
        let id = random.bits();
        let spread = u64::from(self.first_tokens_max.saturating_sub(self.first_tokens_min)) + 1;
        let first = self.first_tokens_min + random.below(spread) as u32;
        let turn = |new_tokens| Turn {
            kept_tokens: u32::MAX,
            new_tokens,
            output_tokens: self.output_tokens,
            stops: false,
            think_us: 0,
        };
        let mut turns = vec![turn(first)];
        // A tenth of "about": the source says no more.
        let tenth = self.further_tokens / 10;
        for _ in 0..self.further_turns {
            let more = random.below(u64::from(2 * tenth + 1)) as u32;
            turns.push(Turn {
                think_us: (self.think_s * 1e6) as u64,
                ..turn(self.further_tokens - tenth + more)
            });
        }
        Session {
            id,
            shared_tokens: self.shared_tokens,
            owner: 0,
            turns,
        }
    }
}
