//! Faults on demand, so that tests of what stands in front of an engine need no broken engine.
//!
//! A fault is written `KIND[:key=value,…]`; keys are `rank`, `seconds`, `events`, `count` and
//! `status`. Faults of the whole server or of a rank act at once; faults of requests wait for the
//! next `count` requests (of that rank, where one is named).
//!
//! | kind | what happens |
//! |---|---|
//! | `wedge` | the rank stands still for `seconds`, or until cleared: streams hang, gauges freeze, `/health` is 200; also what a dead remote rank of vLLM looks like. Without `rank`: all |
//! | `die` | the server exits with code 0 after `seconds` (default 0), as vLLM does; connections break |
//! | `rank-death` | `rank` (default 0) dies under a vLLM server: its streams hang, those of the other ranks end as if complete (Messages: `stop_reason: null`), `/health` stays 200, and after `seconds` (default 5) the server exits |
//! | `reset` | the connection is reset after `events` events of a stream, or instead of a whole reply |
//! | `stall` | after `events` events nothing more comes for `seconds`, or for ever |
//! | `error` | the request is answered with `status` (default 500) |
//! | `slow` | the first event, or a whole reply, comes `seconds` late (default 1) |

use std::{
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// Faults that wait for requests at most; more are refused.
const PENDING_MAX: usize = 1024;

/// A fault and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// The rank it concerns; `None` for any or all.
    pub rank: Option<usize>,
    /// Its delay or length, as the kind says.
    pub duration: Option<Duration>,
    /// Events of a stream that pass before it.
    pub events: u32,
    /// Requests it applies to.
    pub count: u32,
    /// HTTP status of `error`.
    pub status: u16,
}

/// What happens; see the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FaultKind {
    Wedge,
    Die,
    RankDeath,
    Reset,
    Stall,
    Error,
    Slow,
}

/// A fault that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The first word is no kind.
    #[error("\"{0}\" is no fault; known are wedge, die, rank-death, reset, stall, error and slow")]
    Kind(String),
    /// A parameter is not `key=value` with a known key and a good value.
    #[error(
        "\"{0}\" is no parameter of a fault; write rank=, seconds=, events=, count= or status="
    )]
    Parameter(String),
    /// The server has no such rank.
    #[error("there is no rank {0}")]
    Rank(usize),
    /// Too many wait.
    #[error("{PENDING_MAX} faults are waiting already; clear them first")]
    Full,
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (kind, parameters) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let kind = match kind {
            "wedge" => FaultKind::Wedge,
            "die" => FaultKind::Die,
            "rank-death" => FaultKind::RankDeath,
            "reset" => FaultKind::Reset,
            "stall" => FaultKind::Stall,
            "error" => FaultKind::Error,
            "slow" => FaultKind::Slow,
            other => return Err(FaultError::Kind(other.to_owned())),
        };
        let mut fault = Self {
            kind,
            rank: None,
            duration: None,
            events: 0,
            count: 1,
            status: 500,
        };
        for parameter in parameters.split(',').filter(|text| !text.is_empty()) {
            fault
                .set(parameter)
                .ok_or_else(|| FaultError::Parameter(parameter.to_owned()))?;
        }
        Ok(fault)
    }
}

impl Fault {
    fn set(&mut self, parameter: &str) -> Option<()> {
        let (key, value) = parameter.split_once('=')?;
        match key.trim() {
            "rank" => self.rank = Some(value.parse().ok()?),
            "seconds" => {
                let seconds = value.parse().ok()?;
                self.duration = Some(Duration::try_from_secs_f64(seconds).ok()?);
            }
            "events" => self.events = value.parse().ok()?,
            "count" => self.count = value.parse().ok()?,
            "status" => {
                self.status = value.parse().ok().filter(|s| (400..600).contains(s))?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether it waits for a request.
    pub(crate) fn is_of_requests(&self) -> bool {
        matches!(
            self.kind,
            FaultKind::Reset | FaultKind::Stall | FaultKind::Error | FaultKind::Slow
        )
    }
}

/// Faults that wait for requests.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<Vec<Fault>>);

impl Pending {
    pub(crate) fn add(&self, fault: Fault) -> Result<(), FaultError> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= PENDING_MAX {
            return Err(FaultError::Full);
        }
        pending.push(fault);
        Ok(())
    }

    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The faults that meet a request of this rank; one of each kind at most.
    pub(crate) fn meet(&self, rank: usize) -> Vec<Fault> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut met: Vec<Fault> = Vec::new();
        for fault in pending.iter_mut() {
            let here = fault.rank.is_none_or(|only| only == rank);
            if here && fault.count > 0 && met.iter().all(|other| other.kind != fault.kind) {
                fault.count -= 1;
                met.push(fault.clone());
            }
        }
        pending.retain(|fault| fault.count > 0);
        met
    }
}

/// Whether a rank stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WedgeState {
    Free,
    Until(Instant),
    Forever,
}

/// The switch that makes a rank stand still.
#[derive(Debug)]
pub(crate) struct Wedge(watch::Sender<WedgeState>);

impl Wedge {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(WedgeState::Free))
    }

    pub(crate) fn set(&self, state: WedgeState) {
        self.0.send_replace(state);
    }

    /// Returns once the rank may go on.
    pub(crate) async fn pass(&self) {
        let mut state = self.0.subscribe();
        loop {
            let now = *state.borrow_and_update();
            match now {
                WedgeState::Free => return,
                WedgeState::Until(end) if end <= Instant::now() => return,
                WedgeState::Until(end) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(end) => return,
                        _ = state.changed() => {}
                    }
                }
                WedgeState::Forever => {
                    // The sender lives in `self`, so this returns only on a change.
                    let _ = state.changed().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_parse() {
        let fault: Fault = "stall:events=3,seconds=0.5,rank=1,count=2"
            .parse()
            .expect("good");
        assert_eq!(
            fault,
            Fault {
                kind: FaultKind::Stall,
                rank: Some(1),
                duration: Some(Duration::from_millis(500)),
                events: 3,
                count: 2,
                status: 500,
            }
        );
        assert_eq!(
            "explode".parse::<Fault>(),
            Err(FaultError::Kind("explode".to_owned()))
        );
        for bad in [
            "die:now",
            "die:seconds=-1",
            "die:rank=x",
            "error:status=200",
        ] {
            assert!(matches!(
                bad.parse::<Fault>(),
                Err(FaultError::Parameter(_))
            ));
        }
    }

    #[test]
    fn a_fault_meets_as_many_requests_of_its_rank_as_it_says() {
        let pending = Pending::default();
        pending
            .add("error:rank=1,count=2".parse().expect("good"))
            .expect("room");
        let met: Vec<_> = [0, 1, 1, 1].map(|rank| pending.meet(rank).len()).into();
        assert_eq!(met, [0, 1, 1, 0]);
    }
}
