//! One request's account with the router and with telemetry.
//!
//! It is tied to the life of the request and then of the reply's body: whatever ends them, the
//! request is counted out exactly once, also when a client vanishes or a task is dropped.

use std::{sync::Arc, time::Duration};

use routing::{Decision, Event, OwnerId, ReplicaIndex, Route, Ticket, Time, Wait};
use vllm::Usage;

use super::{activity::Presence, error::CLIENT_GONE_STATUS};
use crate::{
    clock,
    fleet::Model,
    keys::Admission,
    telemetry::{End, RequestEvent, RequestId, RequestInfo, Telemetry},
};

/// How often a reply's progress is told to the router at most.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What is noted where a fault of ours ended it.
const PANIC_STATUS: u16 = 500;

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    telemetry: Arc<Telemetry>,
    presence: Presence,
    /// What is known so far; taken when it is told.
    info: Option<RequestInfo>,
    id: RequestId,
    ticket: Option<(Arc<Model>, Ticket)>,
    routed: Option<(Route, Option<ReplicaIndex>)>,
    /// Whose it is, and its place in their account.
    owner: OwnerId,
    admission: Option<Admission>,
    /// When the request was understood, and when it was first given a replica.
    understood: Time,
    placed: Option<Time>,
    first_byte_told: bool,
    progress_told: Time,
    ended: bool,
}

impl Ledger {
    pub(super) fn open(telemetry: Arc<Telemetry>, presence: Presence, info: RequestInfo) -> Self {
        Self {
            telemetry,
            presence,
            id: info.id,
            understood: info.arrived,
            info: Some(info),
            ticket: None,
            routed: None,
            owner: OwnerId::default(),
            admission: None,
            placed: None,
            first_byte_told: false,
            progress_told: Time::default(),
            ended: false,
        }
    }

    pub(super) fn id(&self) -> RequestId {
        self.id
    }

    /// It came with a key.
    pub(super) fn is_of(&mut self, owner: OwnerId, admission: Admission) {
        (self.owner, self.admission) = (owner, Some(admission));
    }

    /// Whose it is; the default without a key.
    pub(super) fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The size of its prompt.
    pub(super) fn prompt_bytes(&mut self, bytes: u64) {
        if let Some(admission) = &mut self.admission {
            admission.prompt_bytes(bytes);
        }
    }

    /// The last decision.
    pub(super) fn routed(&self) -> Option<(Route, Option<ReplicaIndex>)> {
        self.routed
    }

    /// Milliseconds that the request was held back here once it was understood.
    pub(super) fn queue_ms(&self) -> u64 {
        let held = self
            .placed
            .map_or(Duration::ZERO, |at| at.since(self.understood));
        held.as_millis() as u64
    }

    /// The request is understood: completes what is known of it and tells it.
    pub(super) fn arrived(&mut self, complete: impl FnOnce(&mut RequestInfo)) {
        if let Some(mut info) = self.info.take() {
            complete(&mut info);
            self.understood = clock::now();
            self.telemetry.record(RequestEvent::Arrived(info));
        }
    }

    /// The router lets the request wait.
    pub(super) fn waits(&mut self, model: &Arc<Model>, now: Time, wait: Wait) {
        self.ticket
            .get_or_insert_with(|| (Arc::clone(model), wait.ticket));
        self.telemetry
            .record(RequestEvent::Waits(self.id, now, wait));
    }

    /// The router has counted the request in.
    pub(super) fn decided(&mut self, model: &Arc<Model>, now: Time, decision: Decision) {
        if self.ticket.is_none() {
            self.ticket = Some((Arc::clone(model), decision.ticket));
        }
        self.routed = Some((decision.route, decision.replica));
        self.placed.get_or_insert(now);
        self.telemetry
            .record(RequestEvent::Routed(self.id, now, decision));
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.ticket.as_ref().map(|(_, ticket)| *ticket)
    }

    /// Bytes of the reply came; `first_event` says whether any of them so far was more than a
    /// ping or a comment.
    pub(super) fn bytes(&mut self, now: Time, first_event: bool) {
        if self.progress_told == Time::default() {
            self.progress_told = now;
            self.observe(now, Event::FirstByte);
        } else if now.since(self.progress_told) >= PROGRESS_EVERY {
            self.progress_told = now;
            self.observe(now, Event::Progress);
        }
        if first_event && !self.first_byte_told {
            self.first_byte_told = true;
            self.telemetry.record(RequestEvent::FirstByte(self.id, now));
        }
    }

    /// It is over; every later call does nothing.
    pub(super) fn end(&mut self, end: End, status: u16, usage: Option<Usage>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let at = clock::now();
        if end == End::Complete {
            let usage = usage.map(|usage| routing::Usage {
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                completion_tokens: usage.completion_tokens,
            });
            self.observe(at, |ticket| Event::Finished(ticket, usage));
        } else {
            self.observe(at, Event::Aborted);
        }
        if let Some(admission) = self.admission.take() {
            match end {
                End::Refused | End::EngineError | End::Lost => admission.finish(usage, false),
                _ => admission.finish(usage, true),
            }
        }
        self.arrived(|_| ());
        self.telemetry.record(RequestEvent::Ended {
            id: self.id,
            at,
            end,
            status,
            usage,
        });
    }

    fn observe(&self, now: Time, event: impl FnOnce(Ticket) -> Event) {
        if let Some((model, ticket)) = &self.ticket {
            model.router.lock().observe(now, event(*ticket));
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if std::thread::panicking() {
            self.end(End::Internal, PANIC_STATUS, None);
        } else if self.presence.is_cut_off() {
            self.end(End::Shutdown, CLIENT_GONE_STATUS, None);
        } else {
            self.end(End::ClientGone, CLIENT_GONE_STATUS, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gateway::activity::Activity, telemetry::Filter};

    #[test]
    fn a_panic_is_counted_as_ours_and_not_as_the_clients_leaving() {
        let telemetry = Arc::new(Telemetry::new([("m", 1)], clock::now()));
        let activity = Activity::default();
        let info = RequestInfo {
            id: RequestId(1),
            arrived: clock::now(),
            model: None,
            dialect: vllm::Dialect::Messages,
            path: "/v1/messages",
            identity: None,
            owner: None,
            stream: false,
            prompt: None,
        };
        let ledger = Ledger::open(Arc::clone(&telemetry), activity.enter(), info);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = ledger;
            panic!("as in a test");
        }));
        assert!(caught.is_err());
        let requests = telemetry.requests(&Filter {
            limit: 1,
            ..Filter::default()
        });
        let told = (requests[0].status, requests[0].end);
        assert_eq!(told, (Some(500), Some(api::RequestEnd::Internal)));
        assert_eq!(activity.present(), 0);
    }
}
