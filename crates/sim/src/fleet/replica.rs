//! One replica in virtual time: the scheduler, and when its steps end.
//!
//! vLLM schedules asynchronously on GPUs: while one step runs, the next one is already scheduled and
//! queued behind it. A request that arrives meanwhile therefore waits for the end of the running
//! step, and then for the queued one.

use crate::profile::Profile;
use crate::scheduler::{Scheduler, Step};
use std::collections::VecDeque;

/// Steps scheduled and not yet complete, the running one included.
const STEPS_IN_FLIGHT_MAX: usize = 2;

/// An engine with its queue of steps.
#[derive(Debug, Clone)]
pub(crate) struct Replica {
    pub(crate) scheduler: Scheduler,
    steps: VecDeque<Step>,
    is_running: bool,
}

impl Replica {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            scheduler: Scheduler::new(profile.scheduler_config()),
            steps: VecDeque::new(),
            is_running: false,
        }
    }

    /// Schedules what can be scheduled; where the GPU is free, starts the oldest step and returns
    /// how long it takes, in milliseconds.
    pub(crate) fn advance(&mut self, profile: &Profile) -> Option<f64> {
        while self.steps.len() < STEPS_IN_FLIGHT_MAX {
            let Some(step) = self.scheduler.step() else {
                break;
            };
            if !step.scheduled.is_empty() {
                self.steps.push_back(step);
            }
        }
        if self.is_running {
            return None;
        }
        let step = self.steps.front()?;
        self.is_running = true;
        Some(profile.step_ms(step))
    }

    /// The running step ends; its outputs are still to be handed to the scheduler.
    pub(crate) fn end_step(&mut self) -> Step {
        self.is_running = false;
        self.steps.pop_front().expect("a step was running")
    }

    /// Requests in the engine.
    pub(crate) fn requests(&self) -> usize {
        self.scheduler.running() + self.scheduler.waiting()
    }
}
