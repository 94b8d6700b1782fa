//! Who is let in, and where; and when leases begin and end for all.
//!
//! The first in the queue is let in as soon as it fits somewhere; a few behind it may pass while it
//! does not, since a large context must not idle a replica that a small one could use. After a while
//! nobody passes any more, so the room it needs gathers.

use std::cmp::Reverse;
use std::time::Duration;

use crate::replica::Replicas;
use crate::{ConversationKey, OwnerId, ReplicaIndex, Ticket, Time};

use super::capacity::Use;
use super::{Cause, Charge, Leases, WaitEnd, Waiting};

/// Wait after which nobody passes the first in the queue.
const PASSING_WAIT_MAX: Duration = Duration::from_secs(60);

/// A request that is let in.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) waiting: Waiting,
    pub(crate) replica: ReplicaIndex,
    pub(crate) charge: Charge,
    pub(crate) why: Why,
}

/// By what right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It fits.
    Room,
    /// Its conversation holds a lease by now.
    Held,
    /// It has waited too long.
    Age,
}

/// A conversation that may get a lease when leases begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applicant {
    pub(crate) key: ConversationKey,
    pub(crate) owner: OwnerId,
    pub(crate) home: ReplicaIndex,
    pub(crate) own_tokens: u32,
    pub(crate) is_busy: bool,
    pub(crate) last_active: Time,
}

impl Leases {
    /// Puts a request in line, by its age.
    pub(crate) fn enqueue(&mut self, waiting: Waiting) {
        let in_front = self.queue.push(waiting, self.settings.rule.passers_max);
        self.settled &= !in_front;
    }

    /// The next request to be let in, if any: call again until there is none.
    pub(crate) fn next_grant(&mut self, now: Time, replicas: &Replicas) -> Option<Granted> {
        while let Some(ticket) = self.followers.pop_front() {
            let Some(waiting) = self.queue.get(ticket) else {
                continue;
            };
            let held = waiting.request.identity.map(|id| id.conversation);
            if let Some(replica) = held.and_then(|key| self.held_at(key))
                && waiting.may_go_to(replica)
            {
                return self.let_in(now, ticket, replica, Why::Held);
            }
        }
        if self.queue.is_empty() {
            return None;
        }
        self.expire(now);
        if !self.settled {
            let found = self.first_that_fits(now, replicas);
            if let Some((ticket, replica)) = found {
                return self.let_in(now, ticket, replica, Why::Room);
            }
            self.settled = true;
        }
        let ticket = self.queue.due(now)?;
        let waiting = self.queue.get(ticket)?;
        let replica = self.best(waiting, replicas, 0..self.shares.len())?;
        self.counters.over_age += 1;
        self.let_in(now, ticket, replica, Why::Age)
    }

    /// A request whose time has come and that no replica may take, once nobody else is let in.
    pub(crate) fn next_stranded(&mut self, now: Time) -> Option<Waiting> {
        let ticket = self.queue.due(now)?;
        self.queue.remove(ticket)
    }

    /// When something happens though nobody says anything.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let deadline = self.queue.next_deadline()?;
        let silence = self.idle.first().map(|(until, _)| *until);
        Some(silence.map_or(deadline, |until| until.min(deadline)))
    }

    /// Idle leases whose hold is over end, since HTTP shows no end of a conversation.
    fn expire(&mut self, now: Time) {
        while let Some(&(until, id)) = self.idle.first()
            && until <= now
        {
            self.end_lease(now, id, Cause::Silent);
        }
    }

    fn first_that_fits(&self, now: Time, replicas: &Replicas) -> Option<(Ticket, ReplicaIndex)> {
        let mut front = self.queue.front(self.settings.rule.passers_max);
        if now.since(front.first()?.first_arrival) >= PASSING_WAIT_MAX {
            front.truncate(1);
        }
        front.into_iter().find_map(|waiting| {
            let bets = waiting.is_new && self.queue.len() == 1;
            if !bets && !self.rooms.fits_somewhere(waiting.footprint) {
                return None;
            }
            let fitting = (0..self.shares.len())
                .filter(|index| self.has_room(*index, waiting.footprint, bets));
            let replica = self.best(waiting, replicas, fitting)?;
            Some((waiting.ticket, replica))
        })
    }

    /// Whether a footprint fits on a replica, by a bet on its largest idle lease if need be.
    fn has_room(&self, replica: usize, footprint: u32, bets: bool) -> bool {
        if !bets || !self.settings.rule.bets || self.rooms.fits(replica, footprint) {
            return self.rooms.fits(replica, footprint);
        }
        let share = &self.shares[replica];
        let idle = share.idle.last().map_or(0, |(footprint, _)| *footprint);
        let with = share.used() + u64::from(footprint);
        let could_hold = |capacity| with <= capacity + u64::from(idle);
        share.leases < self.seats && share.capacity.is_some_and(could_hold)
    }

    /// Of these replicas: fewest in flight, then most prefill spared by what is kept there, then
    /// most room.
    fn best(
        &self,
        waiting: &Waiting,
        replicas: &Replicas,
        among: impl Iterator<Item = usize>,
    ) -> Option<ReplicaIndex> {
        let member = waiting
            .request
            .identity
            .and_then(|identity| self.members.find(identity.conversation));
        let residences = member.map_or(&[][..], |id| &self.members[id].residences);
        let spared = replicas.spares_wedged();
        among
            .filter(|index| {
                let replica = ReplicaIndex(*index as u16);
                waiting.may_go_to(replica)
                    // A pin is heeded even where nothing moves.
                    && (replicas.may_take(replica, spared)
                        || (waiting.only.is_some() && replicas.is_open(replica)))
            })
            .min_by_key(|index| {
                let replica = ReplicaIndex(*index as u16);
                let share = &self.shares[*index];
                let room = share.capacity.unwrap_or(0).saturating_sub(share.used());
                (
                    replicas.in_flight(*index),
                    Reverse(self.spared(residences, replica, replicas)),
                    Reverse(room),
                )
            })
            .map(|index| ReplicaIndex(index as u16))
    }

    /// Takes a request out of the queue and charges it to its replica.
    fn let_in(
        &mut self,
        now: Time,
        ticket: Ticket,
        replica: ReplicaIndex,
        why: Why,
    ) -> Option<Granted> {
        let waiting = self.queue.remove(ticket)?;
        let charge = self.admit(now, &waiting, replica);
        if let Some(identity) = waiting.request.identity.filter(|_| waiting.is_turn)
            && let Some(id) = self.members.find(identity.conversation)
        {
            self.note_waited(id, now.since(waiting.first_arrival));
        }
        Some(Granted {
            waiting,
            replica,
            charge,
            why,
        })
    }

    /// Charges a request to the replica it goes to: a turn gets a lease or goes by the one that its
    /// conversation holds there, anything else is charged while it runs.
    pub(crate) fn admit(&mut self, now: Time, waiting: &Waiting, replica: ReplicaIndex) -> Charge {
        let Some(identity) = waiting.request.identity.filter(|_| waiting.is_turn) else {
            return self.charge(now, waiting, replica);
        };
        let key = identity.conversation;
        let id = if self.held_at(key) == Some(replica) {
            self.members.find_or_insert(key, waiting.request.owner)
        } else {
            self.give(
                now,
                (key, waiting.request.owner),
                replica,
                waiting.footprint,
            )
        };
        self.begin_turn(now, id, waiting.footprint);
        self.followers.extend(self.queue.of(key));
        Charge::Nothing
    }

    fn charge(&mut self, now: Time, waiting: &Waiting, replica: ReplicaIndex) -> Charge {
        let at = usize::from(replica.0);
        self.use_tokens(at, Use::Charged, (0, waiting.footprint));
        if waiting.request.identity.is_none() {
            self.shares[at].anonymous += u64::from(waiting.footprint);
            self.reserve.begin(now, waiting.footprint);
        }
        Charge::Tokens(waiting.footprint)
    }

    /// A request that no warden can steer takes a part of every replica.
    pub(crate) fn spread(&mut self, footprint: u32) -> Charge {
        let part = footprint / self.shares.len().max(1) as u32;
        for at in 0..self.shares.len() {
            self.use_tokens(at, Use::Charged, (0, part));
        }
        Charge::Spread(part)
    }

    /// A replica whose reserve has room for a request without a conversation.
    pub(crate) fn reserved_for(
        &self,
        waiting: &Waiting,
        replicas: &Replicas,
    ) -> Option<ReplicaIndex> {
        let reserved = (0..self.shares.len()).filter(|index| {
            let capacity = self.shares[*index].capacity.unwrap_or(0);
            let reserved = self.reserve.tokens(capacity, self.shares.len());
            self.shares[*index].anonymous + u64::from(waiting.footprint) <= reserved
        });
        self.best(waiting, replicas, reserved)
    }

    /// Where a request goes that cannot wait: as if there were room everywhere.
    pub(crate) fn anywhere(&self, waiting: &Waiting, replicas: &Replicas) -> Option<ReplicaIndex> {
        self.best(waiting, replicas, 0..self.shares.len())
    }

    /// Leases begin: they go out while they fit, first to those in flight, then to the most recently
    /// finished (`applicants` come in that order).
    pub(crate) fn begin(&mut self, now: Time, applicants: &[Applicant], replicas: &Replicas) {
        self.costs.leases_begin();
        self.look(replicas);
        self.believe_last_turns(applicants, replicas);
        let mut wanted = 0;
        for applicant in applicants {
            let home = usize::from(applicant.home.0);
            let hold = self.hold(applicant.key, applicant.owner, home);
            let held_until = applicant.last_active.plus(hold);
            if !applicant.is_busy && held_until <= now {
                continue;
            }
            let footprint = if applicant.is_busy {
                self.footprint(applicant.own_tokens)
            } else {
                applicant.own_tokens
            };
            wanted += u64::from(footprint);
            let capacity = self.shares[home].capacity.unwrap_or(0);
            let share = &self.shares[home];
            let who = (applicant.key, applicant.owner);
            if share.used() + u64::from(footprint) <= capacity && share.leases < self.seats {
                let id = self.give(now, who, applicant.home, footprint);
                if applicant.is_busy {
                    self.begin_turn(now, id, footprint);
                } else {
                    self.set_idle(id, held_until);
                }
            } else if applicant.is_busy {
                let id = self.members.find_or_insert(who.0, who.1);
                self.members[id].unleased = footprint;
                self.unleased += u64::from(footprint);
            }
        }
        self.switch
            .begin(now, wanted as f64 / self.capacity.max(1) as f64);
        self.counters.contentions += 1;
        self.settled = false;
    }

    /// Leases end for all; who waits is to be drained by [`Self::drain`].
    pub(crate) fn end(&mut self, now: Time) {
        for id in self.members.ids() {
            self.end_lease(now, id, Cause::Void);
            self.members[id].unleased = 0;
            self.members[id].waited_us = 0;
        }
        for share in &mut self.shares {
            share.believe_again();
        }
        self.believe_nothing();
        self.unleased = 0;
        self.followers.clear();
        self.switch.end();
    }

    /// Everything that waits, in order, and the queue is empty.
    pub(crate) fn drain(&mut self) -> Vec<Waiting> {
        let tickets = self.queue.tickets();
        let drained = tickets
            .into_iter()
            .filter_map(|ticket| self.queue.remove(ticket))
            .collect();
        self.queue.level_out();
        self.followers.clear();
        drained
    }

    /// A request was told to wait.
    pub(crate) fn note_wait(&mut self) {
        self.counters.waits += 1;
    }

    /// A wait that was told ended.
    pub(crate) fn note_wait_end(&mut self, end: WaitEnd) {
        let counters = &mut self.counters;
        *match end {
            WaitEnd::Granted(Why::Room) => &mut counters.ended_room,
            WaitEnd::Granted(Why::Held) => &mut counters.ended_held,
            WaitEnd::Granted(Why::Age) => &mut counters.ended_age,
            WaitEnd::Over => &mut counters.ended_over,
            WaitEnd::Nowhere => &mut counters.ended_nowhere,
            WaitEnd::Left => &mut counters.ended_left,
        } += 1;
    }

    /// A request that would wait for too long is told to come back, and keeps its age.
    pub(crate) fn refuse(&mut self, now: Time, ticket: Ticket) {
        self.cancel(now, ticket);
        self.counters.refused += 1;
    }

    /// The client of a waiting request left. False where it does not wait.
    pub(crate) fn cancel(&mut self, now: Time, ticket: Ticket) -> bool {
        let Some(gone) = self.queue.remove(ticket) else {
            return false;
        };
        if let Some(identity) = gone.request.identity {
            self.ages
                .keep(now, identity.conversation, gone.first_arrival);
        }
        self.settled = false;
        true
    }
}
