//! Models and their replicas: what is served, where it is reached, and how it is doing.
//!
//! `model` holds what all others share. `prober` asks every server how it is, once a second;
//! `simulated` runs simulated engines as child processes, as long as `switch` is on. Both tell the model's router what they
//! saw, and neither decides anything about routing.

mod demand;
mod figures;
mod health;
mod logs;
mod model;
mod prober;
mod router_cell;
mod simulated;
mod switch;
#[cfg(test)]
mod tests;
mod throughput;
mod versions;

pub use demand::Demand;
pub use figures::{Figures, Mark};
pub(crate) use health::Process;
pub use logs::{LogLine, Logs};
pub use model::{Fleet, Model, ModelState, ReplicaTarget};
pub(crate) use model::{lease_mode, lease_turns, threshold};
pub use prober::Watch;
pub use router_cell::{Admitted, RouterCell, RouterGuard, Waiter};
pub use simulated::{Simulator, run as run_simulated};
pub(crate) use switch::{DRAIN_MAX, Switch};
pub(crate) use throughput::sum as throughput;
