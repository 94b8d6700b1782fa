//! Leases begin, go on and end: what the router does about it after everything that happens.

use super::Router;
use crate::choice::{Choice, choice};
use crate::lease::{Applicant, Granted, WaitEnd, Waiting, Why};
use crate::table::Slot;
use crate::{Event, Grant, Reason, Refusal, ReplicaIndex, Route, Time};

/// Most recently active conversations that may get a lease when leases begin: more than fit any
/// replicas' caches together.
const APPLICANTS_MAX: usize = 4096;

impl Router {
    /// What an event means for leases.
    pub(super) fn tell_leases(&mut self, now: Time, event: Event) {
        match event {
            Event::FirstByte(_) | Event::Progress(_) | Event::Scraped(..) => return,
            Event::Finished(..) | Event::Aborted(_) => {}
            _ => {
                let stranded = self.leases.replicas_changed(now, &self.replicas);
                self.redirect(stranded);
            }
        }
        self.shift(now);
    }

    /// Begins, goes on with or ends leases.
    pub(super) fn shift(&mut self, now: Time) {
        if !self.leases.is_contended() {
            if self.may_lease() && self.leases.should_begin(&self.replicas) {
                self.begin_leases(now);
            }
            return;
        }
        if !self.may_lease() || self.leases.should_end(now) {
            self.end_leases(now);
        } else if !self.replicas.is_any_open() {
            self.refuse_all();
        } else {
            while let Some(granted) = self.leases.next_grant(now, &self.replicas) {
                self.land(now, &granted);
            }
            while let Some(stranded) = self.leases.next_stranded(now) {
                self.refuse(&stranded);
            }
        }
    }

    /// Panics where two accounts of the same thing differ.
    #[cfg(test)]
    pub(super) fn audit_leases(&self) {
        self.leases.audit();
        if self.grants.is_empty() {
            self.leases.audit_waits();
        }
    }

    /// A request that waited goes.
    fn land(&mut self, now: Time, granted: &Granted) {
        let Granted {
            waiting,
            replica,
            charge,
            why,
        } = granted;
        let known = waiting
            .request
            .identity
            .and_then(|identity| self.table.find(identity.conversation));
        let choice = match why {
            Why::Room => self.lease_choice(now, waiting, known, *replica),
            Why::Held => self.held_choice(waiting, known, *replica),
            Why::Age => Choice {
                reason: Reason::WaitedTooLong {
                    waited: now.since(waiting.first_arrival),
                },
                ..self.lease_choice(now, waiting, known, *replica)
            },
        };
        let decision = self.dispatch_waiting(now, waiting, choice, *charge);
        let grant = Grant {
            ticket: waiting.ticket,
            decision: Ok(decision),
        };
        self.grants.push((grant, WaitEnd::Granted(*why)));
    }

    fn begin_leases(&mut self, now: Time) {
        let mut applicants: Vec<Applicant> = self
            .table
            .views(APPLICANTS_MAX)
            .into_iter()
            .filter(|view| self.replicas.is_open(view.record.home))
            .map(|view| Applicant {
                key: view.record.identity.conversation,
                owner: view.record.owner,
                home: view.record.home,
                own_tokens: view.record.own_tokens as u32,
                is_busy: view.in_flight > 0,
                last_active: view.record.last_active,
            })
            .collect();
        applicants.sort_by_key(|applicant| !applicant.is_busy);
        self.leases.begin(now, &applicants, &self.replicas);
    }

    /// Leases end for all: what waits goes by the plain rules.
    fn end_leases(&mut self, now: Time) {
        self.leases.end(now);
        for waiting in self.leases.drain() {
            let decision = self.dispatch_plainly(now, &waiting);
            let grant = Grant {
                ticket: waiting.ticket,
                decision,
            };
            self.grants.push((grant, WaitEnd::Over));
        }
    }

    /// What waited for one replica, and that is out: a pin is never sent elsewhere.
    fn redirect(&mut self, stranded: Vec<Waiting>) {
        for waiting in stranded {
            if waiting.request.pin.is_some() {
                self.refuse(&waiting);
            } else {
                self.leases.enqueue(Waiting {
                    only: None,
                    ..waiting
                });
            }
        }
    }

    fn refuse(&mut self, waiting: &Waiting) {
        let refusal = match waiting.only {
            Some(replica) => Refusal::PinnedReplicaOut { replica },
            None => Refusal::RetriesSpent,
        };
        self.ends_nowhere(waiting, refusal);
    }

    /// Nobody is left to wait for.
    fn refuse_all(&mut self) {
        for waiting in self.leases.drain() {
            self.ends_nowhere(&waiting, Refusal::NoReplica);
        }
    }

    fn ends_nowhere(&mut self, waiting: &Waiting, refusal: Refusal) {
        let grant = Grant {
            ticket: waiting.ticket,
            decision: Err(refusal),
        };
        self.grants.push((grant, WaitEnd::Nowhere));
    }

    /// A request goes where there is room for it.
    pub(super) fn lease_choice(
        &self,
        now: Time,
        waiting: &Waiting,
        known: Option<Slot>,
        replica: ReplicaIndex,
    ) -> Choice {
        let waited = now.since(waiting.arrived);
        let home = known.map(|slot| self.table.get(slot).home);
        let route = if waiting.is_pinned() {
            Route::Pinned
        } else if home.is_none() {
            Route::New
        } else if home == Some(replica) {
            Route::Sticky
        } else if waiting.is_turn {
            Route::Moved
        } else {
            Route::Spilled
        };
        let reason = match waiting.not {
            Some(failed) => Reason::Retry { failed },
            None => Reason::LeaseGranted { waited },
        };
        choice(route, replica, reason)
    }

    /// A holder's request goes where its lease is.
    pub(super) fn held_choice(
        &self,
        waiting: &Waiting,
        known: Option<Slot>,
        replica: ReplicaIndex,
    ) -> Choice {
        let home = known.map(|slot| self.table.get(slot).home);
        let route = match home {
            _ if waiting.is_pinned() => Route::Pinned,
            None => Route::New,
            Some(home) if home == replica => Route::Sticky,
            Some(_) if waiting.is_turn => Route::Moved,
            Some(_) => Route::Spilled,
        };
        choice(route, replica, Reason::LeaseHeld)
    }
}
