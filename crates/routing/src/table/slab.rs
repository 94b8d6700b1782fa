//! Storage of conversations at stable slots, in chunks, so that growing never copies the table (a
//! million entries would stall one unlucky request) and never holds twice the memory.

use std::num::NonZeroU32;

use super::Conversation;

/// Conversations per chunk.
const CHUNK: usize = 1024;

/// Where a conversation is stored. Reused after a removal; [`super::conversation::Tenancy`] tells
/// the tenants apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).expect("the table's limit is below 2^32");
        Self(NonZeroU32::new(number).expect("an index plus one is not zero"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Slots in use and free.
#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Vec<Conversation>>,
    free: Vec<Slot>,
    used: usize,
}

impl Slab {
    /// Stores a conversation.
    pub(super) fn insert(&mut self, mut conversation: Conversation) -> Slot {
        if let Some(slot) = self.free.pop() {
            conversation.tenancy = self[slot].tenancy;
            conversation.tenancy.live = true;
            self[slot] = conversation;
            return slot;
        }
        conversation.tenancy.live = true;
        let slot = Slot::new(self.used);
        if self.used.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.used += 1;
        let chunk = self.chunks.last_mut().expect("a chunk was just ensured");
        chunk.push(conversation);
        slot
    }

    /// Frees the slot; handles with its old generation no longer match.
    pub(super) fn remove(&mut self, slot: Slot) {
        let tenancy = &mut self[slot].tenancy;
        tenancy.generation = tenancy.generation.wrapping_add(1);
        tenancy.live = false;
        self.free.push(slot);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Conversation>()
            + self.chunks.capacity() * size_of::<Vec<Conversation>>()
            + self.free.capacity() * size_of::<Slot>()
    }
}

impl std::ops::Index<Slot> for Slab {
    type Output = Conversation;

    fn index(&self, slot: Slot) -> &Conversation {
        &self.chunks[slot.index() / CHUNK][slot.index() % CHUNK]
    }
}

impl std::ops::IndexMut<Slot> for Slab {
    fn index_mut(&mut self, slot: Slot) -> &mut Conversation {
        &mut self.chunks[slot.index() / CHUNK][slot.index() % CHUNK]
    }
}
