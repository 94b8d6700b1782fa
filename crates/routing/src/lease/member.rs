//! What leases remember of one conversation: its last turn, its gaps, what the replicas still hold of
//! it, and its lease. Kept beside the table, so that a conversation costs nothing while leases are off.

use hashbrown::HashTable;

use super::pace::Gaps;
use crate::{ConversationKey, OwnerId, ReplicaIndex, Time};

/// Where a member is stored; reused after it was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberId(pub(super) u32);

/// One conversation.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) key: ConversationKey,
    pub(super) owner: OwnerId,
    pub(super) last: Option<LastTurn>,
    pub(super) gaps: Gaps,
    pub(super) lease: Option<Lease>,
    /// Tokens of a turn that was in flight without a lease when leases began.
    pub(super) unleased: u32,
    /// Microseconds that its requests waited while the present leases lasted.
    pub(super) waited_us: u64,
    /// Where its tokens are believed to be.
    pub(super) residences: Vec<Residence>,
}

/// The last turn that finished.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastTurn {
    pub(super) context_tokens: u32,
    pub(super) shared_tokens: u32,
    pub(super) replica: ReplicaIndex,
    /// Of that replica's engine.
    pub(super) epoch: u32,
    pub(super) finished: Time,
    pub(super) lineage: u64,
    pub(super) front: u64,
    pub(super) prompt_tokens: u32,
}

/// A conversation's hold on its share of a replica's cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) replica: ReplicaIndex,
    /// F: own tokens that it is charged with.
    pub(super) footprint: u32,
    pub(super) since: Time,
    /// None while a turn is in flight; else until when silence is held.
    pub(super) idle_until: Option<Time>,
    /// Time of its replica that its owner was charged for.
    pub(super) charged_until: Time,
    pub(super) turns: u32,
}

/// Where a replica keeps tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// Its KV cache.
    Gpu,
    /// Host memory, with a copy of all that the KV cache holds.
    Host,
}

/// One cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) replica: ReplicaIndex,
    pub(super) tier: Tier,
}

/// Tokens of a conversation in one cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Residence {
    pub(super) place: Place,
    pub(super) tokens: u32,
    /// Its place in that cache's order of use.
    pub(super) stamp: u64,
}

/// All conversations that leases know.
#[derive(Debug, Default)]
pub(super) struct Members {
    slots: Vec<Option<Member>>,
    vacant: Vec<MemberId>,
    index: HashTable<MemberId>,
}

impl Members {
    pub(super) fn find(&self, key: ConversationKey) -> Option<MemberId> {
        self.index
            .find(hash(key), |id| self[*id].key == key)
            .copied()
    }

    pub(super) fn find_or_insert(&mut self, key: ConversationKey, owner: OwnerId) -> MemberId {
        if let Some(id) = self.find(key) {
            return id;
        }
        let member = Member {
            key,
            owner,
            last: None,
            gaps: Gaps::default(),
            lease: None,
            unleased: 0,
            waited_us: 0,
            residences: Vec::new(),
        };
        let id = if let Some(id) = self.vacant.pop() {
            self.slots[id.0 as usize] = Some(member);
            id
        } else {
            self.slots.push(Some(member));
            MemberId(self.slots.len() as u32 - 1)
        };
        let slots = &self.slots;
        self.index.insert_unique(hash(key), id, |id| {
            hash(slots[id.0 as usize].as_ref().expect(LIVE).key)
        });
        id
    }

    pub(super) fn remove(&mut self, id: MemberId) {
        let member = self.slots[id.0 as usize].take().expect(LIVE);
        if let Ok(entry) = self
            .index
            .find_entry(hash(member.key), |found| *found == id)
        {
            entry.remove();
        }
        self.vacant.push(id);
    }

    /// All of them, in the order of their slots.
    pub(super) fn ids(&self) -> Vec<MemberId> {
        let live = self.slots.iter().enumerate().filter(|(_, m)| m.is_some());
        live.map(|(index, _)| MemberId(index as u32)).collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Member>>()
            + self.vacant.capacity() * size_of::<MemberId>()
            + self.index.allocation_size()
            + self.index.len() * size_of::<Residence>()
    }
}

const LIVE: &str = "an id is only kept of a member that is there";

impl std::ops::Index<MemberId> for Members {
    type Output = Member;

    fn index(&self, id: MemberId) -> &Member {
        self.slots[id.0 as usize].as_ref().expect(LIVE)
    }
}

impl std::ops::IndexMut<MemberId> for Members {
    fn index_mut(&mut self, id: MemberId) -> &mut Member {
        self.slots[id.0 as usize].as_mut().expect(LIVE)
    }
}

/// Keys are keyed hashes already: any 64 of their bits will do.
fn hash(key: ConversationKey) -> u64 {
    key.0 as u64
}
