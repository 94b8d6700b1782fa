//! What may be leased of each replica, what is wanted of all of them, and what a replica's change means
//! for the leases there.
//!
//! Without host memory, what is leased has to stay in the KV cache. With it, it only has to stay
//! somewhere, as long as its return costs little beside computing it: so the capacity is host memory's.

use std::time::Duration;

use crate::replica::Replicas;
use crate::{HostTier, ReplicaIndex, Time};

use super::wait::QUANTUM_TURNS;
use super::{Cause, Leases, Waiting};

/// Part of host memory that is leased. The rest is for what turns add, and for the copies of those
/// that lost their place a moment ago: where nothing is left for these, the least recently used that
/// goes is a holder's. Simulated at 0.7 to 1: less gives away places, more misses.
const HOST_SHARE: f64 = 0.8;

/// By what right tokens of a replica are taken.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    /// By a conversation's lease.
    Leased,
    /// By a request, while it runs.
    Charged,
}

impl Leases {
    /// F of a request: what it adds to the shared prefix, its answer included, and the growth of
    /// the further turns that the rule counts.
    pub(crate) fn footprint(&mut self, own_tokens: u32) -> u32 {
        let further = self.settings.rule.footprint_turns.saturating_sub(1);
        let footprint = own_tokens
            .saturating_add(self.costs.output_tokens())
            .saturating_add(further.saturating_mul(self.costs.growth_tokens()));
        self.costs.learn_size(footprint);
        footprint
    }

    /// Looks at the replicas again: what may be leased of each.
    pub(crate) fn look(&mut self, replicas: &Replicas) {
        for replica in 0..self.shares.len() {
            self.look_at(replica, replicas);
        }
    }

    /// The same for one replica: a turn that ends changes only its own, so that where nothing is
    /// contended it costs the same however many there are.
    pub(crate) fn look_at(&mut self, replica: usize, replicas: &Replicas) {
        let count = self.shares.len();
        let kept = replicas.host_tier(replica).and_then(|tier| self.kept(tier));
        let share = &mut self.shares[replica];
        let before = (share.kv_capacity, share.capacity);
        let reserve = &self.reserve;
        let may_lease = |tokens: u64| {
            let own = tokens.saturating_sub(replicas.shared_tokens(replica));
            let believed = (own as f64 * share.theta) as u64;
            believed - reserve.tokens(believed, count)
        };
        let kv_tokens = replicas.kv_tokens(replica);
        share.kv_capacity = kv_tokens.map(may_lease);
        share.capacity = match (kept, kv_tokens) {
            (Some(kept), Some(kv)) if kept > kv => Some(may_lease(kept)),
            _ => share.kv_capacity,
        };
        let changed = |sum: u64, before: Option<u64>, now: Option<u64>| {
            sum - before.unwrap_or(0) + now.unwrap_or(0)
        };
        self.kv_capacity = changed(self.kv_capacity, before.0, share.kv_capacity);
        self.capacity = changed(self.capacity, before.1, share.capacity);
        self.note_room(replica);
    }

    /// Tokens that host memory lets a replica lease; `None` where their return for every turn takes
    /// longer than computing them once in a quantum of turns.
    fn kept(&self, tier: HostTier) -> Option<u64> {
        let returns = self.costs.return_price(tier) * f64::from(QUANTUM_TURNS);
        (returns < 1.0).then_some((tier.tokens as f64 * HOST_SHARE) as u64)
    }

    /// How many times what the KV caches alone hold may be leased: 1 without host memory.
    pub(super) fn stretch(&self) -> f64 {
        if self.kv_capacity == 0 {
            return 1.0;
        }
        self.capacity as f64 / self.kv_capacity as f64
    }

    /// What is promised of a replica changes, from so many tokens of one request to so many.
    pub(super) fn use_tokens(&mut self, replica: usize, kind: Use, (before, after): (u32, u32)) {
        let share = &mut self.shares[replica];
        let tokens = match kind {
            Use::Leased => &mut share.leased,
            Use::Charged => &mut share.charged,
        };
        *tokens = *tokens + u64::from(after) - u64::from(before);
        self.used = self.used + u64::from(after) - u64::from(before);
        self.note_room(replica);
    }

    /// Something that a replica's room depends on may have changed.
    pub(super) fn note_room(&mut self, replica: usize) {
        self.rooms
            .set(replica, self.shares[replica].room(self.seats));
    }

    /// `g*`: the longest gap through which holding a lease on this replica is worth it. What a gap
    /// costs before any prefill was timed is bounded by a whole turn.
    pub(super) fn worth(&self, replica: usize) -> Duration {
        let worth = self
            .costs
            .prefill(self.shares[replica].capacity.unwrap_or(0));
        if worth.is_zero() {
            return self.costs.turn();
        }
        worth
    }

    /// Footprints of all that run, hold or wait, in capacities.
    pub(super) fn load(&self) -> f64 {
        let wanted = self.used + self.unleased + self.queue.footprints();
        wanted as f64 / self.capacity.max(1) as f64
    }

    /// Replicas may have changed: leases on those that are out or drained are void, and there may be
    /// room. Returns what waited for a replica that is out now, and for no other.
    pub(crate) fn replicas_changed(&mut self, now: Time, replicas: &Replicas) -> Vec<Waiting> {
        self.settled = false;
        self.look(replicas);
        let open = (0..self.open.len()).map(|index| replicas.is_open(ReplicaIndex(index as u16)));
        let open: Vec<bool> = open.collect();
        if open == self.open {
            return Vec::new();
        }
        self.open = open;
        self.void_where(now, |replica| !replicas.is_open(replica));
        self.queue.take_if(|waiting| {
            waiting
                .only
                .is_some_and(|replica| !replicas.is_open(replica))
        })
    }

    /// The replica's engine is another process: its cache is empty, and nobody missed anything.
    pub(crate) fn engine_restarted(&mut self, now: Time, replica: ReplicaIndex) {
        let Some(share) = self.shares.get_mut(usize::from(replica.0)) else {
            return;
        };
        share.epoch = share.epoch.wrapping_add(1);
        share.believe_nothing(&mut self.members, replica);
        self.void_where(now, |of| of == replica);
    }

    /// The leases on these replicas are void.
    pub(super) fn void_where(&mut self, now: Time, is_meant: impl Fn(ReplicaIndex) -> bool) {
        for id in self.holders.clone() {
            if self.members[id]
                .lease
                .is_some_and(|lease| is_meant(lease.replica))
            {
                self.end_lease(now, id, Cause::Void);
            }
        }
    }
}
