//! Requests that may have to wait: the way in, and the end of the wait.
//!
//! A caller that can wait asks [`Router::admit`] in place of [`Router::route`]. What it is told to wait
//! for comes out of [`Router::advance`], which it calls after every other call and at
//! [`Router::next_wakeup`]. A waiting request is one ticket from the first to the last event: a client
//! that leaves is an [`Event::Aborted`](crate::Event::Aborted) of it, waiting or not.

use super::{Departure, Router};
use crate::choice::Situation;
use crate::lease::{Admission, Charge, Grant, Wait, Waiting};
use crate::table::Slot;
use crate::{Decision, Refusal, ReplicaIndex, Request, RequestClass, Route, Ticket, Time};

impl Router {
    /// Decides where a request goes, or that it waits. While sticky routing works this is
    /// [`Self::route`], and nothing waits.
    pub fn admit(&mut self, now: Time, request: &Request) -> Result<Admission, Refusal> {
        if !self.leases.is_contended() {
            return self.route(now, request).map(Admission::Go);
        }
        self.sweep(now);
        let known = request
            .identity
            .and_then(|identity| self.find_or_expire(now, identity));
        let waiting = self.waiting(now, request, known)?;
        if let Some(decision) = self.go_at_once(now, &waiting, known)? {
            return Ok(Admission::Go(decision));
        }
        self.wait(now, waiting)
    }

    /// Like [`Self::reroute`], but where conversations hold leases the request waits for its other
    /// replica, before all others and with its age. After a refusal the ticket is spent, as it is
    /// after the refusal of a [`Grant`]: the request counts nowhere, and an `Aborted` of it changes nothing.
    pub fn readmit(
        &mut self,
        now: Time,
        ticket: Ticket,
        failed: ReplicaIndex,
    ) -> Result<Admission, Refusal> {
        let said = self.try_again(now, ticket, failed);
        if said.is_err() {
            self.end(now, ticket, None, false);
        }
        said
    }

    fn try_again(
        &mut self,
        now: Time,
        ticket: Ticket,
        failed: ReplicaIndex,
    ) -> Result<Admission, Refusal> {
        let flight = *self.flights.get(ticket).ok_or(Refusal::RetriesSpent)?;
        if !self.leases.is_contended() || flight.retried || flight.route == Route::Pinned {
            return self.reroute(now, ticket, failed).map(Admission::Go);
        }
        if !self.replicas.is_any_open() {
            return Err(Refusal::NoReplica);
        }
        self.end(now, ticket, None, false);
        if let Some(identity) = flight.request.identity {
            self.leases.give_up(now, identity.conversation);
        }
        let known = self.tenant(flight.conversation);
        let waiting = Waiting {
            ticket,
            arrived: flight.arrived,
            not: Some(failed),
            ..self.waiting(now, &flight.request, known)?
        };
        self.wait(now, waiting)
    }

    /// What happened by itself since the last call, and every wait that ended since then.
    pub fn advance(&mut self, now: Time) -> Vec<Grant> {
        self.sweep(now);
        self.shift(now);
        let ended = std::mem::take(&mut self.grants).into_iter();
        ended
            .map(|(grant, end)| {
                self.leases.note_wait_end(end);
                grant
            })
            .collect()
    }

    /// When [`Self::advance`] has to be called at the latest, if nothing happens before: now where a
    /// wait has ended already, `None` where nothing waits.
    pub fn next_wakeup(&self, now: Time) -> Option<Time> {
        if !self.grants.is_empty() || (self.leases.is_contended() && !self.may_lease()) {
            return Some(now);
        }
        self.leases.next_wakeup()
    }

    /// A request that cannot wait, while conversations hold leases.
    pub(super) fn route_contended(
        &mut self,
        now: Time,
        request: &Request,
        known: Option<Slot>,
    ) -> Result<Decision, Refusal> {
        let waiting = self.waiting(now, request, known)?;
        if let Some(decision) = self.go_at_once(now, &waiting, known)? {
            return Ok(decision);
        }
        let replica = self
            .leases
            .anywhere(&waiting, &self.replicas)
            .ok_or(Refusal::NoReplica)?;
        let choice = self.lease_choice(now, &waiting, known, replica);
        let charge = self.leases.admit(now, &waiting, replica);
        Ok(self.dispatch_waiting(now, &waiting, choice, charge))
    }

    /// The request as one that waits, with the age that its conversation's earlier attempts gave it.
    fn waiting(
        &mut self,
        now: Time,
        request: &Request,
        known: Option<Slot>,
    ) -> Result<Waiting, Refusal> {
        let pin = self.situation(now, &[], known).pinned(request)?;
        if pin.is_none() && !self.replicas.is_any_open() {
            return Err(Refusal::NoReplica);
        }
        let conversation = known.map(|slot| self.table.get(slot));
        let takes_turn = conversation.map_or(request.class != RequestClass::Side, |known| {
            known.main.takes_turn(request)
        });
        let moved = conversation.filter(|known| known.moved_by_operator);
        let only = pin
            .as_ref()
            .map_or(moved.map(|known| known.home), |pinned| pinned.replica);
        let is_turn = pin.is_none() && request.identity.is_some() && takes_turn;
        let own_tokens = self.weigh(request).own_tokens;
        let first_arrival = self.leases.first_arrival(now, request);
        let age_max = self.settings.leases.age_max(request.streams);
        Ok(Waiting {
            ticket: self.flights.next_ticket(),
            request: *request,
            arrived: now,
            first_arrival,
            deadline: first_arrival.plus(age_max),
            footprint: self.leases.footprint(own_tokens),
            only,
            not: None,
            is_turn,
            is_new: known.is_none(),
        })
    }

    /// What does not wait: a holder's request, one that the engine will refuse or that nobody can
    /// steer, and one without a conversation while its reserve has room.
    fn go_at_once(
        &mut self,
        now: Time,
        waiting: &Waiting,
        known: Option<Slot>,
    ) -> Result<Option<Decision>, Refusal> {
        let request = &waiting.request;
        let is_steered = waiting.only.is_some() || request.steerable;
        let tokens_max = self.settings.leases.model_tokens_max;
        let prompt_tokens = self.rate.estimate(request.prompt_bytes);
        if !is_steered || tokens_max.is_some_and(|most| prompt_tokens > most) {
            let scores = self.scores(now, request, known);
            let choice = self.situation(now, &scores, known).choose(request)?;
            let charge = if is_steered {
                Charge::Nothing
            } else {
                self.leases.spread(waiting.footprint)
            };
            return Ok(Some(self.dispatch_waiting(now, waiting, choice, charge)));
        }
        let key = request.identity.map(|identity| identity.conversation);
        let held = key.and_then(|key| self.leases.held_at(key));
        if let Some(replica) = held.filter(|_| waiting.only.is_none_or(|only| Some(only) == held)) {
            let spared = self.replicas.spares_wedged();
            if self.replicas.may_take(replica, spared) {
                let choice = self.held_choice(waiting, known, replica);
                let charge = if waiting.is_turn {
                    self.leases.admit(now, waiting, replica)
                } else {
                    Charge::Nothing
                };
                return Ok(Some(self.dispatch_waiting(now, waiting, choice, charge)));
            }
            self.leases.give_up(
                now,
                request.identity.expect("it holds a lease").conversation,
            );
        }
        if key.is_none()
            && let Some(replica) = self.leases.reserved_for(waiting, &self.replicas)
        {
            let route = if waiting.is_pinned() {
                Route::Pinned
            } else {
                Route::New
            };
            let choice = crate::choice::choice(route, replica, crate::Reason::Reserved);
            let charge = self.leases.admit(now, waiting, replica);
            return Ok(Some(self.dispatch_waiting(now, waiting, choice, charge)));
        }
        Ok(None)
    }

    /// Into the queue; out again at once where there is room, or where it would wait for too long.
    fn wait(&mut self, now: Time, waiting: Waiting) -> Result<Admission, Refusal> {
        let Waiting {
            ticket, request, ..
        } = waiting;
        let ahead = self.leases.waiting();
        let is_resent = waiting.not.is_some();
        self.leases.enqueue(waiting);
        self.shift(now);
        let at_once = self.grants.iter().rposition(|(g, _)| g.ticket == ticket);
        if let Some(at) = at_once {
            return self.grants.remove(at).0.decision.map(Admission::Go);
        }
        let prompt_tokens = self.rate.estimate(request.prompt_bytes);
        match self.leases.check_wait(now, ticket, prompt_tokens) {
            Err(refusal) if !is_resent => {
                self.leases.refuse(now, ticket);
                Err(refusal)
            }
            Ok(predicted) | Err(Refusal::QueueTooLong { predicted, .. }) => {
                self.leases.note_wait();
                Ok(Admission::Wait(Wait {
                    ticket,
                    predicted,
                    ahead,
                }))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether the settings allow leases.
    pub(super) fn may_lease(&self) -> bool {
        self.settings.affinity && !self.leases.is_off()
    }

    pub(super) fn dispatch_waiting(
        &mut self,
        now: Time,
        waiting: &Waiting,
        choice: crate::choice::Choice,
        charge: Charge,
    ) -> Decision {
        let request = &waiting.request;
        let known = request
            .identity
            .and_then(|identity| self.table.find(identity.conversation));
        let scores = self.scores(now, request, known);
        let departure = Departure {
            ticket: waiting.ticket,
            request,
            known,
            choice,
            arrived: waiting.arrived,
            charge,
            retried: waiting.not.is_some(),
        };
        self.dispatch(now, departure, scores)
    }

    /// By the plain rules, for what waited when leases ended.
    pub(super) fn dispatch_plainly(
        &mut self,
        now: Time,
        waiting: &Waiting,
    ) -> Result<Decision, Refusal> {
        let request = &waiting.request;
        let known = request
            .identity
            .and_then(|identity| self.table.find(identity.conversation));
        let scores = self.scores(now, request, known);
        let situation: Situation<'_> = self.situation(now, &scores, known);
        let choice = match waiting.not {
            Some(failed) => situation.choose_again(Route::New, failed)?,
            None => situation.choose(request)?,
        };
        Ok(self.dispatch_waiting(now, waiting, choice, Charge::Nothing))
    }
}
