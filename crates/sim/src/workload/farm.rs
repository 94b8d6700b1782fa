//! The farm of seven cards: agents with long contexts that pause between turns.
//!
//! Published are the number of sessions and their size (about 58k tokens); the pauses are those of
//! recorded Claude Code sessions; the growth per turn and the size at which a session is compacted
//! and begins anew are chosen so that the mean size is the published one. All begin together, as
//! after the published restart, so that their contexts grow over the first half hour.

use super::{Session, Turn};
use crate::random::Random;

/// Sizes of the farm's sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Farm {
    /// Tools and system prompt, the same for all agents.
    pub shared_tokens: u32,
    /// Prompt of a session's first turn.
    pub context_tokens_min: u32,
    /// Size at which a session ends and another begins.
    pub context_tokens_max: u32,
    /// Mean of the new tokens of a turn (tool results, mostly).
    pub turn_tokens_mean: u32,
    /// Mean of an answer's tokens.
    pub output_tokens_mean: u32,
}

impl Farm {
    /// Sessions whose mean context is `context_tokens`.
    pub fn of_context(context_tokens: u32) -> Self {
        Self {
            shared_tokens: 16_000.min(context_tokens / 3),
            context_tokens_min: context_tokens / 2,
            context_tokens_max: context_tokens + context_tokens / 2,
            turn_tokens_mean: 1200,
            output_tokens_mean: 250,
        }
    }

    pub(super) fn session(&self, random: &mut Random) -> Session {
        let id = random.bits();
        let mut context = self.context_tokens_min;
        let mut turns = Vec::new();
        let mut new_tokens = context - self.shared_tokens;
        while context < self.context_tokens_max {
            let output_tokens = 1 + random.below(2 * u64::from(self.output_tokens_mean)) as u32;
            let think_s = random.quantile(&THINK_S);
            turns.push(Turn {
                kept_tokens: u32::MAX,
                new_tokens,
                output_tokens,
                stops: true,
                think_us: (think_s * 1e6) as u64,
            });
            new_tokens = 1 + random.below(2 * u64::from(self.turn_tokens_mean)) as u32;
            context += output_tokens + new_tokens;
        }
        Session {
            id,
            shared_tokens: self.shared_tokens,
            owner: 0,
            turns,
        }
    }
}

/// Pauses between turns of 710 recorded Claude Code sessions: quartiles 6, 10 and 34 s, p90 166 s;
/// cut at five minutes, since longer ones are people who left.
const THINK_S: [(f64, f64); 6] = [
    (0.0, 1.0),
    (0.25, 6.0),
    (0.5, 10.0),
    (0.75, 34.0),
    (0.9, 166.0),
    (1.0, 300.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_the_mean_context_asked_for() {
        let farm = Farm::of_context(58_000);
        let mut random = Random::new(1);
        let (mut sum, mut turns) = (0.0, 0.0);
        for _ in 0..50 {
            let session = farm.session(&mut random);
            let mut context = session.shared_tokens;
            for turn in &session.turns {
                context += turn.new_tokens;
                sum += f64::from(context);
                turns += 1.0;
                context += turn.output_tokens;
            }
        }
        let mean: f64 = sum / turns;
        assert!((mean - 58_000.0).abs() < 2000.0, "{mean}");
    }
}
