//! What a finished turn teaches, and whether its lease ends.

use std::time::Duration;

use crate::flights::Flight;
use crate::replica::Replicas;
use crate::table::Conversation;
use crate::{ConversationKey, OwnerId, ReplicaIndex, Time, Usage};

use super::capacity::Use;
use super::costs::TurnCost;
use super::member::{LastTurn, MemberId};
use super::{Cause, Charge, Leases, Overflow};

/// Own tokens that a turn never finds again: the last block of what it left is not full.
const BLOCK_TOKENS: u32 = 16;

/// A request that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended<'a> {
    pub(crate) flight: &'a Flight,
    /// `None` after a bad end, and where the engine gave none.
    pub(crate) usage: Option<Usage>,
    /// Its conversation as it is now, unless that was forgotten.
    pub(crate) conversation: Option<&'a Conversation>,
}

/// Own tokens that a turn could have found on its replica, and how many of them were gone.
#[derive(Debug, Clone, Copy)]
struct Miss {
    expected: u32,
    missed: u32,
}

impl Leases {
    /// A request ended.
    pub(crate) fn ended(&mut self, now: Time, ended: &Ended<'_>, replicas: &Replicas) {
        if self.is_off() {
            return;
        }
        self.uncharge(now, ended.flight);
        let Some(replica) = ended.flight.replica else {
            return;
        };
        self.look_at(usize::from(replica.0), replicas);
        let Some(conversation) = ended.conversation else {
            return;
        };
        let mut is_measured = false;
        if let Some(usage) = ended.usage.filter(|_| ended.flight.is_turn) {
            self.learn(now, ended, usage);
            if let Some(cached) = usage.cached_tokens {
                is_measured = true;
                self.usage_seen = true;
                self.turn_ended(now, ended, (conversation, replica), cached);
            }
        }
        if self.is_contended()
            && let Some(id) = self.members.find(conversation.key)
        {
            if is_measured {
                self.believe(id, replicas);
            }
            if ended.flight.is_turn {
                self.unleased -= u64::from(std::mem::take(&mut self.members[id].unleased));
            }
            if conversation.in_flight == 0 {
                self.fall_silent(now, id, ended, (conversation, replicas));
            }
        }
    }

    /// How long a conversation's lease on a replica is held through a gap.
    pub(super) fn hold(&self, key: ConversationKey, owner: OwnerId, replica: usize) -> Duration {
        let own = self.members.find(key).map(|id| self.members[id].gaps);
        let gaps = own.filter(|gaps| !gaps.is_empty()).unwrap_or_else(|| {
            let owners = self.owners.get(&owner).copied();
            owners.unwrap_or_default().typical()
        });
        gaps.hold(self.settings.rule.hold, self.worth(replica))
    }

    /// The load changed; whether leases end for all by that.
    pub(crate) fn should_end(&mut self, now: Time) -> bool {
        self.switch.note_load(now, self.load());
        self.switch.should_end(now, &self.settings.rule)
    }

    /// Whether leases begin for all.
    pub(crate) fn should_begin(&self, replicas: &Replicas) -> bool {
        !self.is_off()
            && self.usage_seen
            && self.switch.should_begin(&self.settings.rule)
            && (0..self.shares.len()).all(|replica| replicas.kv_tokens(replica).is_some())
    }

    /// Gives back what the request held of its replica.
    pub(crate) fn uncharge(&mut self, now: Time, flight: &Flight) {
        match flight.charge {
            Charge::Nothing => return,
            Charge::Tokens(tokens) => {
                let Some(replica) = flight.replica else {
                    return;
                };
                let at = usize::from(replica.0);
                self.use_tokens(at, Use::Charged, (tokens, 0));
                if flight.request.identity.is_none() {
                    self.shares[at].anonymous -= u64::from(tokens);
                    self.reserve.end(now, tokens);
                }
            }
            Charge::Spread(tokens) => {
                for at in 0..self.shares.len() {
                    self.use_tokens(at, Use::Charged, (tokens, 0));
                }
            }
        }
        self.settled = false;
    }

    fn learn(&mut self, now: Time, ended: &Ended<'_>, usage: Usage) {
        let flight = ended.flight;
        let since_dispatch = |at: Time| at.since(flight.dispatched);
        let leases_began = self.switch.contended_since();
        self.costs.learn(&TurnCost {
            duration: now.since(flight.dispatched),
            is_typical: leases_began.is_none_or(|began| flight.dispatched >= began),
            streams: flight.request.streams,
            first_byte: flight.first_byte.map(since_dispatch),
            computed_tokens: usage
                .cached_tokens
                .map(|cached| usage.prompt_tokens.saturating_sub(cached)),
            completion_tokens: usage.completion_tokens,
        });
    }

    /// A turn of a conversation finished on a replica and was measured.
    fn turn_ended(
        &mut self,
        now: Time,
        ended: &Ended<'_>,
        (conversation, replica): (&Conversation, ReplicaIndex),
        cached_tokens: u64,
    ) {
        let flight = ended.flight;
        let at = usize::from(replica.0);
        let id = self
            .members
            .find_or_insert(conversation.key, conversation.owner);
        if let Some(last) = self.members[id].last {
            let gap = flight.arrived.since(last.finished);
            self.members[id].gaps.note(gap);
            self.owners.entry(conversation.owner).or_default().note(gap);
            self.costs.learn_growth(
                conversation
                    .context_tokens
                    .saturating_sub(last.context_tokens),
            );
            let is_worth = gap <= self.worth(at) / 2;
            if let Some(miss) = self.miss(&last, ended, (conversation, replica), cached_tokens) {
                self.note_miss(id, replica, miss, is_worth);
            }
        }
        self.members[id].last = Some(LastTurn {
            context_tokens: conversation.context_tokens,
            shared_tokens: conversation.weight().shared_tokens,
            replica,
            epoch: self.shares[at].epoch,
            finished: now,
            lineage: flight.request.lineage,
            front: flight.request.front,
            prompt_tokens: ended.usage.map_or(0, |usage| usage.prompt_tokens as u32),
        });
    }

    /// What a turn missed of what the one before it left on the same replica; `None` where the
    /// client did not extend that (a prefix that it broke is no eviction) or the engine restarted.
    fn miss(
        &self,
        last: &LastTurn,
        ended: &Ended<'_>,
        (conversation, replica): (&Conversation, ReplicaIndex),
        cached_tokens: u64,
    ) -> Option<Miss> {
        let request = &ended.flight.request;
        let prompt_tokens = ended.usage?.prompt_tokens;
        let is_same_engine =
            last.replica == replica && last.epoch == self.shares[usize::from(replica.0)].epoch;
        let extends = last.lineage == request.lineage
            && (last.front == 0 || last.front == request.front)
            && prompt_tokens >= u64::from(last.prompt_tokens);
        if !is_same_engine || !extends {
            return None;
        }
        let expected = last.context_tokens.saturating_sub(last.shared_tokens);
        let shared_tokens = conversation.weight().shared_tokens;
        let found = (cached_tokens as u32).saturating_sub(shared_tokens);
        Some(Miss {
            expected,
            missed: expected.saturating_sub(found).saturating_sub(BLOCK_TOKENS),
        })
    }

    /// Takes note of a miss; one after a gap that no lease would be held through counts for nothing.
    fn note_miss(&mut self, id: MemberId, replica: ReplicaIndex, miss: Miss, is_worth: bool) {
        let missed = if is_worth { miss.missed } else { 0 };
        self.counters.missed_tokens += u64::from(missed);
        self.counters.expected_tokens += u64::from(miss.expected);
        if !self.is_contended() {
            self.switch.note_finish(missed, miss.expected);
            return;
        }
        let was_held = self.members[id]
            .lease
            .is_some_and(|lease| lease.replica == replica && lease.turns > 1);
        if was_held && self.settings.rule.trims {
            let somebody_waits = !self.queue.is_empty();
            let share = &mut self.shares[usize::from(replica.0)];
            let changed = share.note_held(missed, miss.expected, somebody_waits);
            self.settled &= !changed;
        }
    }

    /// Nothing of the conversation is in flight any more: its lease is idle, or ends.
    fn fall_silent(
        &mut self,
        now: Time,
        id: MemberId,
        ended: &Ended<'_>,
        (conversation, replicas): (&Conversation, &Replicas),
    ) {
        let Some(lease) = self.members[id].lease else {
            return;
        };
        let at = usize::from(lease.replica.0);
        let is_turn = ended.flight.is_turn;
        if is_turn && ended.usage.is_some() {
            self.resize(id, conversation.own_tokens);
        }
        self.charge_owner(id, now);
        let hold = self.hold(conversation.key, conversation.owner, at);
        self.set_idle(id, now.plus(hold));
        self.settled = false;
        if !replicas.is_open(lease.replica) {
            self.end_lease(now, id, Cause::Void);
        } else if is_turn && !self.queue.is_empty() {
            let share = &self.shares[at];
            let capacity = share.capacity.unwrap_or(u64::MAX);
            let overflows = share.leased > capacity && share.leases >= 2;
            let makes_room = match self.settings.rule.overflow {
                Overflow::Ignored => false,
                Overflow::Anyone => overflows,
                Overflow::WaitedLess => overflows && self.has_waited_less(id, lease.replica),
            };
            if makes_room {
                self.end_lease(now, id, Cause::Overflow);
            } else if self.is_quantum_spent(now, lease.turns) {
                self.end_lease(now, id, Cause::Quantum);
            }
        }
    }

    /// The lease's footprint is what its conversation fills now.
    fn resize(&mut self, id: MemberId, footprint: u32) {
        self.set_busy(id);
        if let Some(lease) = &mut self.members[id].lease {
            let at = usize::from(lease.replica.0);
            let before = std::mem::replace(&mut lease.footprint, footprint);
            self.use_tokens(at, Use::Leased, (before, footprint));
        }
    }
}
