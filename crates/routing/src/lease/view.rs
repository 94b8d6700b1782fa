//! Leases as the pages and metrics read them.

use std::time::Duration;

use super::Leases;
use super::member::MemberId;
use crate::replica::Replicas;
use crate::{ConversationKey, OwnerId, ReplicaIndex, Ticket, Time};

/// Waiting requests that a view names; the rest are only counted.
const WAITERS_SHOWN: usize = 50;

/// Whether there are leases, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// The settings say so.
    Off,
    /// Affinity is off, so there is nothing to hold.
    AffinityOff,
    /// An engine has not told how many tokens its cache holds.
    KvTokensUnknown,
    /// No engine has told yet how much of a prompt it read from its cache.
    UsageUnknown,
    /// Routing is sticky, and watched.
    Sticky,
    /// Conversations hold their share, and others wait.
    Contended {
        /// Since then.
        since: Time,
    },
}

/// What the waiting answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// To be named in every later event of this request.
    pub ticket: Ticket,
    /// How long it is likely to be.
    pub predicted: Duration,
    /// Requests that waited already.
    pub ahead: usize,
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterView {
    /// Its ticket.
    pub ticket: Ticket,
    /// Whose key it came with.
    pub owner: OwnerId,
    /// Its conversation, where one is named.
    pub conversation: Option<ConversationKey>,
    /// When its conversation first asked, refused attempts included.
    pub since: Time,
    /// How long it is likely to wait still.
    pub remaining: Duration,
}

/// A conversation that holds a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderView {
    /// The conversation.
    pub conversation: ConversationKey,
    /// Where.
    pub replica: ReplicaIndex,
    /// Own tokens that it is charged with.
    pub tokens: u32,
    /// Turns since the lease was given.
    pub turns: u32,
    /// When that was.
    pub since: Time,
    /// Until when silence is held; `None` while a turn is in flight.
    pub held_until: Option<Time>,
}

/// One replica's leases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaseShare {
    /// Conversations that hold a share of its cache.
    pub holding: u32,
    /// Own tokens of these.
    pub leased_tokens: u64,
    /// Own tokens that may be leased; `None` where its cache's size is unknown.
    pub capacity_tokens: Option<u64>,
    /// Part of the cache that is believed to be usable, 0.6 to 1.
    pub theta: f64,
}

/// Sums since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseCounters {
    /// Requests that had to wait.
    pub waits: u64,
    /// Leases given.
    pub grants: u64,
    /// Turns that found their lease still held.
    pub held_turns: u64,
    /// Leases ended because the conversation was silent for longer than it was held.
    pub released_silent: u64,
    /// Because others had waited for a quantum of turns.
    pub released_quantum: u64,
    /// Because more was leased than fits.
    pub released_overflow: u64,
    /// Because the replica or the conversation was gone, or the contention over.
    pub released_void: u64,
    /// Waits that ended as there was room.
    pub ended_room: u64,
    /// As their conversation had a lease by then.
    pub ended_held: u64,
    /// As they had lasted too long, so that the request went to a full replica.
    pub ended_age: u64,
    /// As the contention was over, or leases were switched off.
    pub ended_over: u64,
    /// As no replica was left to wait for.
    pub ended_nowhere: u64,
    /// As the client left, or the caller was being stopped.
    pub ended_left: u64,
    /// Requests that went to a full replica because of their age, some of them on arrival.
    pub over_age: u64,
    /// Requests that were told to come back.
    pub refused: u64,
    /// Times that leases began.
    pub contentions: u64,
    /// Own tokens that conversations had left on a replica and found gone.
    pub missed_tokens: u64,
    /// Own tokens that they had left there in all.
    pub expected_tokens: u64,
}

/// The state of leases at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseView {
    /// Whether there are any.
    pub state: LeaseState,
    /// Requests that wait.
    pub waiting: usize,
    /// Conversations that hold a share.
    pub holding: u32,
    /// The longest wait's beginning.
    pub oldest: Option<Time>,
    /// How long a request that came now would wait.
    pub predicted_wait: Duration,
    /// Share of what conversations left on their replica that they find gone, lately, 0..1.
    pub miss_ratio: f64,
    /// By replica.
    pub replicas: Vec<LeaseShare>,
    /// Those that wait, next one first, at most 50.
    pub waiters: Vec<WaiterView>,
    /// Sums since the start.
    pub counters: LeaseCounters,
}

impl Leases {
    /// Conversations that hold a lease, the longest first, at most `limit`.
    pub(crate) fn holders(&self, limit: usize) -> Vec<HolderView> {
        let view = |id: &MemberId| {
            let member = &self.members[*id];
            member.lease.map(|lease| HolderView {
                conversation: member.key,
                replica: lease.replica,
                tokens: lease.footprint,
                turns: lease.turns,
                since: lease.since,
                held_until: lease.idle_until,
            })
        };
        let mut holders: Vec<HolderView> = self.holders.iter().filter_map(view).collect();
        holders.sort_by_key(|holder| holder.since);
        holders.truncate(limit);
        holders
    }

    /// The state for pages and metrics.
    pub(crate) fn view(&self, now: Time, replicas: &Replicas, affinity: bool) -> LeaseView {
        let share = |index: usize| LeaseShare {
            holding: self.shares[index].leases,
            leased_tokens: self.shares[index].leased,
            capacity_tokens: self.shares[index].capacity,
            theta: self.shares[index].theta,
        };
        let front = self.queue.front(WAITERS_SHOWN as u32 - 1);
        let waiters = front.into_iter().map(|waiting| WaiterView {
            ticket: waiting.ticket,
            owner: waiting.request.owner,
            conversation: waiting.request.identity.map(|id| id.conversation),
            since: waiting.first_arrival,
            remaining: self.predicted_wait(now, waiting),
        });
        let is_contended = self.switch.is_contended();
        LeaseView {
            state: self.state(replicas, affinity),
            waiting: self.queue.len(),
            holding: self.holding(),
            oldest: self.queue.oldest(),
            predicted_wait: if is_contended {
                self.predicted_wait_of_last(now)
            } else {
                Duration::ZERO
            },
            miss_ratio: self.switch.miss_ratio(),
            replicas: (0..self.shares.len()).map(share).collect(),
            waiters: waiters.collect(),
            counters: self.counters,
        }
    }
}
