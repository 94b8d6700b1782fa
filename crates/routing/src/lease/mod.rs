//! Leases: what keeps a full machine from thrashing.
//!
//! Where the contexts of all conversations exceed the caches, every turn evicts what the next one needs.
//! Then a conversation is let hold its share of a replica's cache (a *lease*) for some turns, while
//! others wait at the warden. While sticky routing works there are no leases and nothing waits.
//!
//! | file | answers |
//! |---|---|
//! | [`switch`] | does sticky routing thrash? |
//! | [`pump`] | who is let in, and where? |
//! | [`finish`] | what does a finished turn teach, and does its lease end? |
//! | [`pace`] | how long is a silent conversation's lease held? |
//! | [`queue`], [`ages`] | who is next? |
//! | [`wait`] | how long may a wait be, and how long will it be? |
//! | [`costs`], [`share`], [`shadow`], [`reserve`], [`member`] | what is known of turns, replicas and conversations |
//!
//! Here is only what changes hands: leases given, charged, ended.

mod ages;
#[cfg(test)]
mod audit;
mod costs;
mod finish;
mod member;
mod pace;
mod pump;
mod queue;
mod reserve;
mod settings;
mod shadow;
mod share;
mod switch;
mod view;
mod wait;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::replica::Replicas;
use crate::{ConversationKey, Decision, OwnerId, Refusal, ReplicaIndex, Request, Ticket, Time};

use ages::Ages;
use costs::Costs;
pub(crate) use finish::Ended;
use member::{Lease, MemberId, Members};
use pace::Gaps;
pub(crate) use pump::{Applicant, Granted, Why};
use queue::Queue;
pub(crate) use queue::Waiting;
use reserve::Reserve;
pub use settings::{Hold, LeaseMode, LeaseRule, LeaseSettings};
use share::Share;
use switch::Switch;
pub use view::{HolderView, LeaseCounters, LeaseShare, LeaseState, LeaseView, Wait, WaiterView};
use wait::Stay;

/// What becomes of a request on arrival.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It goes now.
    Go(Decision),
    /// It waits for a [`Grant`] of its ticket.
    Wait(Wait),
}

/// The end of a wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Whose.
    pub ticket: Ticket,
    /// Where it goes, or why nowhere. After a refusal the ticket is spent.
    pub decision: Result<Decision, Refusal>,
}

/// What a request in flight is charged with beside its conversation's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Charge {
    /// Nothing: its conversation holds a lease, or there are none.
    #[default]
    Nothing,
    /// So many tokens of its replica, until it ends.
    Tokens(u32),
    /// So many tokens of every replica, since the engine's balancer chose.
    Spread(u32),
}

/// Why a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Silent,
    Quantum,
    Overflow,
    Void,
}

/// The leases of one model, and who waits for one.
#[derive(Debug)]
pub(crate) struct Leases {
    settings: LeaseSettings,
    /// Leases that a replica may give: vLLM runs no more sequences at once.
    seats: u32,
    switch: Switch,
    costs: Costs,
    stay: Stay,
    members: Members,
    owners: BTreeMap<OwnerId, Gaps>,
    shares: Vec<Share>,
    /// Of all replicas, tokens.
    capacity: u64,
    reserve: Reserve,
    queue: Queue,
    ages: Ages,
    /// Idle leases by the time until which they are held.
    idle: BTreeSet<(Time, MemberId)>,
    /// Who holds a lease.
    holders: BTreeSet<MemberId>,
    /// Tokens of turns that were in flight without a lease when leases began.
    unleased: u64,
    /// Waiting requests whose conversation got a lease meanwhile.
    followers: VecDeque<Ticket>,
    /// Nobody fits, and nothing has changed since that was found.
    settled: bool,
    usage_seen: bool,
    /// Which replicas were open when leases last heard of them.
    open: Vec<bool>,
    counters: LeaseCounters,
}

impl Leases {
    pub(crate) fn new(settings: LeaseSettings, seats: u32, replicas: usize) -> Self {
        Self {
            settings,
            seats,
            switch: Switch::default(),
            costs: Costs::default(),
            stay: Stay::default(),
            members: Members::default(),
            owners: BTreeMap::new(),
            shares: std::iter::repeat_with(Share::default)
                .take(replicas)
                .collect(),
            capacity: 0,
            reserve: Reserve::default(),
            queue: Queue::default(),
            ages: Ages::default(),
            idle: BTreeSet::new(),
            holders: BTreeSet::new(),
            unleased: 0,
            followers: VecDeque::new(),
            settled: false,
            usage_seen: false,
            open: vec![true; replicas],
            counters: LeaseCounters::default(),
        }
    }

    pub(crate) fn configure(&mut self, settings: LeaseSettings, seats: u32) {
        self.settings = settings;
        self.seats = seats;
        self.settled = false;
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.switch.is_contended()
    }

    pub(crate) fn is_off(&self) -> bool {
        self.settings.mode == LeaseMode::Off
    }

    /// Whether there are leases, and if not, why.
    pub(crate) fn state(&self, replicas: &Replicas, affinity: bool) -> LeaseState {
        let is_kv_known = (0..self.shares.len()).all(|r| replicas.kv_tokens(r).is_some());
        match self.switch.contended_since() {
            _ if self.is_off() => LeaseState::Off,
            _ if !affinity => LeaseState::AffinityOff,
            _ if !is_kv_known => LeaseState::KvTokensUnknown,
            Some(since) => LeaseState::Contended { since },
            None if !self.usage_seen => LeaseState::UsageUnknown,
            None => LeaseState::Sticky,
        }
    }

    /// Leases given and not ended.
    pub(crate) fn holding(&self) -> u32 {
        self.holders.len() as u32
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// When a request's conversation first asked: now, unless it was sent away lately.
    pub(crate) fn first_arrival(&mut self, now: Time, request: &Request) -> Time {
        request
            .identity
            .and_then(|identity| self.ages.take(now, identity.conversation))
            .unwrap_or(now)
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

    /// Looks at the replicas again: what may be leased of each. Once per finish, not once per question.
    pub(crate) fn look(&mut self, replicas: &Replicas) {
        let count = self.shares.len();
        for (index, share) in self.shares.iter_mut().enumerate() {
            share.capacity = replicas.kv_tokens(index).map(|kv_tokens| {
                let own = kv_tokens.saturating_sub(replicas.shared_tokens(index));
                let believed = (own as f64 * share.theta) as u64;
                believed - self.reserve.tokens(believed, count)
            });
        }
        self.capacity = self.shares.iter().filter_map(|share| share.capacity).sum();
    }

    /// `g*`: the longest gap through which holding a lease on this replica is worth it. What a gap
    /// costs before any prefill was timed is bounded by a whole turn.
    fn worth(&self, replica: usize) -> Duration {
        let worth = self
            .costs
            .prefill(self.shares[replica].capacity.unwrap_or(0));
        if worth.is_zero() {
            return self.costs.turn();
        }
        worth
    }

    /// Footprints of all that run, hold or wait, in capacities.
    fn load(&self) -> f64 {
        let used: u64 = self.shares.iter().map(Share::used).sum();
        let wanted = used + self.unleased + self.queue.footprints();
        wanted as f64 / self.capacity.max(1) as f64
    }

    /// Gives a conversation a lease, on top of what is leased.
    fn give(
        &mut self,
        now: Time,
        (key, owner): (ConversationKey, OwnerId),
        replica: ReplicaIndex,
        footprint: u32,
    ) -> MemberId {
        let id = self.members.find_or_insert(key, owner);
        self.end_lease(now, id, Cause::Void);
        let share = &mut self.shares[usize::from(replica.0)];
        share.leased += u64::from(footprint);
        share.leases += 1;
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
    fn begin_turn(&mut self, now: Time, id: MemberId, footprint: u32) {
        self.set_busy(id);
        let Some(mut lease) = self.members[id].lease else {
            return;
        };
        let larger = footprint.max(lease.footprint);
        self.shares[usize::from(lease.replica.0)].leased += u64::from(larger - lease.footprint);
        self.counters.held_turns += u64::from(lease.turns > 0);
        lease.footprint = larger;
        lease.turns += 1;
        self.members[id].lease = Some(lease);
        // Charged ahead, or an owner would be let in time and again before its first turn ends.
        let ahead = now.plus(self.costs.turn());
        self.charge_owner(id, ahead);
    }

    /// The lease's owner has used it until then.
    fn charge_owner(&mut self, id: MemberId, until: Time) {
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
    fn set_idle(&mut self, id: MemberId, until: Time) {
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
    fn set_busy(&mut self, id: MemberId) {
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
    fn end_lease(&mut self, now: Time, id: MemberId, cause: Cause) {
        if self.members[id].lease.is_none() {
            return;
        }
        self.charge_owner(id, now);
        self.set_busy(id);
        let Some(lease) = self.members[id].lease.take() else {
            return;
        };
        let share = &mut self.shares[usize::from(lease.replica.0)];
        share.leased -= u64::from(lease.footprint);
        share.leases -= 1;
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
            self.stay.learn(lease.turns);
        }
    }

    /// The conversation is forgotten.
    pub(crate) fn forget(&mut self, now: Time, key: ConversationKey) {
        let Some(id) = self.members.find(key) else {
            return;
        };
        self.end_lease(now, id, Cause::Void);
        self.unleased -= u64::from(self.members[id].unleased);
        for place in self.members[id].places.clone() {
            let replica = place.replica;
            self.shares[usize::from(replica.0)]
                .shadow
                .forget(&mut self.members, (id, replica));
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
        share.shadow.clear(&mut self.members, replica);
        self.void_where(now, |of| of == replica);
    }

    /// The leases on these replicas are void.
    fn void_where(&mut self, now: Time, is_meant: impl Fn(ReplicaIndex) -> bool) {
        for id in self.holders.clone() {
            if self.members[id]
                .lease
                .is_some_and(|lease| is_meant(lease.replica))
            {
                self.end_lease(now, id, Cause::Void);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.members.memory_bytes() + self.queue.len() * size_of::<Waiting>()
    }
}
