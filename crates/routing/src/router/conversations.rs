//! Conversations as they live: speaking, growing, moving, falling silent, forgotten. Whatever
//! changes a conversation's weight or home goes through [`Router::reweigh`], so that a replica's
//! ledger always equals the sum of what lives there.

use std::time::Duration;

use super::Router;
use crate::choice::Choice;
use crate::flights::{Flight, Tenant};
use crate::table::{Conversation, Slot, saturating};
use crate::{Identity, ReplicaIndex, Request, Route, Time, Usage};

/// Silence after which a conversation no longer counts on its home's cache and company. Recorded
/// Claude Code sessions pause for at most 166 s before nine of ten turns.
pub(super) const ACTIVE_SILENCE_MAX: Duration = Duration::from_secs(180);

/// Conversations that one call lets fall silent or forgets: more than one call can add, so the
/// sweep keeps up, and few enough not to be felt.
const SWEPT_MAX: usize = 8;

impl Router {
    /// Catches up with the conversations that have been silent too long.
    pub(super) fn sweep(&mut self, now: Time) {
        self.clock = self.clock.max(now);
        for _ in 0..SWEPT_MAX {
            let Some(slot) = self
                .table
                .oldest_active_before(now.minus(ACTIVE_SILENCE_MAX))
            else {
                break;
            };
            if self.stays_busy(now, slot) {
                continue;
            }
            self.table.deactivate_oldest();
            self.reweigh(slot, |_| ());
        }
        for _ in 0..SWEPT_MAX {
            let Some(slot) = self
                .table
                .oldest_before(now.minus(self.settings.session_idle))
            else {
                break;
            };
            if !self.stays_busy(now, slot) {
                self.drop_conversation(slot);
            }
        }
    }

    /// The conversation, unless it has been idle for too long and the sweep has not come to it yet.
    pub(super) fn find_or_expire(&mut self, now: Time, identity: Identity) -> Option<Slot> {
        let slot = self.table.find(identity.conversation)?;
        let conversation = self.table.get(slot);
        let is_idle = now.since(conversation.last_active) > self.settings.session_idle;
        if is_idle && conversation.in_flight == 0 {
            self.drop_conversation(slot);
            return None;
        }
        Some(slot)
    }

    /// The conversation speaks, by way of this choice. True where that is a turn of it.
    pub(super) fn speak(
        &mut self,
        now: Time,
        slot: Slot,
        request: &Request,
        choice: &Choice,
    ) -> bool {
        let is_turn = self.table.get(slot).main.takes_turn(request);
        let weight = self.weigh(request);
        self.table.touch(slot, now);
        self.reweigh(slot, |conversation| {
            conversation.in_flight += 1;
            conversation.go(choice, is_turn);
            if is_turn {
                conversation.main.begin_turn(request);
                conversation.own_tokens = weight.own_tokens;
                conversation.context_tokens =
                    weight.own_tokens.saturating_add(weight.shared_tokens);
            } else {
                conversation.main.begin_side(request);
            }
        });
        is_turn
    }

    /// One of the conversation's requests ended.
    pub(super) fn fall_silent(&mut self, now: Time, flight: &Flight, usage: Option<Usage>) {
        let Some(slot) = self.tenant(flight.conversation) else {
            return;
        };
        self.table.touch(slot, now);
        self.reweigh(slot, |conversation| {
            conversation.in_flight -= 1;
            if let Some(usage) = usage.filter(|_| flight.is_turn) {
                conversation.measure(&flight.request, usage);
            }
        });
    }

    /// The conversation that a request in flight belongs to, unless it was forgotten meanwhile.
    pub(super) fn tenant(&self, tenant: Option<Tenant>) -> Option<Slot> {
        tenant
            .filter(|tenant| self.table.get(tenant.slot).tenancy.generation == tenant.generation)
            .map(|tenant| tenant.slot)
    }

    /// Changes a conversation, and its home's ledger with it.
    pub(super) fn reweigh(&mut self, slot: Slot, edit: impl FnOnce(&mut Conversation)) {
        let conversation = self.table.get_mut(slot);
        let charge = conversation.charge.take();
        self.replicas
            .remove_conversation(conversation.home, charge, conversation.main.lineage());
        edit(conversation);
        if conversation.active {
            conversation.charge = self
                .replicas
                .add_conversation(conversation.home, conversation.weight());
        }
    }

    /// Forgets a conversation. Its requests in flight go on, and belong to none.
    pub(super) fn drop_conversation(&mut self, slot: Slot) {
        let gone = self.table.remove(slot);
        self.leases.forget(self.clock, gone.key);
        self.replicas
            .remove_conversation(gone.home, gone.charge, gone.main.lineage());
    }

    /// A conversation whose reply is still under way is not silent, however long that takes.
    fn stays_busy(&mut self, now: Time, slot: Slot) -> bool {
        let is_busy = self.table.get(slot).in_flight > 0;
        if is_busy && self.table.touch(slot, now) {
            self.reweigh(slot, |_| ());
        }
        is_busy
    }
}

impl Conversation {
    /// Where it went, and what that means for its home and the next spill.
    fn go(&mut self, choice: &Choice, is_turn: bool) {
        self.last_route = choice.route;
        if let Some(replica) = choice.replica
            && choice.moves_home()
        {
            self.resettle(replica);
            self.moved_by_operator = false;
        } else if is_turn && choice.route == Route::Spilled {
            self.last_spill = choice.replica;
            self.spills = self.spills.saturating_add(1);
        } else if is_turn && choice.route == Route::Sticky {
            self.spills = 0;
        }
    }

    /// Where its second attempt went. A failed attempt says nothing of its home's load, so it counts
    /// for no spill.
    pub(super) fn go_again(&mut self, choice: &Choice) {
        self.last_route = choice.route;
        if let Some(replica) = choice.replica
            && choice.moves_home()
        {
            self.resettle(replica);
            self.moved_by_operator = false;
        } else if choice.route == Route::Sticky {
            self.spills = 0;
        }
    }

    /// Another home, and no memory of spills from the old one.
    pub(super) fn resettle(&mut self, to: ReplicaIndex) {
        self.moved_by_operator = self.home != to;
        self.home = to;
        self.last_spill = None;
        self.spills = 0;
    }

    /// The engine's own count of a turn replaces the estimate; what others share of it is told by
    /// the share of bytes.
    fn measure(&mut self, request: &Request, usage: Usage) {
        if usage.prompt_tokens == 0 {
            return;
        }
        let shared_part = request.shared_bytes as f64 / request.prompt_bytes.max(1) as f64;
        let shared_tokens = usage.prompt_tokens as f64 * shared_part.min(1.0);
        let context_tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        self.context_tokens = saturating(context_tokens);
        self.own_tokens = self.context_tokens.saturating_sub(shared_tokens as u32);
    }
}
