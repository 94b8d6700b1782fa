//! `lm-warden bench`: synthetic sessions over real HTTP, one arm (`run`) or affinity off against on
//! (`ab`).
//!
//! Reaches a warden over its public HTTP only, and leaves it as it was, whatever happens. What is
//! made of the results is `report`'s.

mod ab;
mod error;
mod http;
mod measure;
mod plan;
mod request;
mod stage;
mod transcript;
mod turn;
mod warden;
mod watch;

pub use ab::{ab, run};
pub use error::BenchError;
pub use request::{BenchRequest, Shape};
pub use transcript::Api;
pub use watch::Progress;

/// How the model is routed in a part of a bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// Affinity off: the engine's own balancer.
    Off,
    /// Affinity on, leases off.
    On,
    /// Affinity and leases.
    Leases,
}

impl Arm {
    /// The arm of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "on" => Some(Self::On),
            "leases" => Some(Self::Leases),
            _ => None,
        }
    }

    /// Its policy's name in results.
    pub fn policy(self) -> &'static str {
        match self {
            Self::Off => "balanced",
            Self::On => "affinity",
            Self::Leases => "leases",
        }
    }
}
