//! One request as the scheduler sees it, and the table that finds it by id.

use super::RequestId;
use super::block_pool::{BlockId, Identity};
use super::prefix::PrefixHashes;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Position of a request in [`Requests`].
pub(super) type Slot = usize;

/// The longest cached chain found for a waiting request, valid while the pool's epoch is the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) epoch: u64,
    pub(super) blocks: u32,
}

/// A request from its arrival to its end.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// Prompt, then the outputs that have come back.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt_len: u32,
    pub(super) output_max: u32,
    /// Tokens whose KV is in its blocks (or is being written by a step in flight).
    pub(super) computed: u32,
    /// Outputs of steps in flight: their number is known, their value is not.
    pub(super) pending_outputs: u32,
    /// Blocks held, in order of position.
    pub(super) blocks: Vec<BlockId>,
    pub(super) hashes: PrefixHashes,
    /// How many of `blocks` are registered under their hash.
    pub(super) registered: u32,
    pub(super) cached_at_admission: Option<u32>,
    pub(super) preempted_before: bool,
    pub(super) hit: Option<Hit>,
}

impl Request {
    pub(super) fn new(
        id: RequestId,
        prompt: Vec<u32>,
        output_max: u32,
        hashes: PrefixHashes,
    ) -> Self {
        Self {
            id,
            prompt_len: prompt.len() as u32,
            tokens: prompt,
            output_max,
            computed: 0,
            pending_outputs: 0,
            blocks: Vec::new(),
            hashes,
            registered: 0,
            cached_at_admission: None,
            preempted_before: false,
            hit: None,
        }
    }

    /// Tokens known so far.
    pub(super) fn len(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Whether the outputs in flight already reach the length limit, so that one more step would be
    /// in vain.
    pub(super) fn surely_ends(&self) -> bool {
        self.pending_outputs > 0
            && self.computed + 2 - self.pending_outputs >= self.prompt_len + self.output_max
    }
}

/// All requests, in reused slots, and where each id is.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    slots: Vec<Option<Request>>,
    vacant: Vec<Slot>,
    by_id: HashMap<u64, Slot, BuildHasherDefault<Identity>>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> Slot {
        let id = request.id.0;
        let slot = if let Some(slot) = self.vacant.pop() {
            self.slots[slot] = Some(request);
            slot
        } else {
            self.slots.push(Some(request));
            self.slots.len() - 1
        };
        self.by_id.insert(id, slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Request {
        let request = self.slots[slot].take().expect("a queued slot is occupied");
        self.by_id.remove(&request.id.0);
        self.vacant.push(slot);
        request
    }

    pub(super) fn slot_of(&self, id: RequestId) -> Option<Slot> {
        self.by_id.get(&id.0).copied()
    }

    pub(super) fn get(&self, slot: Slot) -> &Request {
        self.slots[slot]
            .as_ref()
            .expect("a queued slot is occupied")
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Request {
        self.slots[slot]
            .as_mut()
            .expect("a queued slot is occupied")
    }
}
