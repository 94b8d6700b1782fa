//! A lease's life: given, charged to its owner, idle and busy by turns, moved, ended.

use std::time::Duration;

use crate::{ConversationKey, OwnerId, ReplicaIndex, Time};

use super::capacity::Use;
use super::member::{Lease, MemberId};
use super::{Cause, Leases};

impl Leases {
    /// Gives a conversation a lease, on top of what is leased.
    pub(super) fn give(
        &mut self,
        now: Time,
        (key, owner): (ConversationKey, OwnerId),
        replica: ReplicaIndex,
        footprint: u32,
    ) -> MemberId {
        let id = self.members.find_or_insert(key, owner);
        self.end_lease(now, id, Cause::Void);
        let at = usize::from(replica.0);
        let share = &mut self.shares[at];
        share.leases += 1;
        share.waited_us += self.members[id].waited_us;
        self.use_tokens(at, Use::Leased, (0, footprint));
        self.holders.insert(id);
        self.counters.grants += 1;
        self.members[id].lease = Some(Lease {
            replica,
            footprint,
            since: now,
            idle_until: None,
            charged_until: now,
            turns: 0,
        });
        id
    }

    /// A turn of a conversation that holds a lease begins.
    pub(super) fn begin_turn(&mut self, now: Time, id: MemberId, footprint: u32) {
        self.set_busy(id);
        let Some(mut lease) = self.members[id].lease else {
            return;
        };
        let larger = footprint.max(lease.footprint);
        let at = usize::from(lease.replica.0);
        self.use_tokens(at, Use::Leased, (lease.footprint, larger));
        self.counters.held_turns += u64::from(lease.turns > 0);
        lease.footprint = larger;
        lease.turns += 1;
        self.members[id].lease = Some(lease);
        // Charged ahead, or an owner would be let in time and again before its first turn ends.
        let ahead = now.plus(self.costs.turn());
        self.charge_owner(id, ahead);
    }

    /// A request of the conversation has waited for so long.
    pub(super) fn note_waited(&mut self, id: MemberId, waited: Duration) {
        let waited_us = waited.as_micros() as u64;
        let member = &mut self.members[id];
        member.waited_us += waited_us;
        if let Some(lease) = member.lease {
            self.shares[usize::from(lease.replica.0)].waited_us += waited_us;
        }
    }

    /// Whether a holder has waited no longer in all than those of its replica have on average.
    pub(super) fn has_waited_less(&self, id: MemberId, replica: ReplicaIndex) -> bool {
        let share = &self.shares[usize::from(replica.0)];
        self.members[id].waited_us * u64::from(share.leases) <= share.waited_us
    }

    /// The lease's owner has used it until then.
    pub(super) fn charge_owner(&mut self, id: MemberId, until: Time) {
        let member = &mut self.members[id];
        let Some(lease) = &mut member.lease else {
            return;
        };
        let passed_us = until.0.cast_signed() - lease.charged_until.0.cast_signed();
        lease.charged_until = until;
        let share = &self.shares[usize::from(lease.replica.0)];
        let part = f64::from(lease.footprint) / share.used().max(1) as f64;
        let owner = member.owner;
        self.queue.charge(owner, (passed_us as f64 * part) as i64);
    }

    /// The lease is held until then, though nothing runs.
    pub(super) fn set_idle(&mut self, id: MemberId, until: Time) {
        self.set_busy(id);
        if let Some(lease) = &mut self.members[id].lease {
            lease.idle_until = Some(until);
            self.idle.insert((until, id));
            self.shares[usize::from(lease.replica.0)]
                .idle
                .insert((lease.footprint, id));
        }
    }

    /// The lease is not idle.
    pub(super) fn set_busy(&mut self, id: MemberId) {
        if let Some(lease) = &mut self.members[id].lease
            && let Some(until) = lease.idle_until.take()
        {
            self.idle.remove(&(until, id));
            self.shares[usize::from(lease.replica.0)]
                .idle
                .remove(&(lease.footprint, id));
        }
    }

    /// The lease ends, if there is one.
    pub(super) fn end_lease(&mut self, now: Time, id: MemberId, cause: Cause) {
        if self.members[id].lease.is_none() {
            return;
        }
        self.charge_owner(id, now);
        self.set_busy(id);
        let Some(lease) = self.members[id].lease.take() else {
            return;
        };
        let at = usize::from(lease.replica.0);
        let share = &mut self.shares[at];
        share.leases -= 1;
        share.waited_us -= self.members[id].waited_us;
        self.use_tokens(at, Use::Leased, (lease.footprint, 0));
        self.holders.remove(&id);
        self.settled = false;
        let counters = &mut self.counters;
        *match cause {
            Cause::Silent => &mut counters.released_silent,
            Cause::Quantum => &mut counters.released_quantum,
            Cause::Overflow => &mut counters.released_overflow,
            Cause::Void => &mut counters.released_void,
        } += 1;
        if cause != Cause::Void {
            let quantum_turns = self.quantum_turns();
            self.stay.learn(lease.turns, quantum_turns);
        }
    }

    /// The conversation goes elsewhere: its lease is void.
    pub(crate) fn give_up(&mut self, now: Time, key: ConversationKey) {
        if let Some(id) = self.members.find(key) {
            self.end_lease(now, id, Cause::Void);
        }
    }

    /// Where a conversation holds a lease.
    pub(crate) fn held_at(&self, key: ConversationKey) -> Option<ReplicaIndex> {
        let id = self.members.find(key)?;
        self.members[id].lease.map(|lease| lease.replica)
    }

    /// The conversation is forgotten.
    pub(crate) fn forget(&mut self, now: Time, key: ConversationKey) {
        let Some(id) = self.members.find(key) else {
            return;
        };
        self.end_lease(now, id, Cause::Void);
        self.unleased -= u64::from(self.members[id].unleased);
        for residence in self.members[id].residences.clone() {
            let place = residence.place;
            self.shares[usize::from(place.replica.0)]
                .shadow(place.tier)
                .forget(&mut self.members, (id, place));
        }
        self.members.remove(id);
    }

    /// An operator gave the conversation another home: its lease goes along.
    pub(crate) fn resettle(&mut self, now: Time, key: ConversationKey, to: ReplicaIndex) {
        let Some(id) = self.members.find(key) else {
            return;
        };
        let Some(lease) = self.members[id].lease.filter(|lease| lease.replica != to) else {
            return;
        };
        let member = &self.members[id];
        let who = (member.key, member.owner);
        self.give(now, who, to, lease.footprint);
        if let Some(until) = lease.idle_until {
            self.set_idle(id, until);
        }
    }
}
