//! Which conversations have to be written down again, each at most once however often it speaks.
//! Bounded without anybody reading it: changed slots by the table's slots, forgotten keys by the
//! records that were exported.

use super::slab::{Slab, Slot};
use crate::{ConversationKey, HomeChange};

/// Changes since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Slots, each once ([`super::conversation::Tenancy::changed`]); what lives there when they are taken counts.
    slots: Vec<Slot>,
    /// Exported conversations that were forgotten since.
    forgotten: Vec<ConversationKey>,
}

impl Changes {
    /// The conversation's record is no longer what was written.
    pub(super) fn mark(&mut self, slab: &mut Slab, slot: Slot) {
        if !std::mem::replace(&mut slab[slot].tenancy.changed, true) {
            self.slots.push(slot);
        }
    }

    /// The conversation is gone.
    pub(super) fn forget(&mut self, key: ConversationKey) {
        self.forgotten.push(key);
    }

    /// All changes: what was forgotten (unless it is back), then records by time of last activity.
    pub(super) fn take(
        &mut self,
        slab: &mut Slab,
        is_known: impl Fn(&Slab, ConversationKey) -> bool,
    ) -> Vec<HomeChange> {
        let forgotten = std::mem::take(&mut self.forgotten);
        let slots = std::mem::take(&mut self.slots);
        let mut changes = Vec::with_capacity(forgotten.len() + slots.len());
        changes.extend(
            forgotten
                .into_iter()
                .filter(|key| !is_known(slab, *key))
                .map(HomeChange::Forget),
        );
        let mut records = Vec::with_capacity(slots.len());
        for slot in slots {
            let conversation = &mut slab[slot];
            conversation.tenancy.changed = false;
            if conversation.tenancy.live {
                conversation.exported = true;
                records.push(conversation.record());
            }
        }
        records.sort_by_key(|record| record.last_active);
        changes.extend(records.into_iter().map(HomeChange::Set));
        changes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.forgotten.capacity() * size_of::<ConversationKey>()
    }
}
