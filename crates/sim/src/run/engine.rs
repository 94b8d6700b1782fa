//! A turn inside the engine: from its replica's queue, step by step, to its end.

use super::client::InFlight;
use super::stage::{Event, Run};
use super::{Arrivals, StageError};
use crate::policy::Choice;
use crate::scheduler::{RequestId, Step};
use crate::workload::Place;
use routing::Usage;

/// Bits of a request's id that name its client.
const CLIENT_BITS: u32 = 24;

impl Run<'_> {
    /// The client's turn goes to its replica.
    pub(super) fn enter(&mut self, client: u32, choice: Choice) {
        let (replica, balanced) = if let Some(replica) = choice.replica {
            (replica, None)
        } else {
            let chosen = self
                .fleet
                .balancer
                .choose(&self.fleet.replicas, &mut self.random);
            (chosen.1, Some(chosen))
        };
        let id = RequestId(self.fleet.next_request << CLIENT_BITS | u64::from(client));
        self.fleet.next_request += 1;
        let at = &mut self.clients[client as usize];
        let asked = at.asked.take().expect("its turn was at the policy");
        let turn = at.turn();
        at.request = Some(InFlight {
            id,
            choice,
            balanced,
            replica,
            stayed: choice
                .stayed
                .or(at.last_replica.map(|last| last == replica)),
            prompt_tokens: asked.prompt.len() as u32,
            own_known_tokens: asked.own_known_tokens,
            queued_us: self.fleet.now_us - asked.at_us,
            cached_tokens: 0,
            sampled: 0,
            first_byte_us: 0,
        });
        // An engine cannot foresee a stop token: to it the answer could go on.
        let output_max = if turn.stops {
            u32::MAX / 2
        } else {
            turn.output_tokens
        };
        self.fleet.replicas[replica]
            .scheduler
            .add(id, asked.prompt, output_max);
        self.advance(replica);
    }

    pub(super) fn check_fits(&self, tokens: u32) -> Result<(), StageError> {
        let profile = &self.fleet.profile;
        let usable = self.fleet.replicas[0].scheduler.can_ever_fit(tokens);
        if usable {
            return Ok(());
        }
        Err(StageError::NeverFits {
            tokens,
            kv_tokens: profile.kv_tokens,
            max_model_len: profile.max_model_len,
        })
    }

    pub(super) fn advance(&mut self, replica: usize) {
        let fleet = &mut *self.fleet;
        if let Some(step_ms) = fleet.replicas[replica].advance(&fleet.profile) {
            let ends_us = fleet.now_us + ((step_ms * 1000.0) as u64).max(1);
            self.outcome.steps += 1;
            self.at(ends_us, Event::StepEnds(replica));
        }
    }

    pub(super) fn step_ends(&mut self, replica: usize) {
        let step = self.fleet.replicas[replica].end_step();
        self.sample(replica, &step);
        let outputs = std::mem::take(&mut self.outputs);
        let finished = self.fleet.replicas[replica]
            .scheduler
            .complete(&step, &outputs);
        self.outputs = outputs;
        for id in finished {
            self.turn_ends(client_of(id));
        }
        self.advance(replica);
    }

    /// Collects the step's outputs; first tokens are seen by the client half a round trip later.
    fn sample(&mut self, replica: usize, step: &Step) {
        self.outputs.clear();
        let now_us = self.fleet.now_us;
        let seen_us = now_us + self.half_trip_us();
        for scheduled in step.scheduled.iter().filter(|scheduled| scheduled.samples) {
            let client = &mut self.clients[client_of(scheduled.id) as usize];
            let turn_outputs = client.turn_outputs();
            let Some(request) = client.request.as_mut().filter(|r| r.id == scheduled.id) else {
                continue;
            };
            if request.sampled == 0 {
                let scheduler = &self.fleet.replicas[replica].scheduler;
                request.cached_tokens = scheduler.cached_tokens(request.id).unwrap_or(0);
                request.first_byte_us = seen_us;
                self.policy.first_byte(&request.choice, now_us);
            }
            request.sampled += 1;
            let stops = turn_outputs.is_some_and(|count| request.sampled >= count);
            let token = client.conversation.next_token();
            client.conversation.append(token);
            self.outputs.push((scheduled.id, token, stops));
        }
    }

    fn turn_ends(&mut self, index: u32) {
        let now_us = self.fleet.now_us;
        let end_us = now_us + self.half_trip_us();
        let client = &mut self.clients[index as usize];
        let request = client.request.take().expect("its request was in flight");
        if let Some((server, rank)) = request.balanced {
            self.fleet.balancer.ended(server, rank);
        }
        let usage = Usage {
            prompt_tokens: u64::from(request.prompt_tokens),
            cached_tokens: Some(u64::from(request.cached_tokens)),
            completion_tokens: u64::from(request.sampled),
        };
        self.policy.finished(&request.choice, usage, now_us);
        self.outcome
            .turns
            .push(client.end_turn(index, &request, end_us));
        if client.is_over() {
            if let Arrivals::Rate { .. } = self.stage.arrivals {
                self.active -= 1;
                return;
            }
            let number = client.number + 1;
            let place = Place {
                level: self.stage.level,
                client: index,
                number,
            };
            client.begin(self.workload.session(self.stage.prompt_seed, place));
        }
        let next_us = end_us + client.turn().think_us;
        self.at(next_us, Event::Send(index));
    }
}

fn client_of(id: RequestId) -> u32 {
    (id.0 & ((1 << CLIENT_BITS) - 1)) as u32
}
