//! Least-recently-used order as a doubly linked list through the slab: constant time for every
//! touch, and an order that never depends on a hash map's.

use super::slab::{Slab, Slot};

/// Which of the two lists a conversation is linked into.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// All conversations.
    All = 0,
    /// Those of one owner.
    Owner = 1,
}

/// A conversation's neighbours in one list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Links {
    pub(super) older: Option<Slot>,
    pub(super) newer: Option<Slot>,
}

/// The ends of one list.
#[derive(Debug, Default)]
pub(super) struct Recency {
    pub(super) oldest: Option<Slot>,
    pub(super) newest: Option<Slot>,
    pub(super) len: usize,
}

impl Recency {
    /// Links a conversation in as the most recent.
    pub(super) fn push(&mut self, slab: &mut Slab, list: Order, slot: Slot) {
        slab[slot].links[list as usize] = Links {
            older: self.newest,
            newer: None,
        };
        match self.newest {
            Some(previous) => slab[previous].links[list as usize].newer = Some(slot),
            None => self.oldest = Some(slot),
        }
        self.newest = Some(slot);
        self.len += 1;
    }

    /// Takes a conversation out.
    pub(super) fn unlink(&mut self, slab: &mut Slab, list: Order, slot: Slot) {
        let Links { older, newer } = std::mem::take(&mut slab[slot].links[list as usize]);
        match older {
            Some(older) => slab[older].links[list as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => slab[newer].links[list as usize].older = older,
            None => self.newest = older,
        }
        self.len -= 1;
    }
}
