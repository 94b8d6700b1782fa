//! A crowded machine: two replicas of 40,000 tokens, conversations of 10,000 tokens each of which
//! 1,000 are shared, so that four conversations fit each replica.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::fleet::*;
use crate::{
    Admission, Decision, Event, LeaseMode, LeaseSettings, LeaseState, LeaseView, OwnerId, Refusal,
    Request, Settings, Steering, Ticket, Usage, Wait,
};

/// Own tokens of a conversation, before its answer.
pub(super) const OWN_TOKENS: u64 = 9000;
pub(super) const SHARED_TOKENS: u64 = 1000;
pub(super) const OUTPUT_TOKENS: u64 = 100;
pub(super) const KV_TOKENS: u64 = 40_000;

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Came {
    Went(Decision),
    Waits(Wait),
    Refused(Refusal),
}

pub(super) struct Hall {
    pub(super) fleet: Fleet,
    /// Ends of waits that were told.
    pub(super) granted: BTreeMap<Ticket, Result<Decision, Refusal>>,
}

pub(super) fn crowded(leases: LeaseSettings) -> Settings {
    Settings {
        spill_threshold: Some(100),
        leases: LeaseSettings {
            mode: LeaseMode::Auto,
            ..leases
        },
        ..settings(Steering::Urls)
    }
}

pub(super) fn turn_of(session: u32) -> Request {
    Request {
        prompt_bytes: 4 * (OWN_TOKENS + SHARED_TOKENS),
        shared_bytes: 4 * SHARED_TOKENS,
        streams: true,
        ..request(session)
    }
}

pub(super) fn by(owner: u32, session: u32) -> Request {
    Request {
        owner: OwnerId(owner),
        ..turn_of(session)
    }
}

impl Hall {
    pub(super) fn new() -> Self {
        Self::with(LeaseSettings::default())
    }

    pub(super) fn with(leases: LeaseSettings) -> Self {
        Self::of(crowded(leases), 2)
    }

    pub(super) fn of(settings: Settings, replicas: u16) -> Self {
        Self {
            fleet: Fleet::with(settings, replicas, Some(KV_TOKENS)),
            granted: BTreeMap::new(),
        }
    }

    pub(super) fn leases(&self) -> LeaseView {
        self.fleet.router.snapshot(self.fleet.now).leases
    }

    pub(super) fn is_contended(&self) -> bool {
        matches!(self.leases().state, LeaseState::Contended { .. })
    }

    pub(super) fn pass_ms(&mut self, milliseconds: u64) {
        self.fleet.now = self.fleet.now.plus(Duration::from_millis(milliseconds));
        self.advance();
    }

    pub(super) fn advance(&mut self) {
        for grant in self.fleet.router.advance(self.fleet.now) {
            let twice = self.granted.insert(grant.ticket, grant.decision);
            assert_eq!(twice, None, "granted twice");
        }
        self.fleet.router.audit_leases();
    }

    pub(super) fn ask(&mut self, request: &Request) -> Came {
        let came = match self.fleet.router.admit(self.fleet.now, request) {
            Ok(Admission::Go(decision)) => Came::Went(decision),
            Ok(Admission::Wait(wait)) => Came::Waits(wait),
            Err(refusal) => Came::Refused(refusal),
        };
        self.advance();
        came
    }

    pub(super) fn goes(&mut self, request: &Request) -> Decision {
        match self.ask(request) {
            Came::Went(decision) => decision,
            other => panic!("it does not go: {other:?}"),
        }
    }

    pub(super) fn waits(&mut self, request: &Request) -> Wait {
        match self.ask(request) {
            Came::Waits(wait) => wait,
            other => panic!("it does not wait: {other:?}"),
        }
    }

    pub(super) fn observe(&mut self, event: Event) {
        self.fleet.observe(event);
        self.advance();
    }

    pub(super) fn finish_now(&mut self, ticket: Ticket, cached_tokens: u64) {
        let usage = Usage {
            prompt_tokens: OWN_TOKENS + SHARED_TOKENS,
            cached_tokens: Some(cached_tokens),
            completion_tokens: OUTPUT_TOKENS,
        };
        self.observe(Event::Finished(ticket, Some(usage)));
    }

    /// Turns that begin together; in half a second each has its first byte.
    pub(super) fn begin_all(&mut self, requests: &[Request]) -> Vec<Decision> {
        let decisions: Vec<_> = requests.iter().map(|request| self.goes(request)).collect();
        self.pass_ms(500);
        for decision in &decisions {
            self.observe(Event::FirstByte(decision.ticket));
        }
        decisions
    }

    /// A turn of each, at the same time, a second long; each finds so many tokens.
    pub(super) fn round(&mut self, requests: &[Request], cached_tokens: u64) {
        let decisions = self.begin_all(requests);
        self.pass_ms(500);
        for decision in decisions {
            self.finish_now(decision.ticket, cached_tokens);
        }
    }

    /// Sessions 0 to 11 have thrashed until leases began; all of them are silent since long.
    pub(super) fn contended() -> Self {
        Self::contended_with(LeaseSettings::default())
    }

    pub(super) fn contended_with(leases: LeaseSettings) -> Self {
        Self::contended_of(crowded(leases))
    }

    pub(super) fn contended_of(settings: Settings) -> Self {
        let mut hall = Self::of(settings, 2);
        hall.contend();
        hall
    }

    /// Makes it so.
    pub(super) fn contend(&mut self) {
        let requests: Vec<_> = (0..12).map(turn_of).collect();
        self.round(&requests, SHARED_TOKENS);
        let mut decisions = self.begin_all(&requests);
        self.pass_ms(500);
        for decision in decisions.drain(..8) {
            assert!(!self.is_contended());
            self.finish_now(decision.ticket, SHARED_TOKENS);
        }
        assert!(self.is_contended());
        for decision in decisions {
            self.observe(Event::Aborted(decision.ticket));
        }
        self.pass_ms(5000);
    }

    /// Contended, and sessions 100 to 107 hold all there is: four on each replica.
    pub(super) fn full() -> (Self, Vec<Decision>) {
        Self::full_with(LeaseSettings::default())
    }

    pub(super) fn full_with(leases: LeaseSettings) -> (Self, Vec<Decision>) {
        let mut hall = Self::contended_with(leases);
        // The load stays above what ends leases, however long a test lasts.
        let holders = (100..108).map(|session| hall.goes(&turn_of(session)));
        let holders: Vec<Decision> = holders.collect();
        assert_eq!(hall.fleet.in_flight(), [4, 4]);
        (hall, holders)
    }
}
