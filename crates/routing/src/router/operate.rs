//! What survives a restart, what pages show, and what an operator may do to a conversation.

use super::Router;
use crate::table::Conversation;
use crate::{
    ConversationKey, ConversationView, HolderView, HomeChange, HomeRecord, ReplicaIndex, Snapshot,
    Time,
};

impl Router {
    /// Puts back persisted homes (oldest first), before the first request. Records over the
    /// table's bounds, past the idle time, of an unknown replica, or of a conversation that was put
    /// back already are dropped.
    pub fn restore(&mut self, now: Time, homes: impl IntoIterator<Item = HomeRecord>) {
        for record in homes {
            if self.table.find(record.identity.conversation).is_some() {
                continue;
            }
            while let Some(surplus) = self.table.surplus_for(record.owner) {
                self.drop_conversation(surplus);
            }
            let slot = self.table.insert(Conversation::restored(&record, now));
            let is_known_home = usize::from(record.home.0) < self.replicas.len();
            let idle = now.since(record.last_active);
            if !is_known_home || idle > self.settings.session_idle {
                self.drop_conversation(slot);
            } else if idle <= super::conversations::ACTIVE_SILENCE_MAX {
                self.table.activate(slot);
                self.reweigh(slot, |_| ());
            }
        }
    }

    /// Changes to homes since the last call, oldest first, at most one per conversation, bounded
    /// by the table.
    pub fn take_changes(&mut self) -> Vec<HomeChange> {
        self.table.take_changes()
    }

    /// State for pages and metrics.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        Snapshot {
            replicas: self.replicas.views(now),
            in_flight: u32::try_from(self.flights.len()).unwrap_or(u32::MAX),
            conversations: self.table.len(),
            leases: self
                .leases
                .view(now, &self.replicas, self.settings.affinity),
        }
    }

    /// Conversations that hold a lease, the longest first, at most `limit`.
    pub fn lease_holders(&self, limit: usize) -> Vec<HolderView> {
        self.leases.holders(limit)
    }

    /// Conversations, most recently active first, at most `limit`.
    pub fn conversations(&self, now: Time, limit: usize) -> Vec<ConversationView> {
        let mut views = self.table.views(limit);
        views.retain(|view| !self.is_forgotten(now, view));
        views
    }

    /// One conversation.
    pub fn conversation(&self, now: Time, key: ConversationKey) -> Option<ConversationView> {
        let view = self.table.get(self.table.find(key)?).view();
        (!self.is_forgotten(now, &view)).then_some(view)
    }

    /// The conversation whose key is shown so.
    pub fn conversation_shown_as(&self, now: Time, shown: u64) -> Option<ConversationView> {
        let view = self.table.get(self.table.find_shown(shown)?).view();
        (!self.is_forgotten(now, &view)).then_some(view)
    }

    /// Operator: gives a conversation another home. False where it is unknown or there is no such
    /// replica.
    pub fn move_conversation(&mut self, now: Time, key: ConversationKey, to: ReplicaIndex) -> bool {
        self.sweep(now);
        let Some(slot) = self.table.find(key) else {
            return false;
        };
        if usize::from(to.0) >= self.replicas.len() {
            return false;
        }
        self.reweigh(slot, |conversation| conversation.resettle(to));
        self.table.mark_changed(slot);
        self.leases.resettle(now, key, to);
        true
    }

    /// Operator: forgets a conversation. False where it is unknown.
    pub fn forget(&mut self, key: ConversationKey) -> bool {
        let slot = self.table.find(key);
        if let Some(slot) = slot {
            self.drop_conversation(slot);
        }
        slot.is_some()
    }

    /// Idle past its time, though the sweep has not come to it yet.
    fn is_forgotten(&self, now: Time, view: &ConversationView) -> bool {
        view.in_flight == 0 && now.since(view.record.last_active) > self.settings.session_idle
    }
}
