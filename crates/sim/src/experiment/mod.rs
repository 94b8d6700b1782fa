//! Whole experiments: several policies at several levels of load, repeated over seeds.
//!
//! The arms are laid out as the published measurement laid out its own: vLLM's balancer first on
//! cold engines, level by level; then the other policy without a restart, on the caches that the
//! first arm left, with the same prompts. Every other policy starts from the same point.

mod bounds;
mod fit;
mod published;
#[cfg(test)]
mod tests;

pub use fit::{FitProgress, Fitted, fit};
pub use published::{PublishedRow, published_row, published_rows};

use crate::fleet::{Balancing, Fleet};
use crate::policy::{Knobs, Policy, PolicyKind};
use crate::profile::Profile;
use crate::run::{Arrivals, Figures, Outcome, Stage, StageError, run_stage};
use crate::workload::Workload;
use routing::LeaseSettings;

/// What is compared, and on what.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Each replica's machine.
    pub profile: Profile,
    /// How many replicas.
    pub replicas: u16,
    /// How they are balanced where no policy chooses.
    pub balancer: Balancing,
    /// What the sessions do.
    pub workload: Workload,
    /// Loads, in the order in which they are run.
    pub levels: Vec<Level>,
    /// Policies to compare.
    pub policies: Vec<PolicyKind>,
    /// Length of a stage, seconds.
    pub window_s: f64,
    /// From the client to the engine and back, milliseconds.
    pub round_trip_ms: f64,
    /// Clients of a stage begin within this time of each other, seconds.
    pub start_spread_s: f64,
    /// Requests in flight above which conversations spill; `None` is a quarter of `max_num_seqs`.
    pub spill_threshold: Option<u32>,
    /// How leases are set, for the policy that has them.
    pub leases: LeaseSettings,
    /// What the warden believes of the KV cache, as a part of what there is.
    pub kv_tokens_believed: f64,
    /// Whether policies other than `balanced` start on the caches that `balanced` left.
    pub second_arm_is_warm: bool,
    /// Whether to compute upper bounds too.
    pub bounds: bool,
}

/// How many times a replica's cache counts as one that never lacks room.
const ROOMY: u64 = 32;

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Sessions in parallel, or an hour.
    pub sessions: u32,
    /// How they begin.
    pub arrivals: Arrivals,
}

impl Level {
    /// So many clients in a closed loop.
    pub fn closed(sessions: u32) -> Self {
        Self {
            sessions,
            arrivals: Arrivals::Closed { sessions },
        }
    }

    /// So many sessions an hour.
    pub fn rate(sessions: u32) -> Self {
        let sessions_per_hour = f64::from(sessions);
        Self {
            sessions,
            arrivals: Arrivals::Rate { sessions_per_hour },
        }
    }
}

/// One stage of one seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The policy.
    pub policy: PolicyKind,
    /// The load.
    pub sessions: u32,
    /// The figures.
    pub figures: Figures,
    /// Everything behind them.
    pub outcome: Outcome,
    /// Upper bounds, where asked for.
    pub bounds: Option<Bounds>,
}

/// What could have been.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Hits of a clairvoyant cache on the same schedule, percent.
    pub prefix_hit_percent: Option<f64>,
    /// Output tokens a minute where no cache ever lacks room: every avoidable token is cached.
    pub output_tokens_per_min: f64,
}

impl Experiment {
    /// Runs all arms for one seed; `on_cell` hears of each stage that is done.
    pub fn run_seed(
        &self,
        seed: u64,
        on_cell: &mut dyn FnMut(&Cell),
    ) -> Result<Vec<Cell>, StageError> {
        let cold = Fleet::new(&self.profile, self.replicas, self.balancer);
        let mut first = cold.clone();
        let mut cells = Vec::new();
        let balanced_is_shown = self.policies.contains(&PolicyKind::Balanced);
        let others_need_it = self.second_arm_is_warm
            && self
                .policies
                .iter()
                .any(|policy| *policy != PolicyKind::Balanced);
        if balanced_is_shown || others_need_it {
            let arm = self.arm(PolicyKind::Balanced, &mut first, seed, on_cell)?;
            if balanced_is_shown {
                cells.extend(arm);
            }
        }
        let start = if self.second_arm_is_warm {
            &first
        } else {
            &cold
        };
        for policy in self
            .policies
            .iter()
            .filter(|policy| **policy != PolicyKind::Balanced)
        {
            cells.extend(self.arm(*policy, &mut start.clone(), seed, on_cell)?);
        }
        Ok(cells)
    }

    /// Stages that a call of [`Self::run_seed`] runs.
    pub fn stages(&self) -> usize {
        let unshown = self.second_arm_is_warm && !self.policies.contains(&PolicyKind::Balanced);
        self.levels.len() * (self.policies.len() + usize::from(unshown))
    }

    fn knobs(&self) -> Knobs {
        Knobs {
            spill_threshold: self.spill_threshold,
            leases: self.leases,
            kv_tokens_believed: self.kv_tokens_believed,
        }
    }

    fn arm(
        &self,
        kind: PolicyKind,
        fleet: &mut Fleet,
        seed: u64,
        on_cell: &mut dyn FnMut(&Cell),
    ) -> Result<Vec<Cell>, StageError> {
        let mut policy = Policy::new(kind, fleet, &self.knobs());
        let mut cells = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let stage = self.stage(level, kind, seed);
            let outcome = run_stage(fleet, &mut policy, &self.workload, &stage)?;
            let bounds = if self.bounds {
                Some(self.bounds(&stage, &outcome)?)
            } else {
                None
            };
            let figures = Figures::of(&outcome);
            let cell = Cell {
                policy: kind,
                sessions: level.sessions,
                figures,
                outcome,
                bounds,
            };
            on_cell(&cell);
            cells.push(cell);
        }
        Ok(cells)
    }

    fn stage(&self, level: &Level, kind: PolicyKind, seed: u64) -> Stage {
        // Where nothing is contended, leases are affinity, turn by turn.
        let chance = match kind {
            PolicyKind::Leases => PolicyKind::Affinity,
            other => other,
        };
        Stage {
            level: level.sessions,
            arrivals: level.arrivals,
            window_s: self.window_s,
            round_trip_ms: self.round_trip_ms,
            start_spread_s: self.start_spread_s,
            prompt_seed: seed,
            chance_seed: seed ^ ((chance as u64 + 1) << 32),
        }
    }

    fn bounds(&self, stage: &Stage, outcome: &Outcome) -> Result<Bounds, StageError> {
        let mut roomy = self.profile.clone();
        roomy.kv_tokens *= ROOMY;
        let mut fleet = Fleet::new(&roomy, self.replicas, self.balancer);
        let knobs = Knobs {
            spill_threshold: Some(u32::MAX),
            ..self.knobs()
        };
        let mut policy = Policy::new(PolicyKind::Affinity, &fleet, &knobs);
        let best = run_stage(&mut fleet, &mut policy, &self.workload, stage)?;
        let place = (stage.prompt_seed, stage.level);
        Ok(Bounds {
            prefix_hit_percent: bounds::clairvoyant_hit_percent(
                outcome,
                &self.workload,
                &self.profile,
                place,
            ),
            output_tokens_per_min: Figures::of(&best).output_tokens_per_min,
        })
    }
}
