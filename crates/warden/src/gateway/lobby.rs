//! Where a request waits for room on a replica, or for a model on demand to start, and what its client hears meanwhile.
//!
//! A client that asked for a stream hears nothing for the first seconds, so that an error keeps its
//! status; then it gets the head of its stream and a sign of life now and then, so that neither it nor
//! a proxy on the way gives up. A client that did not is left to its own patience: there is nothing
//! that could be said to it. When a wait ends is the router's matter.

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use routing::{Decision, Refusal};
use tokio::time::sleep;

use super::{Gateway, call::Call, error::GatewayError, forward::Answer, ledger::Ledger};
use crate::{
    clock,
    fleet::{Admitted, ModelState},
};

/// How long a waiting stream hears nothing, and how often it hears something after that.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);

/// How long a stream waits for a model on demand: as long as a start may take by default. It may also
/// wait for its cards, which nobody can foretell.
const START_MAX: Duration = Duration::from_secs(30 * 60);

/// A request being served, from its decision to its reply's first bytes, with its account.
pub(super) type Serving =
    Pin<Box<dyn Future<Output = (Result<Answer, GatewayError>, Ledger)> + Send>>;

/// Whether a stream has waited so long that its client should hear something. Clones share it: the
/// request that waits says it, and who answers its client asks.
#[derive(Debug, Clone, Default)]
pub(super) struct Lobby(Arc<AtomicBool>);

impl Lobby {
    /// Whether signs of life are due.
    pub(super) fn is_long(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set_long(&self, is_long: bool) {
        self.0.store(is_long, Ordering::Relaxed);
    }

    /// Serves until there is an answer, or until its client should hear something (`None`).
    pub(super) async fn serve(
        &self,
        serving: &mut Serving,
    ) -> Option<(Result<Answer, GatewayError>, Ledger)> {
        poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(served) => Poll::Ready(Some(served)),
            Poll::Pending if self.is_long() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Runs out of patience, and never returns.
    async fn patience(&self, streams: bool) -> Infallible {
        if streams {
            sleep(PING_EVERY).await;
            self.set_long(true);
        }
        pending().await
    }
}

/// Waits for a model on demand that is being started, where a stream was asked for. Whether it serves
/// then is seen by whoever asks for a replica.
pub(super) async fn awake(
    gateway: &Gateway,
    call: &Call,
    lobby: &Lobby,
) -> Result<(), GatewayError> {
    let model = &call.model;
    let streams = call.question.is_some_and(|question| question.streams);
    if !streams || !model.demand.starts_engine() || !is_starting(&model.state()) {
        return Ok(());
    }
    let ended = tokio::select! {
        biased;
        () = model.left_state(is_starting) => Ok(()),
        () = gateway.activity.closing() => Err(GatewayError::stopping(&model.name)),
        () = sleep(START_MAX) => Ok(()),
        never = lobby.patience(true) => match never {},
    };
    lobby.set_long(false);
    ended
}

fn is_starting(state: &ModelState) -> bool {
    matches!(state, ModelState::Asleep | ModelState::Loading(_))
}

/// The decision on an admitted request, after its wait if it has to wait. The outer error ends the
/// request: the warden is stopping.
pub(super) async fn decision(
    gateway: &Gateway,
    call: &Call,
    admitted: Result<Admitted, Refusal>,
    (ledger, lobby): (&mut Ledger, &Lobby),
) -> Result<Result<Decision, Refusal>, GatewayError> {
    let (wait, mut waiter) = match admitted {
        Ok(Admitted::Go(decision)) => return Ok(Ok(decision)),
        Ok(Admitted::Wait(wait, waiter)) => (wait, waiter),
        Err(refusal) => return Ok(Err(refusal)),
    };
    ledger.waits(&call.model, clock::now(), wait);
    let streams = call.question.is_some_and(|question| question.streams);
    let ended = tokio::select! {
        biased;
        outcome = waiter.end() => Ok(outcome),
        () = gateway.activity.closing() => Err(GatewayError::stopping(&call.model.name)),
        never = lobby.patience(streams) => match never {},
    };
    lobby.set_long(false);
    ended
}
