//! Trials of lm-warden alone: what a long, full and unkind day does to it (`soak`), and what a dead
//! or a wedged replica costs (`failures`). Everything runs in processes of its own, so that each can
//! be killed as a machine kills it.

mod agent;
pub(crate) mod failures;
mod fleet;
mod metrics;
mod samples;
pub(crate) mod soak;
mod verdict;
