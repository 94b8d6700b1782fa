//! One data-parallel rank: its scheduler, stepped in real time by one task that owns it.
//!
//! A step is scheduled, its cost passes (divided by the speed), its tokens go out. Commands are
//! taken at any time, so an abort takes effect within a step. A wedged rank takes no command and
//! publishes nothing, which is what a dead remote rank of vLLM looks like: streams hang, gauges
//! freeze.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sim::{
    profile::Profile,
    scheduler::{RequestId, Scheduler, SchedulerConfig, Step},
};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    faults::{Wedge, WedgeState},
    generation::{Command, Finish, Output, Submission},
    metrics::{RankMetrics, Timing},
};

/// Below this, waiting costs more than it times; the remainder is kept for the next step.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// A rank, before its task runs.
pub(crate) struct Rank {
    scheduler: Scheduler,
    pace: Pace,
    requests: BTreeMap<RequestId, Active>,
    commands: mpsc::UnboundedReceiver<Command>,
    metrics: Arc<RankMetrics>,
    wedge: Arc<Wedge>,
}

/// A request that the rank holds.
struct Active {
    submission: Submission,
    timing: Timing,
    generated: usize,
    cached: u32,
}

/// Turns steps into time.
struct Pace {
    profile: Profile,
    speed: f64,
    /// When the last step was due to end.
    due: Instant,
}

impl Rank {
    /// A rank with an empty cache. Its commands are bounded by the requests that connections hold.
    pub(crate) fn new(
        config: SchedulerConfig,
        (profile, speed): (Profile, f64),
        commands: mpsc::UnboundedReceiver<Command>,
        metrics: Arc<RankMetrics>,
        wedge: Arc<Wedge>,
    ) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            pace: Pace {
                profile,
                speed,
                due: Instant::now(),
            },
            requests: BTreeMap::new(),
            commands,
            metrics,
            wedge,
        }
    }

    /// Runs until the server is gone.
    pub(crate) async fn run(mut self) {
        loop {
            self.wedge.pass().await;
            while let Ok(command) = self.commands.try_recv() {
                self.apply(command);
            }
            if let Some(step) = self.scheduler.step() {
                self.execute(&step).await;
            } else {
                self.publish();
                match self.commands.recv().await {
                    Some(command) => {
                        self.wedge.pass().await;
                        self.apply(command);
                    }
                    None => return,
                }
            }
        }
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Add(mut submission) => {
                let prompt = std::mem::take(&mut submission.prompt);
                let timing = Timing::new(prompt.len());
                let output_max = submission.output.len() as u32;
                let (id, salt) = (submission.id, submission.salt);
                self.scheduler.add_salted(id, prompt, output_max, salt);
                let active = Active {
                    submission,
                    timing,
                    generated: 0,
                    cached: 0,
                };
                self.requests.insert(active.submission.id, active);
            }
            Command::Abort(id) => {
                self.scheduler.abort(id);
                self.requests.remove(&id);
            }
            Command::Die => {
                for (id, active) in std::mem::take(&mut self.requests) {
                    self.scheduler.abort(id);
                    active.send(0, Some(Finish::Abort));
                }
                self.wedge.set(WedgeState::Forever);
            }
            Command::ResetPrefixCache => self.scheduler.reset_prefix_cache(),
        }
    }

    async fn execute(&mut self, step: &Step) {
        for scheduled in &step.scheduled {
            if let Some(active) = self.requests.get_mut(&scheduled.id) {
                active.cached = self.scheduler.cached_tokens(scheduled.id).unwrap_or(0);
                active.timing.scheduled(active.cached);
            }
        }
        self.publish();
        self.pass_time(step).await;
        let tokens: Vec<_> = step
            .scheduled
            .iter()
            .filter(|scheduled| scheduled.samples)
            .filter_map(|scheduled| self.requests.get(&scheduled.id)?.next_token())
            .collect();
        let finished = self.scheduler.complete(step, &tokens);
        let ends: Vec<_> = tokens
            .iter()
            .map(|&(id, _, stops)| (id, finished.contains(&id).then(|| finish_of(stops))))
            .collect();
        self.metrics.iteration(step);
        for &(id, finish) in &ends {
            self.account(id, finish);
        }
        // Before the tokens go out, so that who has read a whole reply finds it in the metrics.
        self.publish();
        for &(id, finish) in &ends {
            self.deliver(id, finish);
        }
    }

    /// Lets the step's cost pass, taking commands meanwhile.
    async fn pass_time(&mut self, step: &Step) {
        let Some(due) = self.pace.due_after(step) else {
            return tokio::task::yield_now().await;
        };
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(due) => return,
                Some(command) = self.commands.recv() => self.apply(command),
            }
        }
    }

    fn account(&mut self, id: RequestId, finish: Option<Finish>) {
        if let Some(active) = self.requests.get_mut(&id) {
            active.generated += 1;
            self.metrics.token(&mut active.timing);
            if let Some(finish) = finish {
                self.metrics.finished(&active.timing, finish);
            }
        }
    }

    fn deliver(&mut self, id: RequestId, finish: Option<Finish>) {
        if let Some(active) = self.requests.get(&id) {
            active.send(1, finish);
            if finish.is_some() {
                self.requests.remove(&id);
            }
        }
    }

    fn publish(&self) {
        self.metrics.publish(&self.scheduler);
    }
}

impl Active {
    fn next_token(&self) -> Option<(RequestId, u32, bool)> {
        let submission = &self.submission;
        let token = *submission.output.get(self.generated)?;
        let last = self.generated + 1 == submission.output.len();
        Some((submission.id, token, last && submission.stops))
    }

    fn send(&self, tokens: u32, finish: Option<Finish>) {
        // The receiver may just have gone; its abort is on the way.
        let _ = self.submission.outputs.send(Output {
            cached: self.cached,
            tokens,
            finish,
        });
    }
}

impl Pace {
    /// When the step ends; `None` where that is too near to wait for.
    fn due_after(&mut self, step: &Step) -> Option<Instant> {
        if self.speed == 0.0 {
            return None;
        }
        let now = Instant::now();
        // A pause must not be caught up with; what sleeping short steps left out must.
        self.due = self.due.max(now.checked_sub(SLEEP_MIN).unwrap_or(now));
        let cost_s = self.profile.step_ms(step) / 1000.0 / self.speed;
        self.due += Duration::from_secs_f64(cost_s);
        (self.due > now + SLEEP_MIN).then_some(self.due)
    }
}

fn finish_of(stops: bool) -> Finish {
    if stops { Finish::Stop } else { Finish::Length }
}
