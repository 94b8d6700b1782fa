//! The router of one model: a table of conversations, the replicas' states, and one decision per
//! request.
//!
//! The rules are in [`crate::choice`]; here a choice takes effect. Every call first catches up
//! with the time that passed, a bounded piece at a time, so that no call pays for a long silence.

mod admit;
mod contended;
mod conversations;
mod observe;
mod operate;
mod reroute;
#[cfg(test)]
mod tests;

use crate::choice::{Choice, Rounds, Situation};
use crate::flights::{Flight, Flights, Tenant};
use crate::lease::{Charge, Grant, Leases, WaitEnd};
use crate::replica::{Replicas, Weight};
use crate::table::{Slot, Table};
use crate::tokens::TokenRate;
use crate::{
    Decision, Identity, OwnerId, Refusal, ReplicaIndex, ReplicaSpec, Request, Route, Score,
    Settings, Ticket, Time,
};

/// The router of one model.
#[derive(Debug)]
pub struct Router {
    settings: Settings,
    replicas: Replicas,
    table: Table,
    flights: Flights,
    rate: TokenRate,
    rounds: Rounds,
    leases: Leases,
    /// Ends of waits that the caller has not taken yet.
    /// Ends of waits that were not taken yet.
    grants: Vec<(Grant, WaitEnd)>,
    /// The latest time that was told.
    clock: Time,
}

/// A request that leaves for its replica.
#[derive(Debug)]
struct Departure<'a> {
    ticket: Ticket,
    request: &'a Request,
    known: Option<Slot>,
    choice: Choice,
    arrived: Time,
    charge: Charge,
    retried: bool,
}

impl Router {
    /// An empty table over these replicas, all of them up until an event says otherwise.
    pub fn new(settings: Settings, replicas: Vec<ReplicaSpec>, now: Time) -> Self {
        Self {
            leases: Leases::new(settings.leases, settings.max_num_seqs, replicas.len()),
            grants: Vec::new(),
            clock: now,
            replicas: Replicas::new(replicas, settings.steering, now),
            table: Table::new(settings.conversations_max),
            flights: Flights::default(),
            rate: TokenRate::new(),
            rounds: Rounds::default(),
            settings,
        }
    }

    /// Decides where a request goes and counts it in flight until a `Finished` or `Aborted`. Only a
    /// placement by load creates a conversation: a pinned or balanced request leaves an unknown one
    /// unknown, and a known one's home as it is.
    ///
    /// This is for callers that cannot wait: where conversations hold leases, it goes to a full
    /// replica if need be. See [`Self::admit`].
    pub fn route(&mut self, now: Time, request: &Request) -> Result<Decision, Refusal> {
        self.sweep(now);
        let known = request
            .identity
            .and_then(|identity| self.find_or_expire(now, identity));
        if self.leases.is_contended() {
            return self.route_contended(now, request, known);
        }
        let scores = self.scores(now, request, known);
        let choice = self.situation(now, &scores, known).choose(request)?;
        let departure = Departure {
            ticket: self.flights.next_ticket(),
            request,
            known,
            choice,
            arrived: now,
            charge: Charge::Nothing,
            retried: false,
        };
        Ok(self.dispatch(now, departure, scores))
    }

    /// The request leaves: its conversation speaks, and it is in flight.
    fn dispatch(&mut self, now: Time, departure: Departure<'_>, scores: Box<[Score]>) -> Decision {
        let Departure {
            ticket,
            request,
            known,
            choice,
            ..
        } = departure;
        let conversation = match (known, request.identity, choice.replica) {
            (Some(slot), ..) => Some(slot),
            (None, Some(identity), Some(replica)) if choice.route == Route::New => {
                Some(self.create(now, identity, request.owner, replica))
            }
            _ => None,
        };
        let is_turn = conversation.is_some_and(|slot| self.speak(now, slot, request, &choice));
        self.flights.begin(Flight {
            ticket,
            request: *request,
            replica: choice.replica,
            route: choice.route,
            conversation: conversation.map(|slot| Tenant {
                slot,
                generation: self.table.get(slot).tenancy.generation,
            }),
            is_turn,
            retried: departure.retried,
            arrived: departure.arrived,
            dispatched: now,
            first_byte: None,
            charge: departure.charge,
        });
        self.depart(now, &choice);
        self.answer(ticket, choice, scores, conversation)
    }

    /// New settings, in force from the next request on. A smaller table forgets at once. Where leases
    /// or affinity were switched off, whatever waits is granted by the next [`Self::advance`].
    pub fn configure(&mut self, settings: Settings) {
        self.replicas.set_steering(settings.steering);
        self.table.set_limit(settings.conversations_max);
        self.leases
            .configure(settings.leases, settings.max_num_seqs);
        self.settings = settings;
        while let Some(slot) = self.table.surplus() {
            self.drop_conversation(slot);
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Memory held, by the capacity of every table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.table.memory_bytes()
            + self.flights.memory_bytes()
            + self.replicas.memory_bytes()
            + self.leases.memory_bytes()
    }

    fn situation<'a>(
        &'a self,
        now: Time,
        scores: &'a [Score],
        conversation: Option<Slot>,
    ) -> Situation<'a> {
        Situation {
            now,
            settings: &self.settings,
            replicas: &self.replicas,
            scores,
            rounds: self.rounds,
            conversation: conversation.map(|slot| self.table.get(slot)),
        }
    }

    /// All replicas' figures for this request.
    fn scores(&self, now: Time, request: &Request, conversation: Option<Slot>) -> Box<[Score]> {
        let charged = conversation.and_then(|slot| {
            let conversation = self.table.get(slot);
            Some((conversation.home, conversation.charge?))
        });
        self.replicas.scores(now, self.weigh(request), charged)
    }

    /// What a request's prompt weighs, by its bytes.
    fn weigh(&self, request: &Request) -> Weight {
        let prompt_tokens = self.rate.estimate(request.prompt_bytes);
        let shared_tokens = self.rate.estimate(request.shared_bytes).min(prompt_tokens);
        Weight {
            lineage: request.lineage,
            shared_tokens,
            own_tokens: prompt_tokens - shared_tokens,
        }
    }

    /// The request leaves for its replica: counts and rounds go on.
    fn depart(&mut self, now: Time, choice: &Choice) {
        let Some(replica) = choice.replica else {
            return;
        };
        self.replicas.begin(now, replica);
        let next = (usize::from(replica.0) + 1) % self.replicas.len();
        if choice.route == Route::Balanced {
            self.rounds.balanced = next;
        } else if choice.is_placement() {
            self.rounds.placed = next;
        }
        if matches!(choice.route, Route::New | Route::Moved) {
            self.replicas
                .alternate_ramp(choice.held_back.unwrap_or(replica));
        }
    }

    fn answer(
        &self,
        ticket: Ticket,
        choice: Choice,
        scores: Box<[Score]>,
        conversation: Option<Slot>,
    ) -> Decision {
        Decision {
            ticket,
            route: choice.route,
            replica: choice.replica,
            reason: choice.reason,
            scores,
            turn: conversation.map_or(0, |slot| self.table.get(slot).main.turns()),
            cache_since: self.replicas.cache_since(choice.replica),
        }
    }

    /// A new conversation, in the place of older ones where there is no room.
    fn create(
        &mut self,
        now: Time,
        identity: Identity,
        owner: OwnerId,
        home: ReplicaIndex,
    ) -> Slot {
        while let Some(surplus) = self.table.surplus_for(owner) {
            self.drop_conversation(surplus);
        }
        self.table
            .insert(crate::table::Conversation::new(identity, owner, home, now))
    }
}
