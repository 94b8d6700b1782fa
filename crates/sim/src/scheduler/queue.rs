//! What a step takes from the two queues, and how requests leave them.
//!
//! Running requests come first, in the order of their admission. Where a block is lacking, the last
//! admitted gives its blocks back and goes to the front of the waiting queue; a step that preempted
//! admits nobody. Waiting requests hold nothing: their hits are looked up anew at each step.

use super::block_pool::BlockPool;
use super::host_tier::HostTier;
use super::request::{Hit, Request, Slot};
use super::{ScheduledRequest, Scheduler, Step};

impl Scheduler {
    /// One pass over the running requests.
    pub(super) fn schedule_running(&mut self, step: &mut Step, budget: &mut u32) {
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let slot = self.running[index];
            let request = self.requests.get(slot);
            let left = request.len() + request.pending_outputs - request.computed;
            let room = (self.config.max_model_len - 1).saturating_sub(request.computed);
            let tokens = left.min(*budget).min(room);
            if tokens == 0 || request.surely_ends() {
                index += 1;
                continue;
            }
            if !self.make_room(slot, tokens, step) {
                break;
            }
            *budget -= tokens;
            self.schedule(slot, tokens, step);
            index += 1;
        }
    }

    /// Gives the running request blocks for `tokens` more, preempting the last admitted as needed.
    /// False where it was preempted itself.
    fn make_room(&mut self, slot: Slot, tokens: u32, step: &mut Step) -> bool {
        let request = self.requests.get(slot);
        let blocks = (request.computed + tokens).div_ceil(self.config.block_size) as usize;
        let lacking = blocks.saturating_sub(request.blocks.len());
        while lacking > self.pool.free_count() {
            let victim = self
                .running
                .pop()
                .expect("the request itself is still running");
            self.preempt(victim, step);
            if victim == slot {
                return false;
            }
        }
        allocate(&mut self.pool, self.requests.get_mut(slot), lacking);
        true
    }

    fn preempt(&mut self, slot: Slot, step: &mut Step) {
        let request = self.requests.get_mut(slot);
        release(&mut self.pool, request);
        request.computed = 0;
        request.registered = 0;
        request.preempted_before = true;
        request.hit = None;
        step.preempted.push(request.id);
        self.waiting.push_front(slot);
        self.counters.preemptions += 1;
    }

    /// Admits waiting requests in order, up to the first that does not fit.
    pub(super) fn admit_waiting(&mut self, step: &mut Step, budget: &mut u32) {
        while *budget > 0 && self.running.len() < self.config.max_num_seqs as usize {
            let Some(&slot) = self.waiting.front() else {
                return;
            };
            let hits = self.look_up(slot);
            let request = self.requests.get_mut(slot);
            let evictable = request.hashes.as_slice()[..hits as usize]
                .iter()
                .filter_map(|hash| self.pool.find(*hash))
                .filter(|block| self.pool.is_unreferenced(*block))
                .count();
            let new_blocks = request.len().div_ceil(self.config.block_size) - hits;
            if new_blocks as usize + evictable > self.pool.free_count() {
                return;
            }
            self.waiting.pop_front();
            self.running.push(slot);
            self.take_hits(slot, hits);
            let loaded = self.load(slot, hits);
            step.loaded_tokens += loaded * self.config.block_size;
            self.count_admission(slot, loaded);
            let request = self.requests.get_mut(slot);
            let tokens = (request.len() - request.computed).min(*budget);
            let blocks = (request.computed + tokens).div_ceil(self.config.block_size);
            allocate(&mut self.pool, request, (blocks - hits - loaded) as usize);
            *budget -= tokens;
            self.schedule(slot, tokens, step);
        }
    }

    /// Blocks of the longest cached chain. The last token is always computed, since its output is
    /// needed: a fully cached prompt computes its last block again.
    fn look_up(&mut self, slot: Slot) -> u32 {
        let request = self.requests.get_mut(slot);
        let epoch = self.pool.epoch();
        let blocks = match request.hit {
            Some(hit) if hit.epoch == epoch => hit.blocks,
            _ => {
                let limit = ((request.len() - 1) / self.config.block_size) as usize;
                let chain = request.hashes.as_slice()[..limit].iter();
                chain
                    .take_while(|hash| self.pool.find(**hash).is_some())
                    .count() as u32
            }
        };
        request.hit = Some(Hit { epoch, blocks });
        // vLLM keeps the look-ups of preempted requests out of these two counters.
        if !request.preempted_before {
            self.counters.prefix_cache_queries += u64::from(request.len());
            self.counters.prefix_cache_hits += u64::from(blocks * self.config.block_size);
        }
        blocks
    }

    fn take_hits(&mut self, slot: Slot, hits: u32) {
        let request = self.requests.get_mut(slot);
        for hash in &request.hashes.as_slice()[..hits as usize] {
            let block = self.pool.find(*hash).expect("a hit was just looked up");
            self.pool.reference(block);
            request.blocks.push(block);
        }
        request.registered = hits;
        request.computed = hits * self.config.block_size;
    }

    /// Takes blocks for what host memory holds of the chain beyond the hits; says for how many.
    fn load(&mut self, slot: Slot, hits: u32) -> u32 {
        let request = self.requests.get_mut(slot);
        let limit = ((request.len() - 1) / self.config.block_size) as usize;
        let chain = &request.hashes.as_slice()[..limit];
        let loaded = self.host.chain(&chain[hits as usize..]);
        self.host.touch(chain);
        allocate(&mut self.pool, request, loaded);
        let filled = hits + loaded as u32;
        register(&mut self.pool, &mut self.host, request, filled);
        request.computed = filled * self.config.block_size;
        loaded as u32
    }

    fn count_admission(&mut self, slot: Slot, loaded: u32) {
        let loaded_tokens = u64::from(loaded * self.config.block_size);
        let request = self.requests.get_mut(slot);
        if request.cached_at_admission.is_none() {
            request.cached_at_admission = Some(request.computed);
            self.counters.prompt_tokens += u64::from(request.prompt_len);
            self.counters.prompt_tokens_cached += u64::from(request.computed);
            self.counters.prompt_tokens_loaded += loaded_tokens;
        }
    }

    /// Counts `tokens` of the request as computed by this step and registers the blocks they fill,
    /// so that a later request of the same step can already hit them.
    fn schedule(&mut self, slot: Slot, tokens: u32, step: &mut Step) {
        let block_size = self.config.block_size;
        let request = self.requests.get_mut(slot);
        let context = request.computed;
        request.computed += tokens;
        let known = request.computed.min(request.len());
        register(&mut self.pool, &mut self.host, request, known / block_size);
        let samples = request.computed == request.len() + request.pending_outputs;
        if samples {
            request.pending_outputs += 1;
        }
        step.scheduled.push(ScheduledRequest {
            id: request.id,
            tokens,
            context,
            samples,
        });
    }

    /// Appends an output token; true where the request has reached its length limit.
    pub(super) fn append_output(&mut self, slot: Slot, token: u32) -> bool {
        let block_size = self.config.block_size;
        let request = self.requests.get_mut(slot);
        request.tokens.push(token);
        request.pending_outputs = request.pending_outputs.saturating_sub(1);
        request.hashes.extend(&request.tokens, block_size);
        request.hit = None;
        self.counters.generation_tokens += 1;
        // With a second step in flight, this token's block may have been written before its
        // contents were known. (A request preempted meanwhile has computed nothing.)
        let known = request.computed.saturating_sub(request.pending_outputs);
        register(&mut self.pool, &mut self.host, request, known / block_size);
        request.len() >= self.config.max_model_len
            || request.len() - request.prompt_len >= request.output_max
    }

    /// Takes a request out of its queue and gives its blocks back.
    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(at) = self.running.iter().position(|running| *running == slot) {
            self.running.remove(at);
        } else {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        let mut request = self.requests.remove(slot);
        release(&mut self.pool, &mut request);
    }
}

fn allocate(pool: &mut BlockPool, request: &mut Request, count: usize) {
    for _ in 0..count {
        let block = pool.allocate().expect("the free count was checked");
        request.blocks.push(block);
    }
}

fn register(pool: &mut BlockPool, host: &mut HostTier, request: &mut Request, full_blocks: u32) {
    for index in request.registered..full_blocks {
        let index = index as usize;
        let hash = request.hashes.as_slice()[index];
        pool.register(request.blocks[index], hash);
        host.store(hash);
    }
    request.registered = request.registered.max(full_blocks);
}

/// Tail first, so that the head of a chain, which most conversations share, is reused last.
fn release(pool: &mut BlockPool, request: &mut Request) {
    while let Some(block) = request.blocks.pop() {
        pool.release(block);
    }
}
