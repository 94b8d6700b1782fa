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
//! | [`life`] | how is a lease given, charged and ended? |
//! | [`capacity`] | what may be leased, and what does a replica's change mean? |
//! | [`costs`], [`share`], [`rooms`], [`shadow`], [`reserve`], [`member`] | what is known of turns, replicas and conversations |
//!
//! Here is only what they all work on.

mod ages;
#[cfg(test)]
mod audit;
mod capacity;
mod costs;
mod finish;
mod life;
mod member;
mod pace;
mod pump;
mod queue;
mod reserve;
mod rooms;
mod settings;
mod shadow;
mod share;
mod switch;
mod view;
mod wait;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::replica::Replicas;
use crate::{Decision, OwnerId, Refusal, Request, Ticket, Time};

use ages::Ages;
use costs::Costs;
pub(crate) use finish::Ended;
use member::{MemberId, Members};
use pace::Gaps;
pub(crate) use pump::{Applicant, Granted, Why};
use queue::Queue;
pub(crate) use queue::Waiting;
use reserve::Reserve;
use rooms::Rooms;
pub use settings::{Hold, LeaseMode, LeaseRule, LeaseSettings, Overflow};
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

/// How a wait that was told ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// It was granted.
    Granted(Why),
    /// Leases ended for all.
    Over,
    /// No replica was left to wait for.
    Nowhere,
    /// Its client left.
    Left,
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
    rooms: Rooms,
    /// What [`Share::used`] adds up to.
    used: u64,
    /// Of all replicas, tokens.
    capacity: u64,
    /// Of all replicas, tokens, if there were no host memory.
    kv_capacity: u64,
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
        let mut leases = Self {
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
            rooms: Rooms::new(replicas),
            used: 0,
            capacity: 0,
            kv_capacity: 0,
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
        };
        leases.configure(settings, seats);
        leases
    }

    pub(crate) fn configure(&mut self, settings: LeaseSettings, seats: u32) {
        self.settings = settings;
        self.seats = seats;
        self.settled = false;
        for replica in 0..self.shares.len() {
            self.note_room(replica);
        }
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

    pub(crate) fn memory_bytes(&self) -> usize {
        self.members.memory_bytes() + self.queue.len() * size_of::<Waiting>()
    }
}
