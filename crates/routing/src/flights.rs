//! Requests in flight: what has to be taken back when each one ends. Bounded by the connections that
//! the gateway accepts; a ticket that is unknown here has ended already.

use hashbrown::HashTable;

use crate::lease::Charge;
use crate::table::Slot;
use crate::{ReplicaIndex, Request, Route, Ticket, Time};

/// A conversation as a request in flight remembers it: its slot may have another tenant by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub(crate) slot: Slot,
    pub(crate) generation: u32,
}

/// One request in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
    /// `None` where the engine's balancer chose.
    pub(crate) replica: Option<ReplicaIndex>,
    pub(crate) route: Route,
    pub(crate) conversation: Option<Tenant>,
    /// A turn of its conversation, no side request.
    pub(crate) is_turn: bool,
    /// The one other attempt was used.
    pub(crate) retried: bool,
    /// When the request came, before any wait.
    pub(crate) arrived: Time,
    /// When it was sent to its replica.
    pub(crate) dispatched: Time,
    pub(crate) first_byte: Option<Time>,
    /// What it holds of its replica beside its conversation's lease.
    pub(crate) charge: Charge,
}

/// All requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    table: HashTable<Flight>,
    last_ticket: u64,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// A ticket that was never given out.
    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    pub(crate) fn begin(&mut self, flight: Flight) {
        self.table
            .insert_unique(flight.ticket.spread(), flight, |flight| {
                flight.ticket.spread()
            });
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Flight> {
        self.table
            .find(ticket.spread(), |flight| flight.ticket == ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Flight> {
        self.table
            .find_mut(ticket.spread(), |flight| flight.ticket == ticket)
    }

    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<Flight> {
        let found = self
            .table
            .find_entry(ticket.spread(), |flight| flight.ticket == ticket);
        found.ok().map(|entry| entry.remove().0)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}
