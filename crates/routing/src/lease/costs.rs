//! What turns cost, measured from what a gateway sees: times and token usage.

use std::time::Duration;

use crate::HostTier;

/// Weight of the newest turn in the mean time from dispatch to finish.
const TURN_WEIGHT: f64 = 0.03;

/// Weight of the newest turn in the mean tokens of an answer.
const OUTPUT_WEIGHT: f64 = 0.02;

/// Computed tokens below which the time to the first byte says little about prefill.
const PREFILL_TOKENS_MIN: u64 = 1024;

/// By how much the least seen prefill cost rises with each sample above it: it doubles in 1,400, so that
/// one lucky sample is not believed for ever.
const PREFILL_RISE: f64 = 1.0005;

/// Weight of the newest request in the spread of sizes.
const SIZE_WEIGHT: f64 = 0.02;

/// Means over the turns of one model.
#[derive(Debug, Default)]
pub(super) struct Costs {
    turn_s: Option<f64>,
    /// Mean time from a stream's first byte to its end, seconds.
    stream_s: Option<f64>,
    output_tokens: Option<f64>,
    growth_tokens: Option<f64>,
    /// Least time to the first byte per computed token, seconds. Queueing and the steps of others can
    /// only add to it.
    prefill_s_per_token: Option<f64>,
    size: f64,
    size_squared: f64,
}

/// One turn's figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnCost {
    pub(super) duration: Duration,
    /// Whether it tells what a turn takes now: none that was sent before leases began does.
    pub(super) is_typical: bool,
    pub(super) streams: bool,
    /// From dispatch to the first byte, where there was one.
    pub(super) first_byte: Option<Duration>,
    pub(super) computed_tokens: Option<u64>,
    pub(super) completion_tokens: u64,
}

impl Costs {
    /// A turn finished.
    pub(super) fn learn(&mut self, turn: &TurnCost) {
        if turn.is_typical {
            average(&mut self.turn_s, turn.duration.as_secs_f64(), TURN_WEIGHT);
        }
        if let Some(first_byte) = turn.first_byte.filter(|_| turn.streams) {
            let stream = turn.duration.saturating_sub(first_byte);
            average(&mut self.stream_s, stream.as_secs_f64(), TURN_WEIGHT);
        }
        average(
            &mut self.output_tokens,
            turn.completion_tokens as f64,
            OUTPUT_WEIGHT,
        );
        if let Some((first_byte, computed)) = turn.first_byte.zip(turn.computed_tokens)
            && computed >= PREFILL_TOKENS_MIN
        {
            let sample = first_byte.as_secs_f64() / computed as f64;
            let least = self.prefill_s_per_token.unwrap_or(sample);
            self.prefill_s_per_token = Some(sample.min(least * PREFILL_RISE));
        }
    }

    /// Leases begin: turns have stood in the engines' queues for most of their time until now, and will
    /// not any more. Until the first that finishes, they are taken to last as long as streams ran.
    pub(super) fn leases_begin(&mut self) {
        self.turn_s = self.stream_s.or(self.turn_s);
    }

    /// A turn was so many tokens longer than the one before it.
    pub(super) fn learn_growth(&mut self, tokens: u32) {
        average(&mut self.growth_tokens, f64::from(tokens), OUTPUT_WEIGHT);
    }

    /// A request of this footprint asked for room.
    pub(super) fn learn_size(&mut self, tokens: u32) {
        let tokens = f64::from(tokens);
        if self.size == 0.0 {
            self.size = tokens;
            self.size_squared = tokens * tokens;
        }
        self.size += SIZE_WEIGHT * (tokens - self.size);
        self.size_squared += SIZE_WEIGHT * (tokens * tokens - self.size_squared);
    }

    /// T: mean time from dispatch to finish; zero before the first.
    pub(super) fn turn(&self) -> Duration {
        Duration::from_secs_f64(self.turn_s.unwrap_or(0.0).max(0.0))
    }

    /// Mean tokens of an answer.
    pub(super) fn output_tokens(&self) -> u32 {
        self.output_tokens.unwrap_or(0.0) as u32
    }

    /// Mean tokens by which a turn's context exceeds that of the turn before.
    pub(super) fn growth_tokens(&self) -> u32 {
        self.growth_tokens.unwrap_or(0.0) as u32
    }

    /// Time to compute so many tokens on an idle replica, at the least; zero where unknown.
    pub(super) fn prefill(&self, tokens: u64) -> Duration {
        let seconds = self.prefill_s_per_token.unwrap_or(0.0) * tokens as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// What it costs to bring a token back from host memory, as a part of what it costs to compute
    /// it: 0 to 1, and 1 where that is unknown.
    pub(super) fn return_price(&self, tier: HostTier) -> f64 {
        let Some(prefill_s_per_token) = self.prefill_s_per_token else {
            return 1.0;
        };
        let price = 1.0 / (tier.tokens_per_s * prefill_s_per_token);
        // Neither of a speed of 0.
        if price.is_finite() {
            price.clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    /// Whether footprints differ so much that the mean says little about one wait: their standard
    /// deviation is over half the mean.
    pub(super) fn sizes_differ(&self) -> bool {
        self.size_squared > 1.25 * self.size * self.size
    }
}

fn average(mean: &mut Option<f64>, value: f64, weight: f64) {
    let before = mean.unwrap_or(value);
    *mean = Some(before + weight * (value - before));
}
