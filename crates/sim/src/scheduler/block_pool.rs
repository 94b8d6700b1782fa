//! The KV blocks of one replica: which are free, in what order they are reused, and which hold the
//! tokens of which prefix.
//!
//! vLLM never clears its prefix cache: a freed block keeps its contents at the end of the free list
//! until an allocation takes it from the head. What a conversation finds again is therefore decided
//! by the order of this list, and the order is reproduced exactly. Reference counts are kept here,
//! whose blocks they are is the scheduler's matter.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Position of a block in the pool. Block 0 is vLLM's null block and is never handed out.
pub(super) type BlockId = u32;

/// Hash of a full block's tokens and of everything before it; never [`UNHASHED`].
pub(super) type BlockHash = u64;

/// Marks a block whose contents are in no prefix chain.
pub(super) const UNHASHED: BlockHash = 0;

/// "No block" in the links between blocks.
const NONE: BlockId = BlockId::MAX;

/// Block hashes are uniform already: hashing them again would only cost time.
#[derive(Default, Clone)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Blocks of equal contents, in the order in which they were registered.
#[derive(Debug, Clone, Copy)]
struct Equals {
    first: BlockId,
    last: BlockId,
}

/// The links of one block in the lists it may be on.
#[derive(Debug, Clone, Copy)]
struct Block {
    hash: BlockHash,
    references: u32,
    free_previous: BlockId,
    free_next: BlockId,
    equal_previous: BlockId,
    equal_next: BlockId,
}

/// All blocks of one replica.
#[derive(Debug, Clone)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    free_first: BlockId,
    free_last: BlockId,
    free_count: usize,
    by_hash: HashMap<BlockHash, Equals, BuildHasherDefault<Identity>>,
    epoch: u64,
}

impl BlockPool {
    /// A pool of `num_blocks`, the null block included; the others are free, in order of their ids.
    pub(super) fn new(num_blocks: u32) -> Self {
        let last = num_blocks.saturating_sub(1);
        let blocks = (0..num_blocks)
            .map(|id| Block {
                hash: UNHASHED,
                references: 0,
                free_previous: if id > 1 { id - 1 } else { NONE },
                free_next: if id > 0 && id < last { id + 1 } else { NONE },
                equal_previous: NONE,
                equal_next: NONE,
            })
            .collect();
        Self {
            blocks,
            free_first: if last > 0 { 1 } else { NONE },
            free_last: if last > 0 { last } else { NONE },
            free_count: last as usize,
            by_hash: HashMap::with_capacity_and_hasher(
                last as usize,
                BuildHasherDefault::default(),
            ),
            epoch: 0,
        }
    }

    /// Blocks that nothing references; their contents may still be found.
    pub(super) fn free_count(&self) -> usize {
        self.free_count
    }

    /// Changes whenever a look-up by hash could give another answer than before.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether no request holds the block.
    pub(super) fn is_unreferenced(&self, id: BlockId) -> bool {
        self.blocks[id as usize].references == 0
    }

    /// The first registered block with these contents.
    pub(super) fn find(&self, hash: BlockHash) -> Option<BlockId> {
        self.by_hash.get(&hash).map(|equals| equals.first)
    }

    /// Takes the head of the free list and forgets what it held; `None` where all are referenced.
    pub(super) fn allocate(&mut self) -> Option<BlockId> {
        let id = self.free_first;
        if id == NONE {
            return None;
        }
        self.unlink_free(id);
        self.forget(id);
        self.blocks[id as usize].references = 1;
        Some(id)
    }

    /// One more request holds the block; a free one leaves the free list.
    pub(super) fn reference(&mut self, id: BlockId) {
        if self.is_unreferenced(id) {
            self.unlink_free(id);
        }
        self.blocks[id as usize].references += 1;
    }

    /// One request less holds the block. The last one puts it on the free list: to the end where its
    /// contents can be found again, else to the front, since nothing is lost by reusing it.
    pub(super) fn release(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.references = block
            .references
            .checked_sub(1)
            .expect("only held blocks are released");
        if block.references == 0 {
            if block.hash == UNHASHED {
                self.link_free_front(id);
            } else {
                self.link_free_back(id);
            }
        }
    }

    /// The block's contents are now those of `hash`; it is found once all registered before it with
    /// the same contents are gone.
    pub(super) fn register(&mut self, id: BlockId, hash: BlockHash) {
        debug_assert_eq!(self.blocks[id as usize].hash, UNHASHED);
        self.epoch += 1;
        self.blocks[id as usize].hash = hash;
        if let Some(equals) = self.by_hash.get_mut(&hash) {
            self.blocks[id as usize].equal_previous = equals.last;
            self.blocks[equals.last as usize].equal_next = id;
            equals.last = id;
        } else {
            self.by_hash.insert(
                hash,
                Equals {
                    first: id,
                    last: id,
                },
            );
        }
    }

    /// The free list, head first.
    pub(super) fn free_order(&self) -> Vec<BlockId> {
        let mut order = Vec::with_capacity(self.free_count);
        let mut id = self.free_first;
        while id != NONE {
            order.push(id);
            id = self.blocks[id as usize].free_next;
        }
        order
    }

    /// Forgets every prefix (vLLM's `/reset_prefix_cache`); references and the free list stay.
    pub(super) fn forget_all(&mut self) {
        for id in 1..self.blocks.len() {
            self.forget(id as BlockId);
        }
    }

    fn forget(&mut self, id: BlockId) {
        let Block {
            hash,
            equal_previous: previous,
            equal_next: next,
            ..
        } = self.blocks[id as usize];
        if hash == UNHASHED {
            return;
        }
        self.epoch += 1;
        if previous == NONE && next == NONE {
            self.by_hash.remove(&hash);
        } else {
            let equals = self
                .by_hash
                .get_mut(&hash)
                .expect("a hashed block is in the map");
            if previous == NONE {
                equals.first = next;
            } else {
                self.blocks[previous as usize].equal_next = next;
            }
            if next == NONE {
                equals.last = previous;
            } else {
                self.blocks[next as usize].equal_previous = previous;
            }
        }
        let block = &mut self.blocks[id as usize];
        block.hash = UNHASHED;
        block.equal_previous = NONE;
        block.equal_next = NONE;
    }

    fn unlink_free(&mut self, id: BlockId) {
        let Block {
            free_previous: previous,
            free_next: next,
            ..
        } = self.blocks[id as usize];
        match previous {
            NONE => self.free_first = next,
            _ => self.blocks[previous as usize].free_next = next,
        }
        match next {
            NONE => self.free_last = previous,
            _ => self.blocks[next as usize].free_previous = previous,
        }
        self.free_count -= 1;
    }

    fn link_free_front(&mut self, id: BlockId) {
        let next = self.free_first;
        self.blocks[id as usize].free_previous = NONE;
        self.blocks[id as usize].free_next = next;
        match next {
            NONE => self.free_last = id,
            _ => self.blocks[next as usize].free_previous = id,
        }
        self.free_first = id;
        self.free_count += 1;
    }

    fn link_free_back(&mut self, id: BlockId) {
        let previous = self.free_last;
        self.blocks[id as usize].free_previous = previous;
        self.blocks[id as usize].free_next = NONE;
        match previous {
            NONE => self.free_first = id,
            _ => self.blocks[previous as usize].free_next = id,
        }
        self.free_last = id;
        self.free_count += 1;
    }
}
