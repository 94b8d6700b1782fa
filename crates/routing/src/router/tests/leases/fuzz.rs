//! Any order of events: no request is lost, doubled or forgotten, and no wait outlasts its bound.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::super::fleet::*;
use super::hall::{KV_TOKENS, crowded};
use crate::{
    Admission, Decision, Event, Grant, HostTier, LeaseMode, LeaseRule, LeaseSettings, OwnerId,
    Refusal, Request, RequestClass, Ticket, Time, Usage,
};

const REPLICAS: u16 = 3;

/// Bound of a plain request's wait in this run, seconds; a stream's is twice as long.
const WAIT_S_MAX: u64 = 60;

#[derive(Debug, Clone)]
enum Step {
    Ask {
        session: u32,
        owner: u32,
        pin: Option<i64>,
        steerable: bool,
        kilobytes: u64,
        class: u8,
        streams: bool,
    },
    FirstByte(usize),
    /// The share of the prompt that was cached, in eighths.
    Finish(usize, u64),
    Abort(usize),
    Leave(usize),
    Readmit(usize),
    Replica(u16, u8),
    Settings(bool, bool, u32),
    Move(u32, u16),
    Forget(u32),
    Pass(u64),
}

fn ask() -> impl Strategy<Value = Step> {
    let numbers = (0..24u32, 0..3u32, 4..120u64, 0..8u8);
    let pin = prop::option::weighted(0.05, -1..i64::from(REPLICAS) + 1);
    let flags = (prop::bool::weighted(0.95), any::<bool>());
    (numbers, pin, flags).prop_map(
        |((session, owner, kilobytes, class), pin, (steerable, streams))| Step::Ask {
            session,
            owner,
            pin,
            steerable,
            kilobytes,
            class,
            streams,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => ask(),
        2 => (0..50usize).prop_map(Step::FirstByte),
        10 => (0..50usize, 0..8u64).prop_map(|(flight, cached)| Step::Finish(flight, cached)),
        1 => (0..50usize).prop_map(Step::Abort),
        1 => (0..50usize).prop_map(Step::Leave),
        1 => (0..50usize).prop_map(Step::Readmit),
        2 => (0..=REPLICAS, 0..11u8).prop_map(|(replica, what)| Step::Replica(replica, what)),
        1 => (prop::bool::weighted(0.9), prop::bool::weighted(0.9), 0..5u32)
            .prop_map(|(affinity, leases, turns)| Step::Settings(affinity, leases, turns)),
        1 => (0..24u32, 0..=REPLICAS).prop_map(|(session, to)| Step::Move(session, to)),
        1 => (0..24u32).prop_map(Step::Forget),
        6 => prop_oneof![0..2000u64, 5000..90_000u64].prop_map(Step::Pass),
    ]
}

fn leases(switches: bool) -> LeaseSettings {
    LeaseSettings {
        queue_wait_max: Duration::from_secs(WAIT_S_MAX),
        model_tokens_max: Some(28_000),
        rule: LeaseRule {
            switches,
            ..LeaseRule::default()
        },
        ..LeaseSettings::default()
    }
}

/// A request that waits, as counted here.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    since: Time,
    streams: bool,
}

/// A fleet, and a plain account of what must be true of it.
struct Run {
    fleet: Fleet,
    flying: BTreeMap<Ticket, Option<crate::ReplicaIndex>>,
    waiting: BTreeMap<Ticket, Waiter>,
    prompts: BTreeMap<Ticket, u64>,
    /// The replica that a pinned request may go to, and the one that a resent one may not.
    only: BTreeMap<Ticket, crate::ReplicaIndex>,
    not: BTreeMap<Ticket, crate::ReplicaIndex>,
    /// Everything the router said, for comparison with another run.
    said: Vec<Result<Admission, Refusal>>,
    grants: Vec<Grant>,
}

impl Run {
    fn new(switches: bool) -> Self {
        Self {
            fleet: Fleet::with(crowded(leases(switches)), REPLICAS, Some(KV_TOKENS)),
            flying: BTreeMap::new(),
            waiting: BTreeMap::new(),
            prompts: BTreeMap::new(),
            only: BTreeMap::new(),
            not: BTreeMap::new(),
            said: Vec::new(),
            grants: Vec::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        let now = self.fleet.now;
        match *step {
            Step::Ask { .. } => self.ask(step),
            Step::FirstByte(at) => {
                if let Some(ticket) = pick(&self.flying, at) {
                    self.fleet.observe(Event::FirstByte(ticket));
                }
            }
            Step::Finish(at, cached) => {
                if let Some(ticket) = pick(&self.flying, at) {
                    self.flying.remove(&ticket);
                    let prompt_tokens = self.prompts[&ticket];
                    let usage = Usage {
                        prompt_tokens,
                        cached_tokens: (cached > 0).then_some(prompt_tokens * cached / 8),
                        completion_tokens: 50,
                    };
                    self.fleet.observe(Event::Finished(ticket, Some(usage)));
                }
            }
            Step::Abort(at) => {
                if let Some(ticket) = pick(&self.flying, at) {
                    self.flying.remove(&ticket);
                    self.fleet.observe(Event::Aborted(ticket));
                }
            }
            Step::Leave(at) => {
                if let Some(ticket) = pick(&self.waiting, at) {
                    self.waiting.remove(&ticket);
                    self.fleet.observe(Event::Aborted(ticket));
                }
            }
            Step::Readmit(at) => self.readmit(at),
            Step::Replica(replica, what) => self.fleet.observe(event(replica, what)),
            Step::Settings(affinity, on, turns) => self.fleet.configure(|settings| {
                settings.affinity = affinity;
                settings.leases.mode = if on { LeaseMode::Auto } else { LeaseMode::Off };
                settings.leases.turns = (turns > 0).then_some(turns);
            }),
            Step::Move(session, to) => {
                let key = identity(session).conversation;
                self.fleet.router.move_conversation(now, key, r(to));
            }
            Step::Forget(session) => {
                self.fleet.router.forget(identity(session).conversation);
            }
            Step::Pass(milliseconds) => {
                self.fleet.now = now.plus(Duration::from_millis(milliseconds));
            }
        }
        self.settle();
    }

    fn ask(&mut self, step: &Step) {
        let Step::Ask {
            session,
            owner,
            pin,
            steerable,
            kilobytes,
            class,
            streams,
        } = *step
        else {
            return;
        };
        let request = Request {
            owner: OwnerId(owner),
            identity: (class != 7).then(|| identity(session * 3 + owner)),
            pin,
            steerable,
            prompt_bytes: kilobytes * 1000,
            shared_bytes: 4000,
            class: if class == 6 {
                RequestClass::Side
            } else {
                RequestClass::Unknown
            },
            streams,
            ..request(0)
        };
        let said = self.fleet.router.admit(self.fleet.now, &request);
        let ticket = match &said {
            Ok(Admission::Go(decision)) => Some(decision.ticket),
            Ok(Admission::Wait(wait)) => Some(wait.ticket),
            Err(_) => None,
        };
        if let (Some(ticket), Some(pin)) = (ticket, pin) {
            self.only.insert(ticket, r(u16::try_from(pin).unwrap()));
        }
        match &said {
            Ok(Admission::Go(decision)) => {
                self.prompts.insert(decision.ticket, kilobytes * 250);
                self.takes_off(decision);
            }
            Ok(Admission::Wait(wait)) => {
                self.prompts.insert(wait.ticket, kilobytes * 250);
                let since = self.fleet.now;
                let twice = self.waiting.insert(wait.ticket, Waiter { since, streams });
                assert!(twice.is_none(), "waits twice");
            }
            Err(_) => {}
        }
        self.said.push(said);
    }

    fn readmit(&mut self, at: usize) {
        let Some(ticket) = pick(&self.flying, at) else {
            return;
        };
        let Some(failed) = self.flying[&ticket] else {
            return;
        };
        let said = self.fleet.router.readmit(self.fleet.now, ticket, failed);
        match &said {
            Ok(Admission::Go(decision)) => {
                assert_ne!(decision.replica, Some(failed));
                assert_eq!(decision.ticket, ticket);
                self.flying.insert(ticket, decision.replica);
            }
            Ok(Admission::Wait(wait)) => {
                assert_eq!(wait.ticket, ticket);
                self.flying.remove(&ticket);
                self.not.insert(ticket, failed);
                let since = self.fleet.now;
                // A stream's bound is the longer one.
                let streams = true;
                self.waiting.insert(ticket, Waiter { since, streams });
            }
            // Its ticket is spent.
            Err(_) => {
                self.flying.remove(&ticket);
            }
        }
        self.said.push(said);
    }

    fn takes_off(&mut self, decision: &Decision) {
        let replica = decision.replica;
        assert!(replica.is_none() || replica != self.not.get(&decision.ticket).copied());
        if let Some(only) = self.only.get(&decision.ticket) {
            assert_eq!(replica, Some(*only), "a pin is heeded");
        }
        let twice = self.flying.insert(decision.ticket, decision.replica);
        assert!(twice.is_none(), "flies twice");
    }

    /// Takes the ends of waits, and compares the two accounts.
    fn settle(&mut self) {
        for grant in self.fleet.router.advance(self.fleet.now) {
            assert!(
                self.waiting.remove(&grant.ticket).is_some(),
                "granted without waiting: {grant:?}"
            );
            if let Ok(decision) = &grant.decision {
                assert_eq!(decision.ticket, grant.ticket);
                self.takes_off(decision);
            }
            self.grants.push(grant);
        }
        self.fleet.router.audit_leases();
        let now = self.fleet.now;
        let snapshot = self.fleet.router.snapshot(now);
        assert_eq!(snapshot.leases.waiting, self.waiting.len());
        assert_eq!(snapshot.in_flight as usize, self.flying.len());
        for waiter in self.waiting.values() {
            let patience = if waiter.streams { 2 } else { 1 };
            let bound = Duration::from_secs(WAIT_S_MAX * patience * 5 / 6);
            assert!(now.since(waiter.since) < bound, "{waiter:?} at {now:?}");
        }
        let wakeup = self.fleet.router.next_wakeup(now);
        assert!(self.waiting.is_empty() || wakeup.is_some());
    }
}

fn pick<V>(from: &BTreeMap<Ticket, V>, at: usize) -> Option<Ticket> {
    from.keys().nth(at % from.len().max(1)).copied()
}

fn tier(tokens: u64, tokens_per_s: f64) -> HostTier {
    HostTier {
        tokens,
        tokens_per_s,
    }
}

fn event(replica: u16, what: u8) -> Event {
    match what {
        0 => Event::ConnectFailed(r(replica)),
        1 => Event::ProbeFailed(r(replica)),
        2 | 3 => Event::ProbeSucceeded(r(replica)),
        4 => Event::EngineRestarted(r(replica)),
        5 => Event::Drain(r(replica)),
        6 => Event::Undrain(r(replica)),
        // Host memory that is worth leasing, that is too slow for it, and none.
        7 => Event::HostTier(r(replica), Some(tier(80_000, 1e6))),
        8 => Event::HostTier(r(replica), Some(tier(60_000, 20_000.0))),
        9 => Event::HostTier(r(replica), None),
        _ => Event::Scraped(r(replica), gauges(1, 1)),
    }
}

proptest! {
    #[test]
    fn no_request_is_lost_doubled_or_forgotten_and_no_wait_outlasts_its_bound(
        switches in any::<bool>(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut run = Run::new(switches);
        for step in &steps {
            run.apply(step);
        }
        // Everything in flight ends, and with every replica up all that waits is let in.
        for replica in 0..REPLICAS {
            run.apply(&Step::Replica(replica, 6));
            run.apply(&Step::Replica(replica, 2));
        }
        for _ in 0..2000 {
            if run.flying.is_empty() && run.waiting.is_empty() {
                break;
            }
            run.apply(&Step::Finish(0, 7));
            run.apply(&Step::Pass(1000));
        }
        prop_assert!(run.waiting.is_empty(), "{:?}", run.waiting);
        prop_assert!(run.flying.is_empty());
        prop_assert_eq!(run.fleet.in_flight(), vec![0; usize::from(REPLICAS)]);
    }

    #[test]
    fn the_same_inputs_give_the_same_waits(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let replay = || {
            let mut run = Run::new(false);
            for step in &steps {
                run.apply(step);
            }
            (run.said, run.grants)
        };
        prop_assert_eq!(replay(), replay());
    }
}
