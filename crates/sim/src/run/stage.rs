//! The event loop of one stage.

use super::client::{Asked, Client};
use super::record::{Outcome, Poll};
use super::{Arrivals, Stage, StageError};
use crate::fleet::Fleet;
use crate::policy::{Answer, Ask, Policy};
use crate::random::Random;
use crate::scheduler::{Counters, RequestId};
use crate::workload::{Place, Workload};
use routing::{LeaseCounters, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Polls of gauges are this far apart, as the gateway's scrapes are.
const POLL_US: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A session arrives on its own.
    SessionArrives,
    /// A client sends its next turn.
    Send(u32),
    /// The request is at the gateway.
    Arrive(u32),
    /// It asks the policy again, after a refusal.
    AskAgain(u32),
    /// Something may happen to turns that wait at the policy.
    Wake,
    /// A replica's running step ends.
    StepEnds(usize),
    /// Gauges are polled.
    Poll,
}

/// Runs one stage to its end, turns in flight included, and checks the law of conservation.
pub fn run_stage(
    fleet: &mut Fleet,
    policy: &mut Policy,
    workload: &Workload,
    stage: &Stage,
) -> Result<Outcome, StageError> {
    let mut run = Run::new(fleet, policy, workload, *stage);
    run.start();
    while let Some(Reverse((at_us, _, event))) = run.events.pop() {
        run.close_window_before(at_us);
        run.fleet.now_us = at_us;
        match event {
            Event::SessionArrives => run.session_arrives(),
            Event::Send(client) => run.send(client),
            Event::Arrive(client) => run.arrive(client)?,
            Event::AskAgain(client) => run.ask(client),
            Event::Wake => run.next_wake_us = None,
            Event::StepEnds(replica) => run.step_ends(replica),
            Event::Poll => run.poll(),
        }
        run.advance_policy();
        if run.active == 0 && at_us >= run.outcome.end_us {
            break;
        }
    }
    assert_eq!(run.active, 0, "every turn ends");
    run.outcome.leases = run.policy.lease_counters(run.fleet.now_us);
    run.outcome.assert_time_is_conserved();
    Ok(run.outcome)
}

pub(super) struct Run<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) policy: &'a mut Policy,
    pub(super) workload: &'a Workload,
    pub(super) stage: Stage,
    pub(super) random: Random,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) scheduled: u64,
    pub(super) clients: Vec<Client>,
    /// Clients whose turn waits at the policy.
    pub(super) waiting: BTreeMap<Ticket, u32>,
    pub(super) next_wake_us: Option<u64>,
    /// Clients that have not stopped.
    pub(super) active: usize,
    pub(super) outputs: Vec<(RequestId, u32, bool)>,
    pub(super) counters_at_start: Counters,
    pub(super) window_is_open: bool,
    pub(super) outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(
        fleet: &'a mut Fleet,
        policy: &'a mut Policy,
        workload: &'a Workload,
        stage: Stage,
    ) -> Self {
        let start_us = fleet.now_us;
        let outcome = Outcome {
            start_us,
            end_us: start_us + (stage.window_s * 1e6) as u64,
            turns: Vec::new(),
            polls: Vec::new(),
            counters: Counters::default(),
            clients: match stage.arrivals {
                Arrivals::Closed { sessions } => Some(sessions),
                Arrivals::Rate { .. } => None,
            },
            thinking_us: 0,
            steps: 0,
            refusals: 0,
            leases: LeaseCounters::default(),
        };
        Self {
            counters_at_start: fleet.counters(),
            fleet,
            policy,
            workload,
            random: Random::at(stage.chance_seed, &[u64::from(stage.level)]),
            stage,
            events: BinaryHeap::new(),
            scheduled: 0,
            clients: Vec::new(),
            waiting: BTreeMap::new(),
            next_wake_us: None,
            active: 0,
            outputs: Vec::new(),
            window_is_open: true,
            outcome,
        }
    }

    pub(super) fn at(&mut self, at_us: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at_us, self.scheduled, event)));
    }

    fn start(&mut self) {
        let now_us = self.fleet.now_us;
        self.at(now_us, Event::Poll);
        match self.stage.arrivals {
            Arrivals::Closed { sessions } => {
                for _ in 0..sessions {
                    let spread_us = self.random.below((self.stage.start_spread_s * 1e6) as u64);
                    self.add_client(spread_us);
                }
            }
            Arrivals::Rate { .. } => self.next_arrival(),
        }
    }

    fn add_client(&mut self, delay_us: u64) {
        let client = self.clients.len() as u32;
        let session = self
            .workload
            .session(self.stage.prompt_seed, self.place(client, 0));
        let first_us = self.fleet.now_us + delay_us + session.turns[0].think_us;
        self.clients.push(Client::new(session, self.fleet.now_us));
        self.active += 1;
        self.at(first_us, Event::Send(client));
    }

    fn place(&self, client: u32, number: u32) -> Place {
        Place {
            level: self.stage.level,
            client,
            number,
        }
    }

    fn next_arrival(&mut self) {
        let Arrivals::Rate { sessions_per_hour } = self.stage.arrivals else {
            return;
        };
        let gap_s = -(1.0 - self.random.unit()).ln() * 3600.0 / sessions_per_hour;
        let at_us = self.fleet.now_us + (gap_s * 1e6) as u64;
        if at_us < self.outcome.end_us {
            self.at(at_us, Event::SessionArrives);
        }
    }

    fn session_arrives(&mut self) {
        self.add_client(0);
        self.next_arrival();
    }

    fn send(&mut self, client: u32) {
        let now_us = self.fleet.now_us;
        let at = &mut self.clients[client as usize];
        let thought_us = self.outcome.inside(at.idle_since_us, now_us);
        self.outcome.thinking_us += thought_us;
        if now_us >= self.outcome.end_us {
            self.active -= 1;
            return;
        }
        at.sent_us = now_us;
        self.at(now_us + self.half_trip_us(), Event::Arrive(client));
    }

    pub(super) fn half_trip_us(&self) -> u64 {
        (self.stage.round_trip_ms * 500.0) as u64
    }

    fn arrive(&mut self, client: u32) -> Result<(), StageError> {
        let at = &mut self.clients[client as usize];
        let turn = at.turn();
        let shared_tokens = at.session.shared_tokens;
        let known_before = at.conversation.len().min(turn.kept_tokens);
        let prompt = at.conversation.prompt(&turn);
        let prompt_tokens = prompt.len() as u32;
        let own_known_tokens = known_before.saturating_sub(shared_tokens);
        self.check_fits(prompt_tokens + turn.output_tokens)?;

        self.clients[client as usize].asked = Some(Asked {
            at_us: self.fleet.now_us,
            prompt,
            own_known_tokens,
        });
        self.ask(client);
        Ok(())
    }

    /// Asks the policy where the client's turn goes.
    fn ask(&mut self, client: u32) {
        let at = &self.clients[client as usize];
        let asked = at.asked.as_ref().expect("its turn is at the policy");
        let ask = Ask {
            session: at.session.id,
            prompt_tokens: asked.prompt.len() as u32,
            shared_tokens: at.session.shared_tokens,
            owner: at.session.owner,
        };
        match self.policy.choose(&ask, self.fleet, &mut self.random) {
            Answer::Go(choice) => self.enter(client, choice),
            Answer::Wait(ticket) => {
                self.waiting.insert(ticket, client);
            }
            Answer::Refused { retry_us } => {
                self.outcome.refusals += 1;
                self.at(self.fleet.now_us + retry_us, Event::AskAgain(client));
            }
        }
    }

    /// Turns whose wait at the policy ended go on.
    fn advance_policy(&mut self) {
        let now_us = self.fleet.now_us;
        for (ticket, choice) in self.policy.advance(now_us) {
            let client = self.waiting.remove(&ticket).expect("its turn waits");
            self.enter(client, choice);
        }
        if let Some(wake_us) = self.policy.wakeup(now_us)
            && self.next_wake_us.is_none_or(|next| wake_us < next)
        {
            let wake_us = wake_us.max(now_us + 1);
            self.next_wake_us = Some(wake_us);
            self.at(wake_us, Event::Wake);
        }
    }

    fn poll(&mut self) {
        let now_us = self.fleet.now_us;
        self.policy.scraped(self.fleet);
        if now_us < self.outcome.end_us {
            let fills = self
                .fleet
                .replicas
                .iter()
                .map(|r| r.scheduler.kv_cache_usage());
            self.outcome.polls.push(Poll {
                at_us: now_us,
                busy: self.fleet.busy(),
                kv_cache_usage_max: fills.fold(0.0, f64::max),
            });
        }
        self.at(now_us + POLL_US, Event::Poll);
    }

    /// Reads the engines' counters at the end of the window, before the first event behind it.
    fn close_window_before(&mut self, at_us: u64) {
        if self.window_is_open && at_us >= self.outcome.end_us {
            self.window_is_open = false;
            self.outcome.counters = self.fleet.counters().since(&self.counters_at_start);
        }
    }
}
