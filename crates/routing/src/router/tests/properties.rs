//! What holds whatever happens in whatever order.

use std::time::Duration;

use proptest::prelude::*;

use super::fleet::*;
use crate::{
    Decision, Event, HomeChange, OwnerId, Refusal, ReplicaIndex, Request, RequestClass, Route,
    Settings, Snapshot, Steering, Ticket,
};

const REPLICAS: u16 = 4;
const CONVERSATIONS_MAX: usize = 12;

/// One thing that happens. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum Step {
    Route {
        session: u32,
        owner: u32,
        pin: Option<i64>,
        steerable: bool,
        kilobytes: u64,
        lineage: u64,
        class: u8,
    },
    Reroute(usize),
    FirstByte(usize),
    Finish(usize, u64),
    Abort(usize),
    Replica(u16, u8, u32),
    Settings {
        affinity: bool,
        threshold: Option<u32>,
        conversations_max: usize,
    },
    Move(u32, u16),
    Forget(u32),
    Export,
    Pass(u64),
}

fn route() -> impl Strategy<Value = Step> {
    let numbers = (0..30u32, 0..3u32, 1..200u64, 0..3u64, 0..6u8);
    let pin = prop::option::weighted(0.1, -1..i64::from(REPLICAS) + 1);
    (numbers, pin, prop::bool::weighted(0.9)).prop_map(
        |((session, owner, kilobytes, lineage, class), pin, steerable)| Step::Route {
            session,
            owner,
            pin,
            steerable,
            kilobytes,
            lineage,
            class,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => route(),
        1 => (0..50usize).prop_map(Step::Reroute),
        2 => (0..50usize).prop_map(Step::FirstByte),
        4 => (0..50usize, 0..100_000u64).prop_map(|(flight, tokens)| Step::Finish(flight, tokens)),
        2 => (0..50usize).prop_map(Step::Abort),
        6 => (0..=REPLICAS, 0..8u8, 0..4u32).prop_map(|(r, what, n)| Step::Replica(r, what, n)),
        1 => (prop::bool::weighted(0.8), prop::option::of(0..4u32), 0..CONVERSATIONS_MAX + 1)
            .prop_map(|(affinity, threshold, conversations_max)| Step::Settings {
                affinity,
                threshold,
                conversations_max,
            }),
        1 => (0..30u32, 0..=REPLICAS).prop_map(|(session, to)| Step::Move(session, to)),
        1 => (0..30u32).prop_map(Step::Forget),
        1 => Just(Step::Export),
        3 => prop_oneof![0..5u64, 100..5000u64].prop_map(Step::Pass),
    ]
}

fn steering() -> impl Strategy<Value = Steering> {
    prop_oneof![Just(Steering::Ranks), Just(Steering::Urls)]
}

fn bounded(steering: Steering) -> Settings {
    Settings {
        conversations_max: CONVERSATIONS_MAX,
        max_num_seqs: 8,
        ..settings(steering)
    }
}

/// A fleet, and a plain account of what must be true of it.
struct Run {
    fleet: Fleet,
    /// Tickets in flight and where.
    flying: Vec<(Ticket, Option<ReplicaIndex>)>,
    /// Everything the router said.
    said: Vec<Result<Decision, Refusal>>,
    changes: Vec<HomeChange>,
}

impl Run {
    fn new(steering: Steering) -> Self {
        Self {
            fleet: Fleet::with(bounded(steering), REPLICAS, Some(60_000)),
            flying: Vec::new(),
            said: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Route { .. } => self.route(step),
            Step::Reroute(flight) => self.reroute(flight),
            Step::FirstByte(flight) => {
                if let Some((ticket, _)) = self.pick(flight) {
                    self.fleet.observe(Event::FirstByte(ticket));
                }
            }
            Step::Finish(flight, tokens) => {
                if let Some((ticket, _)) = self.pick(flight) {
                    let usage = (tokens > 1000).then(|| usage(tokens, tokens / 10));
                    self.fleet.observe(Event::Finished(ticket, usage));
                    self.flying.retain(|(flying, _)| *flying != ticket);
                }
            }
            Step::Abort(flight) => {
                if let Some((ticket, _)) = self.pick(flight) {
                    self.fleet.observe(Event::Aborted(ticket));
                    self.flying.retain(|(flying, _)| *flying != ticket);
                }
            }
            Step::Replica(replica, what, number) => {
                self.fleet.observe(event(r(replica), what, number));
            }
            Step::Settings {
                affinity,
                threshold,
                conversations_max,
            } => self.fleet.configure(|s| {
                s.affinity = affinity;
                s.spill_threshold = threshold;
                s.conversations_max = conversations_max;
            }),
            Step::Move(session, to) => {
                let key = identity(session).conversation;
                self.fleet
                    .router
                    .move_conversation(self.fleet.now, key, r(to));
            }
            Step::Forget(session) => {
                self.fleet.router.forget(identity(session).conversation);
            }
            Step::Export => self.changes.extend(self.fleet.router.take_changes()),
            Step::Pass(seconds) => {
                self.fleet.now = self.fleet.now.plus(Duration::from_secs(seconds));
            }
        }
    }

    fn route(&mut self, step: &Step) {
        let Step::Route {
            session,
            owner,
            pin,
            steerable,
            kilobytes,
            lineage,
            class,
        } = *step
        else {
            return;
        };
        let said = self.fleet.try_route(&Request {
            owner: OwnerId(owner),
            // An owner's conversations are its own; one in six requests has no name.
            identity: (class != 5).then(|| identity(session * 3 + owner)),
            pin,
            steerable,
            prompt_bytes: kilobytes * 1000,
            shared_bytes: kilobytes * 300,
            lineage,
            class: match class {
                0 => RequestClass::Turn,
                1 => RequestClass::Side,
                _ => RequestClass::Unknown,
            },
            front: 0,
            streams: false,
        });
        if let Ok(decision) = &said {
            self.flying.push((decision.ticket, decision.replica));
        }
        self.said.push(said);
    }

    fn reroute(&mut self, flight: usize) {
        let Some((ticket, Some(failed))) = self.pick(flight) else {
            return;
        };
        let said = self.fleet.router.reroute(self.fleet.now, ticket, failed);
        if let Ok(decision) = &said {
            assert_ne!(decision.replica, Some(failed));
            for flying in &mut self.flying {
                if flying.0 == ticket {
                    flying.1 = decision.replica;
                }
            }
        }
        self.said.push(said);
    }

    fn pick(&self, flight: usize) -> Option<(Ticket, Option<ReplicaIndex>)> {
        let count = self.flying.len();
        (count > 0).then(|| self.flying[flight % count])
    }

    fn snapshot(&self) -> Snapshot {
        self.fleet.router.snapshot(self.fleet.now)
    }
}

fn event(replica: ReplicaIndex, what: u8, number: u32) -> Event {
    match what {
        0 => Event::ConnectFailed(replica),
        1 => Event::ProbeFailed(replica),
        2 | 3 => Event::ProbeSucceeded(replica),
        4 => Event::EngineRestarted(replica),
        5 => Event::Drain(replica),
        6 => Event::Undrain(replica),
        _ => Event::Scraped(replica, gauges(number, u64::from(number))),
    }
}

/// In flight as counted here, by replica.
fn counted(run: &Run) -> Vec<u32> {
    let count = |index| {
        let here = run.flying.iter().filter(|(_, at)| *at == Some(r(index)));
        u32::try_from(here.count()).expect("few requests")
    };
    (0..REPLICAS).map(count).collect()
}

proptest! {
    #[test]
    fn requests_in_flight_are_conserved_under_any_order_of_events(
        steering in steering(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut run = Run::new(steering);
        for step in &steps {
            run.apply(step);
            let snapshot = run.snapshot();
            prop_assert_eq!(run.fleet.in_flight(), counted(&run));
            prop_assert_eq!(snapshot.in_flight as usize, run.flying.len());
        }
        for (ticket, _) in std::mem::take(&mut run.flying) {
            run.fleet.observe(Event::Aborted(ticket));
        }
        prop_assert_eq!(run.fleet.in_flight(), vec![0; usize::from(REPLICAS)]);
        let views = run.fleet.router.conversations(run.fleet.now, usize::MAX);
        prop_assert!(views.iter().all(|view| view.in_flight == 0));
    }

    #[test]
    fn no_decision_goes_to_a_replica_that_is_out_or_wedged_while_another_is_in(
        steering in steering(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut run = Run::new(steering);
        for step in &steps {
            let before = run.snapshot().replicas;
            let answers = run.said.len();
            run.apply(step);
            for said in &run.said[answers..] {
                match said {
                    Ok(Decision { route, replica: Some(chosen), .. }) => {
                        let view = before[usize::from(chosen.0)];
                        prop_assert!(view.up && !view.draining, "{chosen:?} of {before:?}");
                        let is_other_available = before.iter().any(|other| other.available);
                        if *route != Route::Pinned && matches!(step, Step::Route { .. }) {
                            prop_assert!(view.available || !is_other_available);
                        }
                    }
                    Ok(_) => prop_assert_eq!(steering, Steering::Ranks),
                    Err(Refusal::NoReplica) => {
                        prop_assert!(before.iter().all(|view| !view.up || view.draining));
                    }
                    Err(_) => {}
                }
            }
        }
    }

    #[test]
    fn the_same_inputs_give_the_same_decisions(
        steering in steering(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let replay = || {
            let mut run = Run::new(steering);
            for step in &steps {
 run.apply(step);
 }
            run.changes.extend(run.fleet.router.take_changes());
            let views = run.fleet.router.conversations(run.fleet.now, usize::MAX);
            (run.snapshot(), run.said, run.changes, views)
        };
        prop_assert_eq!(replay(), replay());
    }

    #[test]
    fn the_table_its_changes_and_their_memory_stay_within_bounds(
        steering in steering(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut run = Run::new(steering);
        let empty = run.fleet.router.memory_bytes();
        for step in &steps {
            run.apply(step);
            prop_assert!(run.snapshot().conversations <= CONVERSATIONS_MAX);
            let changes = run.fleet.router.take_changes();
            prop_assert!(changes.len() <= 2 * CONVERSATIONS_MAX);
        }
        // One chunk of slots, whatever was sent, and tables in proportion to what is in flight.
        let in_flight_bytes = 600 * run.flying.len().max(8);
        prop_assert!(run.fleet.router.memory_bytes() <= empty + 400_000 + in_flight_bytes);
    }

    #[test]
    fn a_replicas_ledger_is_the_sum_of_the_active_conversations_that_live_there(
        steering in steering(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut run = Run::new(steering);
        for step in &steps {
            run.apply(step);
            let homed = run.snapshot().replicas.iter().map(|r| r.conversations).sum::<u32>();
            prop_assert!(homed as usize <= run.snapshot().conversations);
        }
        for session in 0..100 {
            run.fleet.router.forget(identity(session).conversation);
        }
        for replica in run.snapshot().replicas {
            prop_assert_eq!((replica.conversations, replica.committed_tokens), (0, 0));
        }
    }
}
