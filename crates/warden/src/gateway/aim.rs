//! Where an attempt goes: the router's decision, waited for where need be, turned into an address and
//! a rank.

use std::{
    fmt::Display,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use routing::{Decision, Refusal, ReplicaIndex, Route};

use super::{
    Gateway,
    call::Call,
    error::GatewayError,
    forward::Failure,
    ledger::Ledger,
    lobby::{self, Lobby},
    watchdog::Watched,
};
use crate::{
    clock,
    fleet::{Model, ModelState, ReplicaTarget},
    upstream::Target,
};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Aim {
    /// The replica that was decided on; `None` where vLLM chooses or the call takes no slot.
    decided: Option<ReplicaIndex>,
    /// Whose address it is.
    pub(super) listed: Option<ReplicaIndex>,
    /// The rank to name.
    pub(super) rank: Option<u32>,
    pub(super) target: Arc<Target>,
}

impl Aim {
    /// Whose progress a request sent there waits for.
    pub(super) fn watched(&self, call: &Call) -> Watched {
        match (&call.question, self.decided) {
            (None, _) => Watched::Nobody,
            (Some(_), Some(replica)) => Watched::Replica(replica),
            (Some(_), None) => Watched::Busy,
        }
    }
}

/// The first attempt's: the router decides, unless the call takes no slot.
pub(super) async fn first(
    gateway: &Gateway,
    call: &Call,
    ledger: &mut Ledger,
    lobby: &Lobby,
) -> Result<Aim, GatewayError> {
    let model = &call.model;
    model.demand.ask(clock::now());
    lobby::awake(gateway, call, lobby).await?;
    if model.state() == ModelState::Stopped {
        let cause = "an operator stopped it".to_owned();
        return Err(GatewayError::loading(&model.name, cause));
    }
    let Some(question) = &call.question else {
        return passing(gateway, call, None).ok_or_else(|| unavailable(model, &Refusal::NoReplica));
    };
    let admitted = model.router.admit(clock::now(), question);
    match lobby::decision(gateway, call, admitted, (ledger, lobby)).await? {
        Ok(decision) => decided(gateway, call, decision, ledger),
        Err(refusal @ Refusal::PinOutOfRange { .. }) => Err(GatewayError::Pin(refusal)),
        Err(refusal @ Refusal::QueueTooLong { .. }) => Err(GatewayError::QueueTooLong(refusal)),
        Err(refusal) => Err(unavailable(model, &refusal)),
    }
}

/// The second attempt's, on another replica (a pinned request's on its own, and where vLLM chooses
/// by the same address); the failure's own verdict where there is none.
pub(super) async fn another(
    gateway: &Gateway,
    call: &Call,
    (failed, failure): (&Aim, Failure),
    (ledger, lobby): (&mut Ledger, &Lobby),
) -> Result<Aim, GatewayError> {
    if matches!(ledger.routed(), Some((Route::Pinned, _))) {
        return Ok(failed.clone());
    }
    let Some(ticket) = ledger.ticket() else {
        return passing(gateway, call, Some(failed)).ok_or_else(|| failure.verdict(gateway, call));
    };
    let Some(replica) = failed.decided else {
        // vLLM's own balancer chose, and chooses again.
        return Ok(failed.clone());
    };
    let admitted = call.model.router.readmit(clock::now(), ticket, replica);
    match lobby::decision(gateway, call, admitted, (ledger, lobby)).await? {
        Ok(decision) => decided(gateway, call, decision, ledger),
        Err(_) => Err(failure.verdict(gateway, call)),
    }
}

/// Nobody can take a request for this model now.
pub(super) fn unavailable(model: &Model, cause: &dyn Display) -> GatewayError {
    let state = model.state.read().unwrap_or_else(PoisonError::into_inner);
    match &*state {
        ModelState::Loading(what) => {
            GatewayError::loading(&model.name, format!("it is loading: {what}"))
        }
        ModelState::Failed(what) => {
            GatewayError::loading(&model.name, format!("it has failed: {what}"))
        }
        ModelState::Asleep => {
            GatewayError::loading(&model.name, "it is being started on demand".to_owned())
        }
        ModelState::Drained => {
            GatewayError::no_replica(&model.name, "an operator drained it".to_owned())
        }
        ModelState::Ready | ModelState::Degraded(_) | ModelState::Stopped => {
            GatewayError::no_replica(&model.name, cause.to_string())
        }
    }
}

fn decided(
    gateway: &Gateway,
    call: &Call,
    decision: Decision,
    ledger: &mut Ledger,
) -> Result<Aim, GatewayError> {
    let replica = decision.replica;
    ledger.decided(&call.model, clock::now(), decision);
    let targets = targets(&call.model);
    let listed = replica.unwrap_or(ReplicaIndex(0));
    let Some(target) = targets.get(usize::from(listed.0)) else {
        return Err(unavailable(&call.model, &Refusal::NoReplica));
    };
    Ok(Aim {
        decided: replica,
        listed: Some(listed),
        rank: replica.and(target.rank),
        target: gateway
            .pool
            .target(&target.url)
            .map_err(GatewayError::Address)?,
    })
}

/// For calls that take no slot: replicas in turn, those that are up first; after a failure one at
/// another address.
fn passing(gateway: &Gateway, call: &Call, failed: Option<&Aim>) -> Option<Aim> {
    let targets = targets(&call.model);
    let snapshot = call.model.router.lock().snapshot(clock::now());
    let is_up = |index: usize| snapshot.replicas.get(index).is_some_and(|view| view.up);
    let start = gateway.turn.fetch_add(1, Ordering::Relaxed);
    let in_turn = || (0..targets.len()).map(|i| (start + i) % targets.len());
    let aim_at = |index: usize| {
        let target = gateway.pool.target(&targets[index].url).ok()?;
        let elsewhere = failed.is_none_or(|failed| !Arc::ptr_eq(&failed.target, &target));
        elsewhere.then_some(Aim {
            decided: None,
            listed: Some(ReplicaIndex(index as u16)),
            rank: None,
            target,
        })
    };
    in_turn()
        .filter(|index| is_up(*index))
        .find_map(aim_at)
        .or_else(|| in_turn().find_map(aim_at))
}

fn targets(model: &Model) -> Arc<[ReplicaTarget]> {
    Arc::clone(&model.targets.read().unwrap_or_else(PoisonError::into_inner))
}
