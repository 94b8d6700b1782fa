//! The one other attempt of a request whose first one failed before any byte reached the client.

use super::Router;
use crate::flights::Flight;
use crate::lease::Charge;
use crate::{Decision, Refusal, ReplicaIndex, Ticket, Time};

impl Router {
    /// A second decision for a request that failed on `failed` before any byte: same ticket,
    /// counted there instead. At most once; a pinned request is refused. After a refusal the
    /// request still counts where it was, until its `Aborted`.
    pub fn reroute(
        &mut self,
        now: Time,
        ticket: Ticket,
        failed: ReplicaIndex,
    ) -> Result<Decision, Refusal> {
        let flight = *self.flights.get(ticket).ok_or(Refusal::RetriesSpent)?;
        if flight.retried || flight.route == crate::Route::Pinned {
            return Err(Refusal::RetriesSpent);
        }
        let conversation = self.tenant(flight.conversation);
        let scores = self.scores(now, &flight.request, conversation);
        let choice = self
            .situation(now, &scores, conversation)
            .choose_again(flight.route, failed)?;
        if let Some(first) = flight.replica {
            self.replicas.end(now, first, false);
        }
        self.leases.uncharge(now, &flight);
        if let Some((identity, to)) = flight.request.identity.zip(choice.replica) {
            self.leases.resettle(now, identity.conversation, to);
        }
        if let Some(slot) = conversation {
            self.reweigh(slot, |conversation| conversation.go_again(&choice));
            self.table.mark_changed(slot);
        }
        if let Some(entry) = self.flights.get_mut(ticket) {
            *entry = Flight {
                replica: choice.replica,
                route: choice.route,
                retried: true,
                charge: Charge::Nothing,
                ..flight
            };
        }
        self.depart(now, &choice);
        Ok(self.answer(ticket, choice, scores, conversation))
    }
}
