//! What happens between requests, applied to counts, replicas and conversations.

use super::Router;
use crate::lease::{Ended, WaitEnd};
use crate::{Event, Ticket, Time, Usage};

impl Router {
    /// Takes note of what happened.
    pub fn observe(&mut self, now: Time, event: Event) {
        self.sweep(now);
        match event {
            Event::FirstByte(ticket) => {
                if let Some(flight) = self.flights.get_mut(ticket) {
                    flight.first_byte.get_or_insert(now);
                }
                self.progress(now, ticket);
            }
            Event::Progress(ticket) => self.progress(now, ticket),
            Event::Finished(ticket, usage) => self.end(now, ticket, usage, true),
            Event::Aborted(ticket) => self.abort(now, ticket),
            Event::Scraped(replica, gauges) => self.replicas.scraped(now, replica, gauges),
            Event::KvTokens(replica, tokens) => self.replicas.set_kv_tokens(replica, tokens),
            Event::HostTier(replica, tier) => self.replicas.set_host_tier(replica, tier),
            Event::ConnectFailed(replica) => self.replicas.connect_failed(replica),
            Event::ProbeFailed(replica) => self.replicas.probe_failed(replica),
            Event::ProbeSucceeded(replica) => self.replicas.probe_succeeded(now, replica),
            Event::EngineRestarted(replica) => {
                self.replicas.engine_restarted(now, replica);
                self.leases.engine_restarted(now, replica);
            }
            Event::Drain(replica) => self.replicas.set_draining(replica, true),
            Event::Undrain(replica) => self.replicas.set_draining(replica, false),
        }
        self.tell_leases(now, event);
    }

    /// The client left: of a request in flight or of one that waits.
    fn abort(&mut self, now: Time, ticket: Ticket) {
        let told = self.grants.len();
        self.grants.retain(|(grant, _)| grant.ticket != ticket);
        let waits = self.leases.cancel(now, ticket);
        if waits || self.grants.len() < told {
            self.leases.note_wait_end(WaitEnd::Left);
        }
        if !waits {
            self.end(now, ticket, None, false);
        }
    }

    fn progress(&mut self, now: Time, ticket: Ticket) {
        if let Some(replica) = self.flights.get(ticket).and_then(|flight| flight.replica) {
            self.replicas.note_progress(now, replica);
        }
    }

    /// The end of a request, good or not: the one place where counts go down.
    pub(super) fn end(&mut self, now: Time, ticket: Ticket, usage: Option<Usage>, good: bool) {
        let Some(flight) = self.flights.end(ticket) else {
            return;
        };
        if let Some(replica) = flight.replica {
            self.replicas.end(now, replica, good);
        }
        if let Some(usage) = usage {
            self.rate
                .learn(flight.request.prompt_bytes, usage.prompt_tokens);
        }
        self.fall_silent(now, &flight, usage);
        let conversation = self
            .tenant(flight.conversation)
            .map(|slot| self.table.get(slot));
        let ended = Ended {
            flight: &flight,
            usage,
            conversation,
        };
        self.leases.ended(now, &ended, &self.replicas);
    }
}
