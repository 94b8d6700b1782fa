//! From what was seen of the replicas to the state of the model, in words.

use std::sync::PoisonError;

use routing::Time;

use super::{Model, ModelState};

/// What the supervisor and the prober last saw.
#[derive(Debug)]
pub(crate) struct Health {
    process: Process,
    /// Why a replica did not answer, by index; `None` where it did, or was never asked.
    troubles: Vec<Option<String>>,
    /// Whether the replica ever answered.
    answered: Vec<bool>,
}

/// The process behind a model, where the warden runs one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Process {
    /// It runs, or somebody else runs it.
    Running,
    /// It is being started; the text says what it waits for.
    Starting(String),
    /// It will not be started again; the text says why.
    Failed(String),
}

impl Health {
    pub(super) fn new(replicas: usize, supervised: bool) -> Self {
        Self {
            process: if supervised {
                Process::Starting("starting the simulated engine".to_owned())
            } else {
                Process::Running
            },
            troubles: vec![None; replicas],
            answered: vec![false; replicas],
        }
    }
}

impl Model {
    /// The supervisor's word; takes effect at once.
    pub(super) fn process(&self, now: Time, process: Process) -> bool {
        self.health
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .process = process;
        self.refresh_state(now)
    }

    /// The prober's word on one replica.
    pub(super) fn answered(&self, replica: usize, answer: Result<(), &str>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trouble) = health.troubles.get_mut(replica) {
            *trouble = answer.err().map(str::to_owned);
            health.answered[replica] |= answer.is_ok();
        }
    }

    /// Whether the replica ever answered.
    pub fn has_answered(&self, replica: routing::ReplicaIndex) -> bool {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.answered.get(usize::from(replica.0)) == Some(&true)
    }

    /// Puts the state together from what was last seen; true where it changed.
    pub(super) fn refresh_state(&self, now: Time) -> bool {
        let snapshot = self.router.lock().snapshot(now);
        let up: Vec<bool> = snapshot.replicas.iter().map(|replica| replica.up).collect();
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let new = state(&health, &up);
        drop(health);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == new {
            return false;
        }
        tracing::info!(model = %self.name, state = %words(&new), "model state");
        *state = new;
        true
    }
}

fn state(health: &Health, up: &[bool]) -> ModelState {
    match &health.process {
        Process::Starting(what) => return ModelState::Loading(what.clone()),
        Process::Failed(why) => return ModelState::Failed(why.clone()),
        Process::Running => {}
    }
    let serves = |replica: usize| up[replica] && health.answered[replica];
    let out: Vec<usize> = (0..up.len()).filter(|replica| !serves(*replica)).collect();
    let Some(first) = out.first() else {
        return ModelState::Ready;
    };
    let why = health.troubles[*first]
        .as_deref()
        .unwrap_or("waiting for its first answer");
    if out.len() == up.len() {
        return ModelState::Loading(format!("no replica answers: {why}"));
    }
    let numbers: Vec<String> = out.iter().map(usize::to_string).collect();
    let replicas = if out.len() == 1 {
        "replica"
    } else {
        "replicas"
    };
    ModelState::Degraded(format!("{replicas} {} out: {why}", numbers.join(", ")))
}

/// The state as one piece of text, for the log.
fn words(state: &ModelState) -> String {
    match state {
        ModelState::Ready => "ready".to_owned(),
        ModelState::Loading(what) => format!("loading ({what})"),
        ModelState::Degraded(what) => format!("degraded ({what})"),
        ModelState::Failed(why) => format!("failed ({why})"),
        ModelState::Stopped => "stopped".to_owned(),
    }
}
