//! The bounded table of conversations: found by key, ordered by last activity, limited in all and
//! per owner, forgotten when idle. It only keeps; what a conversation weighs on its home is the
//! router's business, which is why idle and surplus conversations are named here but dropped there.
//!
//! The ids come from strangers: a flood of them costs old conversations their place, first its own
//! owner's, and is never an error.

mod changes;
mod conversation;
mod recency;
mod slab;

use hashbrown::HashTable;

use crate::{ConversationKey, ConversationView, HomeChange, OwnerId, Time};
use changes::Changes;
pub(crate) use conversation::{Conversation, saturating};
use recency::{Order, Recency};
use slab::Slab;
pub(crate) use slab::Slot;

/// Largest limit: slots are numbered in 32 bits.
const CONVERSATIONS_MAX: usize = u32::MAX as usize - 1;

/// Room that is reserved at once (7 MB at most); a larger table grows into its limit.
const RESERVED_MAX: usize = 1 << 20;

/// The conversations of one owner.
#[derive(Debug)]
struct Owned {
    owner: OwnerId,
    recency: Recency,
}

/// The table of one model.
#[derive(Debug)]
pub(crate) struct Table {
    slab: Slab,
    index: HashTable<Slot>,
    recency: Recency,
    owners: HashTable<Owned>,
    /// In order of activity, conversations before this one are inactive, this one and the later ones are active.
    oldest_active: Option<Slot>,
    limit: usize,
    changes: Changes,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slab: Slab::default(),
            index: HashTable::with_capacity(limit.min(RESERVED_MAX)),
            recency: Recency::default(),
            owners: HashTable::new(),
            oldest_active: None,
            limit: limit.clamp(1, CONVERSATIONS_MAX),
            changes: Changes::default(),
        }
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(1, CONVERSATIONS_MAX);
    }

    pub(crate) fn len(&self) -> usize {
        self.recency.len
    }

    pub(crate) fn get(&self, slot: Slot) -> &Conversation {
        &self.slab[slot]
    }

    /// Access without a note for the export: for what is not written down.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Conversation {
        &mut self.slab[slot]
    }

    pub(crate) fn find(&self, key: ConversationKey) -> Option<Slot> {
        find(&self.index, &self.slab, key)
    }

    /// The conversation whose key is shown so.
    pub(crate) fn find_shown(&self, shown: u64) -> Option<Slot> {
        self.index
            .find(shown, |slot| self.slab[*slot].key.shown() == shown)
            .copied()
    }

    /// Who has to go before a conversation of this owner may come: the owner's own oldest where
    /// it holds half of the table, the oldest of all where the table is full.
    pub(crate) fn surplus_for(&self, owner: OwnerId) -> Option<Slot> {
        self.owners
            .find(hash_of_owner(owner), |owned| owned.owner == owner)
            .filter(|owned| owned.recency.len >= (self.limit / 2).max(1))
            .and_then(|owned| owned.recency.oldest)
            .or_else(|| (self.len() >= self.limit).then_some(self.recency.oldest)?)
    }

    /// The oldest conversation of all where the table is over its limit.
    pub(crate) fn surplus(&self) -> Option<Slot> {
        (self.len() > self.limit).then_some(self.recency.oldest)?
    }

    /// Puts a conversation in as the most recent, not active yet. The caller has made room and
    /// knows that the key is new.
    pub(crate) fn insert(&mut self, conversation: Conversation) -> Slot {
        let (key, owner) = (conversation.key, conversation.owner);
        let slot = self.slab.insert(conversation);
        let slab = &self.slab;
        self.index
            .insert_unique(hash_of_key(key), slot, |slot| hash_of_key(slab[*slot].key));
        self.link(owner, slot);
        slot
    }

    /// Takes a conversation out and returns what it was.
    pub(crate) fn remove(&mut self, slot: Slot) -> Conversation {
        let conversation = self.slab[slot].clone();
        self.unlink(conversation.owner, slot);
        if let Ok(entry) = self
            .index
            .find_entry(hash_of_key(conversation.key), |found| *found == slot)
        {
            entry.remove();
        }
        if conversation.exported {
            self.changes.forget(conversation.key);
        }
        self.slab.remove(slot);
        conversation
    }

    /// The conversation speaks: it becomes the most recent. True where that makes it active.
    pub(crate) fn touch(&mut self, slot: Slot, now: Time) -> bool {
        let owner = self.slab[slot].owner;
        self.slab[slot].last_active = now;
        self.changes.mark(&mut self.slab, slot);
        if self.recency.newest != Some(slot) {
            self.unlink(owner, slot);
            self.link(owner, slot);
        }
        self.activate(slot)
    }

    /// The most recent conversation becomes active; false where it was already.
    pub(crate) fn activate(&mut self, slot: Slot) -> bool {
        self.oldest_active.get_or_insert(slot);
        !std::mem::replace(&mut self.slab[slot].active, true)
    }

    /// The record changed without the conversation speaking.
    pub(crate) fn mark_changed(&mut self, slot: Slot) {
        self.changes.mark(&mut self.slab, slot);
    }

    /// The longest silent active conversation, if it was last active before `since`.
    pub(crate) fn oldest_active_before(&self, since: Time) -> Option<Slot> {
        self.oldest_active
            .filter(|slot| self.slab[*slot].last_active < since)
    }

    /// The longest silent active conversation stops being active.
    pub(crate) fn deactivate_oldest(&mut self) {
        if let Some(slot) = self.oldest_active {
            self.slab[slot].active = false;
            self.oldest_active = self.slab[slot].links[Order::All as usize].newer;
        }
    }

    /// The longest silent conversation, if it was last active before `since`.
    pub(crate) fn oldest_before(&self, since: Time) -> Option<Slot> {
        self.recency
            .oldest
            .filter(|slot| self.slab[*slot].last_active < since)
    }

    pub(crate) fn take_changes(&mut self) -> Vec<HomeChange> {
        let index = &self.index;
        self.changes
            .take(&mut self.slab, |slab, key| find(index, slab, key).is_some())
    }

    /// Most recently active first.
    pub(crate) fn views(&self, limit: usize) -> Vec<ConversationView> {
        std::iter::successors(self.recency.newest, |slot| {
            self.slab[*slot].links[Order::All as usize].older
        })
        .take(limit)
        .map(|slot| self.slab[slot].view())
        .collect()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slab.memory_bytes()
            + self.index.allocation_size()
            + self.owners.allocation_size()
            + self.changes.memory_bytes()
    }

    fn link(&mut self, owner: OwnerId, slot: Slot) {
        self.recency.push(&mut self.slab, Order::All, slot);
        self.owners
            .entry(
                hash_of_owner(owner),
                |owned| owned.owner == owner,
                |owned| hash_of_owner(owned.owner),
            )
            .or_insert_with(|| Owned {
                owner,
                recency: Recency::default(),
            })
            .into_mut()
            .recency
            .push(&mut self.slab, Order::Owner, slot);
    }

    fn unlink(&mut self, owner: OwnerId, slot: Slot) {
        if self.oldest_active == Some(slot) {
            self.oldest_active = self.slab[slot].links[Order::All as usize].newer;
        }
        self.recency.unlink(&mut self.slab, Order::All, slot);
        let Ok(mut entry) = self
            .owners
            .find_entry(hash_of_owner(owner), |owned| owned.owner == owner)
        else {
            return;
        };
        let recency = &mut entry.get_mut().recency;
        recency.unlink(&mut self.slab, Order::Owner, slot);
        if recency.len == 0 {
            entry.remove();
        }
    }
}

fn find(index: &HashTable<Slot>, slab: &Slab, key: ConversationKey) -> Option<Slot> {
    index
        .find(hash_of_key(key), |slot| slab[*slot].key == key)
        .copied()
}

/// Keys are keyed hashes already: any 64 of their bits will do, so it is those that are shown, by
/// which an operator then finds a conversation.
fn hash_of_key(key: ConversationKey) -> u64 {
    key.shown()
}

/// Owners are numbered by the operator; multiplying by the golden ratio spreads them.
fn hash_of_owner(owner: OwnerId) -> u64 {
    u64::from(owner.0).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
