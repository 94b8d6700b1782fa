//! What a replica's caches are believed to hold, by conversation, least recently used first.
//!
//! vLLM evicts blocks in the order in which they were freed, a conversation's tail before its front, so
//! the conversation that was silent longest loses its tokens first, from the end. Blocks of running
//! requests are not evicted; that is not modelled, since they were used last anyway.
//!
//! Host memory is the second cache: vLLM copies a block there as soon as the step that filled it is over,
//! so it holds what the KV cache holds and what was used before that, up to its own size.
//!
//! Only who is let in asks for it. So it is kept while there are leases, and begins with them from the
//! last turn of each conversation: while nothing is contended, turns pay nothing for it.

use std::collections::BTreeMap;

use super::member::{MemberId, Members, Place, Residence, Tier};
use super::share::Share;
use super::{Applicant, Leases};
use crate::ReplicaIndex;
use crate::replica::Replicas;

/// The shadow of one cache of a replica.
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
        (id, place): (MemberId, Place),
        tokens: u32,
        capacity: u64,
    ) {
        self.forget(members, (id, place));
        self.last_stamp += 1;
        self.order.insert(self.last_stamp, id);
        self.tokens += u64::from(tokens);
        members[id].residences.push(Residence {
            place,
            tokens,
            stamp: self.last_stamp,
        });
        while self.tokens > capacity {
            let Some((_, &oldest)) = self.order.first_key_value() else {
                return;
            };
            let excess = self.tokens - capacity;
            let residence = members[oldest]
                .residences
                .iter_mut()
                .find(|residence| residence.place == place)
                .expect("what is in the order has its place");
            let evicted = excess.min(u64::from(residence.tokens));
            residence.tokens -= evicted as u32;
            self.tokens -= evicted;
            if residence.tokens == 0 {
                self.forget(members, (oldest, place));
            }
        }
    }

    /// A conversation has nothing here any more.
    pub(super) fn forget(&mut self, members: &mut Members, (id, place): (MemberId, Place)) {
        let residences = &mut members[id].residences;
        if let Some(at) = residences.iter().position(|here| here.place == place) {
            let gone = residences.swap_remove(at);
            self.order.remove(&gone.stamp);
            self.tokens -= u64::from(gone.tokens);
        }
    }

    /// Conversations and tokens.
    #[cfg(test)]
    pub(super) fn sums(&self) -> (usize, u64) {
        (self.order.len(), self.tokens)
    }

    /// This cache is empty.
    fn clear(&mut self, members: &mut Members, place: Place) {
        while let Some((_, &id)) = self.order.first_key_value() {
            self.forget(members, (id, place));
        }
    }
}

impl Share {
    /// The engine restarted, or nobody asks: both caches are empty, since host memory is the engine
    /// process's own.
    pub(super) fn believe_nothing(&mut self, members: &mut Members, replica: ReplicaIndex) {
        for tier in [Tier::Gpu, Tier::Host] {
            self.shadow(tier).clear(members, Place { replica, tier });
        }
    }
}

impl Leases {
    /// A conversation's last turn is the last to have used its replica's cache.
    pub(super) fn believe(&mut self, id: MemberId, replicas: &Replicas) {
        let Some(last) = self.members[id].last else {
            return;
        };
        let replica = last.replica;
        let at = usize::from(replica.0);
        let own_tokens = last.context_tokens.saturating_sub(last.shared_tokens);
        let shared_tokens = replicas.shared_tokens(at);
        let host = replicas.host_tier(at).map(|tier| (Tier::Host, tier.tokens));
        let gpu = (Tier::Gpu, replicas.kv_tokens(at).unwrap_or(u64::MAX));
        for (tier, tokens) in std::iter::once(gpu).chain(host) {
            self.shares[at].shadow(tier).touch(
                &mut self.members,
                (id, Place { replica, tier }),
                own_tokens,
                tokens.saturating_sub(shared_tokens),
            );
        }
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
            share.believe_nothing(&mut self.members, ReplicaIndex(replica as u16));
        }
    }

    /// Tokens of prefill that a conversation is spared on a replica: those in the KV cache, and of
    /// those that only host memory holds the part that their return does not cost.
    pub(super) fn spared(
        &self,
        residences: &[Residence],
        replica: ReplicaIndex,
        replicas: &Replicas,
    ) -> u64 {
        let resident = |tier| u64::from(resident(residences, Place { replica, tier }));
        let gpu = resident(Tier::Gpu);
        let only_host = resident(Tier::Host).saturating_sub(gpu) as f64;
        let returning = replicas
            .host_tier(usize::from(replica.0))
            .map_or(0.0, |tier| {
                only_host * (1.0 - self.costs.return_price(tier))
            });
        gpu + returning as u64
    }
}

/// Own tokens of a conversation believed to be in a cache.
fn resident(residences: &[Residence], place: Place) -> u32 {
    residences
        .iter()
        .find(|residence| residence.place == place)
        .map_or(0, |residence| residence.tokens)
}
