//! From what was seen of the replicas to the state of the model, in words.

use std::{
    mem::discriminant,
    sync::{PoisonError, atomic::Ordering},
};

use routing::{ReplicaIndex, Time};

use super::{Model, ModelState};

/// What the supervisor and the prober last saw.
#[derive(Debug)]
pub(crate) struct Health {
    /// The process behind each replica.
    processes: Vec<Process>,
    /// Why a replica did not answer, by index; `None` where it did, or was never asked.
    troubles: Vec<Option<String>>,
    /// Whether the replica ever answered.
    answered: Vec<bool>,
}

/// The process behind a replica, where the warden runs one. Only one that is `Running` is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Process {
    /// It runs, or somebody else runs it.
    Running,
    /// It does not serve, and will: it starts, restarts or stops; the text says what it does.
    Starting(String),
    /// It will not be started again by itself; the text says why.
    Failed(String),
    /// It is not wanted.
    Stopped,
    /// It starts with the next request.
    Asleep,
}

impl Health {
    pub(super) fn new(replicas: usize, process: &Process) -> Self {
        Self {
            processes: vec![process.clone(); replicas],
            troubles: vec![None; replicas],
            answered: vec![false; replicas],
        }
    }
}

impl Model {
    /// The supervisor's word on some replicas; takes effect at once. True where it changed the state.
    pub(crate) fn process(
        &self,
        now: Time,
        replicas: impl IntoIterator<Item = ReplicaIndex>,
        process: &Process,
    ) -> bool {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        for replica in replicas {
            if let Some(place) = health.processes.get_mut(usize::from(replica.0)) {
                place.clone_from(process);
            }
        }
        drop(health);
        self.refresh_state(now)
    }

    /// Whether the replica's process runs, as far as the warden knows.
    pub(super) fn runs(&self, replica: ReplicaIndex) -> bool {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.processes.get(usize::from(replica.0)) == Some(&Process::Running)
    }

    /// The prober's word on one replica.
    pub fn answered(&self, replica: usize, answer: Result<(), &str>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trouble) = health.troubles.get_mut(replica) {
            *trouble = answer.err().map(str::to_owned);
            health.answered[replica] |= answer.is_ok();
        }
    }

    /// Whether the replica ever answered.
    pub fn has_answered(&self, replica: ReplicaIndex) -> bool {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.answered.get(usize::from(replica.0)) == Some(&true)
    }

    /// Puts the state together from what was last seen; true where it changed.
    pub(crate) fn refresh_state(&self, now: Time) -> bool {
        let snapshot = self.router.lock().snapshot(now);
        let up: Vec<bool> = snapshot.replicas.iter().map(|replica| replica.up).collect();
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let draining = snapshot.replicas.iter().all(|replica| replica.draining);
        let new = state(&health, &up, draining);
        drop(health);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == new {
            return false;
        }
        tracing::info!(model = %self.name, state = %words(&new), "model state");
        if discriminant(&*state) != discriminant(&new) {
            self.state_since.store(now.0, Ordering::Relaxed);
        }
        *state = new;
        drop(state);
        self.state_changed.notify_waiters();
        true
    }
}

fn state(health: &Health, up: &[bool], draining: bool) -> ModelState {
    let all = |is: fn(&Process) -> bool| health.processes.iter().all(is);
    if all(|process| *process == Process::Stopped) {
        return ModelState::Stopped;
    }
    if all(|process| matches!(process, Process::Asleep | Process::Stopped)) {
        return ModelState::Asleep;
    }
    if all(|process| matches!(process, Process::Failed(_)))
        && let Some(Process::Failed(why)) = health.processes.first()
    {
        return ModelState::Failed(why.clone());
    }
    let serves = |replica: usize| {
        health.processes[replica] == Process::Running && up[replica] && health.answered[replica]
    };
    let out: Vec<usize> = (0..up.len()).filter(|replica| !serves(*replica)).collect();
    let Some(first) = out.first() else {
        return if draining {
            ModelState::Drained
        } else {
            ModelState::Ready
        };
    };
    let why = why_out(health, *first);
    if out.len() == up.len() {
        return ModelState::Loading(why);
    }
    let numbers: Vec<String> = out.iter().map(usize::to_string).collect();
    let replicas = if out.len() == 1 {
        "replica"
    } else {
        "replicas"
    };
    ModelState::Degraded(format!("{replicas} {} out: {why}", numbers.join(", ")))
}

fn why_out(health: &Health, replica: usize) -> String {
    match &health.processes[replica] {
        Process::Running => health.troubles[replica].as_deref().map_or_else(
            || "waiting for its first answer".to_owned(),
            |trouble| format!("no answer: {trouble}"),
        ),
        Process::Starting(what) | Process::Failed(what) => what.clone(),
        Process::Stopped => "stopped".to_owned(),
        Process::Asleep => "starts with the next request".to_owned(),
    }
}

/// The state as one piece of text, for the log.
fn words(state: &ModelState) -> String {
    match state {
        ModelState::Ready => "ready".to_owned(),
        ModelState::Loading(what) => format!("loading ({what})"),
        ModelState::Drained => "drained".to_owned(),
        ModelState::Degraded(what) => format!("degraded ({what})"),
        ModelState::Failed(why) => format!("failed ({why})"),
        ModelState::Stopped => "stopped".to_owned(),
        ModelState::Asleep => "asleep".to_owned(),
    }
}
