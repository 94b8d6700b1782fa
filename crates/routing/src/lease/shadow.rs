//! What a replica's cache is believed to hold, by conversation, least recently used first.
//!
//! vLLM evicts blocks in the order in which they were freed, a conversation's tail before its front, so
//! the conversation that was silent longest loses its tokens first, from the end. Blocks of running
//! requests are not evicted; that is not modelled, since they were used last anyway.
//!
//! Only who is let in asks for it. So it is kept while there are leases, and begins with them from the
//! last turn of each conversation: while nothing is contended, turns pay nothing for it.

use std::collections::BTreeMap;

use super::member::{MemberId, Members, Residence};
use super::{Applicant, Leases};
use crate::ReplicaIndex;
use crate::replica::Replicas;

/// The shadow of one replica's cache.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    order: BTreeMap<u64, MemberId>,
    tokens: u64,
    last_stamp: u64,
}

impl Shadow {
    /// A conversation filled so many own tokens here; what then exceeds `capacity` is gone.
    pub(super) fn touch(
        &mut self,
        members: &mut Members,
        (id, replica): (MemberId, ReplicaIndex),
        tokens: u32,
        capacity: u64,
    ) {
        self.forget(members, (id, replica));
        self.last_stamp += 1;
        self.order.insert(self.last_stamp, id);
        self.tokens += u64::from(tokens);
        members[id].places.push(Residence {
            replica,
            tokens,
            stamp: self.last_stamp,
        });
        while self.tokens > capacity {
            let Some((_, &oldest)) = self.order.first_key_value() else {
                return;
            };
            let excess = self.tokens - capacity;
            let places = &mut members[oldest].places;
            let place = places
                .iter_mut()
                .find(|place| place.replica == replica)
                .expect("what is in the order has its place");
            let evicted = excess.min(u64::from(place.tokens));
            place.tokens -= evicted as u32;
            self.tokens -= evicted;
            if place.tokens == 0 {
                self.forget(members, (oldest, replica));
            }
        }
    }

    /// A conversation has nothing here any more.
    pub(super) fn forget(
        &mut self,
        members: &mut Members,
        (id, replica): (MemberId, ReplicaIndex),
    ) {
        let places = &mut members[id].places;
        if let Some(at) = places.iter().position(|place| place.replica == replica) {
            let gone = places.swap_remove(at);
            self.order.remove(&gone.stamp);
            self.tokens -= u64::from(gone.tokens);
        }
    }

    /// The engine restarted: its cache is empty.
    pub(super) fn clear(&mut self, members: &mut Members, replica: ReplicaIndex) {
        while let Some((_, &id)) = self.order.first_key_value() {
            self.forget(members, (id, replica));
        }
    }
}

impl Leases {
    /// A conversation's last turn is the last to have used its replica's cache.
    pub(super) fn believe(&mut self, id: MemberId, replicas: &Replicas) {
        let Some(last) = self.members[id].last else {
            return;
        };
        let at = usize::from(last.replica.0);
        let capacity = replicas
            .kv_tokens(at)
            .map_or(u64::MAX, |kv| kv.saturating_sub(replicas.shared_tokens(at)));
        let own_tokens = last.context_tokens.saturating_sub(last.shared_tokens);
        self.shares[at]
            .shadow
            .touch(&mut self.members, (id, last.replica), own_tokens, capacity);
    }

    /// Leases begin: what the last turns of the conversations left, unless their engine restarted.
    pub(super) fn believe_last_turns(&mut self, applicants: &[Applicant], replicas: &Replicas) {
        let known = applicants.iter().filter_map(|applicant| {
            let id = self.members.find(applicant.key)?;
            let last = self.members[id].last?;
            let epoch = self.shares[usize::from(last.replica.0)].epoch;
            (last.epoch == epoch).then_some((last.finished, id))
        });
        let mut known: Vec<_> = known.collect();
        known.sort_unstable();
        for (_, id) in known {
            self.believe(id, replicas);
        }
    }

    /// Leases end: the caches are nobody's business.
    pub(super) fn believe_nothing(&mut self) {
        for (replica, share) in self.shares.iter_mut().enumerate() {
            let replica = ReplicaIndex(replica as u16);
            share.shadow.clear(&mut self.members, replica);
        }
    }
}

/// Own tokens of a conversation believed to be in a replica's cache.
pub(super) fn resident(places: &[Residence], replica: ReplicaIndex) -> u32 {
    places
        .iter()
        .find(|place| place.replica == replica)
        .map_or(0, |place| place.tokens)
}
