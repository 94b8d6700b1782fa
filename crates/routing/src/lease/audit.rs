//! What must be true of leases at any moment, for tests to ask after every step.

use super::member::{Place, Tier};
use super::{Leases, Share};
use crate::ReplicaIndex;

impl Leases {
    /// Panics where two accounts of the same thing differ.
    pub(crate) fn audit(&self) {
        let ids = self.members.ids();
        let held = || ids.iter().filter_map(|id| self.members[*id].lease);
        assert_eq!(self.holders.len(), held().count());
        for (index, share) in self.shares.iter().enumerate() {
            let replica = ReplicaIndex(index as u16);
            let here = || held().filter(|lease| lease.replica == replica);
            let leased: u64 = here().map(|lease| u64::from(lease.footprint)).sum();
            assert_eq!(
                (share.leases as usize, share.leased),
                (here().count(), leased)
            );
            let waited = ids.iter().map(|id| &self.members[*id]);
            let waited = waited.filter(|m| m.lease.is_some_and(|lease| lease.replica == replica));
            assert_eq!(share.waited_us, waited.map(|m| m.waited_us).sum::<u64>());
            let idle = here().filter(|lease| lease.idle_until.is_some());
            assert_eq!(share.idle.len(), idle.count());
            assert!((0.6..=1.0).contains(&share.theta), "{}", share.theta);
        }
        let idle = held().filter(|lease| lease.idle_until.is_some()).count();
        assert_eq!(self.idle.len(), idle);
        let unleased: u64 = ids
            .iter()
            .map(|id| u64::from(self.members[*id].unleased))
            .sum();
        assert_eq!(self.unleased, unleased);
        let used = self.shares.iter().map(Share::used);
        assert_eq!(self.used, used.sum::<u64>());
        for (index, share) in self.shares.iter().enumerate() {
            let room = share.room(self.seats);
            let footprints = [0, 1, 1000, 10_000, u32::MAX];
            let fits = footprints.map(|tokens| room.is_some_and(|room| u64::from(tokens) <= room));
            assert_eq!(
                footprints.map(|tokens| self.rooms.fits(index, tokens)),
                fits
            );
        }
        let sum = |of: fn(&Share) -> Option<u64>| self.shares.iter().filter_map(of).sum::<u64>();
        assert_eq!(self.capacity, sum(|share| share.capacity));
        assert_eq!(self.kv_capacity, sum(|share| share.kv_capacity));
        let alike = |share: &Share| share.capacity >= share.kv_capacity;
        assert!(self.shares.iter().all(alike));
        self.audit_shadows();
        let counters = &self.counters;
        let released = counters.released_silent
            + counters.released_quantum
            + counters.released_overflow
            + counters.released_void;
        assert_eq!(counters.grants, released + u64::from(self.holding()));
        assert!(counters.missed_tokens <= counters.expected_tokens);
        self.queue.audit();
    }

    /// The same between two calls of the router, when every end of a wait has been told.
    pub(crate) fn audit_waits(&self) {
        let counters = &self.counters;
        let ended = counters.ended_room
            + counters.ended_held
            + counters.ended_age
            + counters.ended_over
            + counters.ended_nowhere
            + counters.ended_left;
        assert_eq!(counters.waits, ended + self.waiting() as u64);
        assert!(counters.ended_age <= counters.over_age);
    }

    /// What each cache is believed to hold is what the conversations are believed to have there.
    fn audit_shadows(&self) {
        for (index, share) in self.shares.iter().enumerate() {
            let replica = ReplicaIndex(index as u16);
            for (tier, shadow) in [(Tier::Gpu, &share.gpu), (Tier::Host, &share.host)] {
                let place = Place { replica, tier };
                let ids = self.members.ids();
                let here = ids
                    .iter()
                    .flat_map(|id| &self.members[*id].residences)
                    .filter(|residence| residence.place == place);
                let tokens = here.clone().map(|residence| u64::from(residence.tokens));
                assert_eq!(shadow.sums(), (here.count(), tokens.sum()), "{place:?}");
            }
        }
    }
}
