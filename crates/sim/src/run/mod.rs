//! Clients in front of a policy in front of a fleet, in virtual time.
//!
//! A stage is a window in which clients run sessions; turns that are in flight at its end are
//! drained, so that slow turns are not left out of the figures. Stages follow one another on the
//! same fleet. One event queue orders everything; equal times are served in the order of their
//! making, so that a seed decides the whole run.

mod client;
mod engine;
mod figures;
mod record;
mod stage;
#[cfg(test)]
mod tests;
mod waits;

pub use figures::{Figures, percent, quantile};
pub use record::{Outcome, Poll, TurnRecord};
pub use stage::run_stage;
pub use waits::Waits;

/// How sessions begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// So many clients, each of which begins its next session when the last one ends.
    Closed {
        /// Clients, at least 1.
        sessions: u32,
    },
    /// Sessions that arrive on their own, at random (Poisson).
    Rate {
        /// Mean number an hour, above 0.
        sessions_per_hour: f64,
    },
}

/// One stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Names the stage's sessions: equal levels of two arms send the same prompts.
    pub level: u32,
    /// How sessions begin.
    pub arrivals: Arrivals,
    /// Length of the window, seconds.
    pub window_s: f64,
    /// From the client to the engine and back, milliseconds.
    pub round_trip_ms: f64,
    /// The clients of a closed loop begin within this time of each other, seconds.
    pub start_spread_s: f64,
    /// Seed of the prompts.
    pub prompt_seed: u64,
    /// Seed of ties, connections and the clients' first moments.
    pub chance_seed: u64,
}

/// Why a stage cannot be run. The user's fault; no retry helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The engine could never finish this request.
    #[error(
        "a turn of {tokens} tokens never fits a replica: its KV cache holds {kv_tokens} tokens, \
         its model {max_model_len}"
    )]
    NeverFits {
        /// Prompt and answer.
        tokens: u32,
        /// Size of a replica's cache.
        kv_tokens: u64,
        /// Longest sequence.
        max_model_len: u32,
    },
}
