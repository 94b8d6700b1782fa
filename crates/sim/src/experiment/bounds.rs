//! How much better any policy of eviction could have done.
//!
//! The bound is Belady's: with the whole future known, a replica's cache keeps the blocks that are
//! needed soonest. The schedule (which turn ran where, and in what order) is that of the run. The
//! bound is generous: it may hold any single block, not only whole prefixes; running requests take
//! no room; and at the start it holds whatever the run found there.

use crate::profile::{BLOCK_SIZE, Profile};
use crate::run::{Outcome, TurnRecord, percent};
use crate::scheduler::PrefixHashes;
use crate::workload::{Conversation, Place, Session, Workload};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Prompt tokens that a clairvoyant cache of the same size would have served, percent of all; `None`
/// where there was no turn. `prompt_seed` and `level` are those of the outcome's stage.
pub(super) fn clairvoyant_hit_percent(
    outcome: &Outcome,
    workload: &Workload,
    profile: &Profile,
    (prompt_seed, level): (u64, u32),
) -> Option<f64> {
    let mut turns: Vec<&TurnRecord> = outcome.turns.iter().collect();
    turns.sort_by_key(|turn| (turn.first_byte_us, turn.client));
    let mut conversations: BTreeMap<(u32, u32), (Session, Conversation)> = BTreeMap::new();
    let mut replicas: BTreeMap<usize, Accesses> = BTreeMap::new();
    let mut prompt_tokens = 0;
    for turn in turns {
        let (session, conversation) = conversations
            .entry((turn.client, turn.session))
            .or_insert_with(|| {
                let place = Place {
                    level,
                    client: turn.client,
                    number: turn.session,
                };
                let session = workload.session(prompt_seed, place);
                let conversation = Conversation::new(&session);
                (session, conversation)
            });
        let prompt = hashes(&conversation.prompt(&session.turns[turn.turn as usize]));
        for _ in 0..turn.output_tokens {
            let token = conversation.next_token();
            conversation.append(token);
        }
        let filled = hashes(conversation.tokens());
        replicas
            .entry(turn.replica)
            .or_default()
            .turn(turn, prompt.len(), &filled);
        prompt_tokens += u64::from(turn.prompt_tokens);
    }
    let capacity = profile.scheduler_config().num_blocks as usize - 1;
    let hits: u64 = replicas
        .values()
        .map(|accesses| accesses.belady_hits(capacity))
        .sum();
    percent(hits * u64::from(BLOCK_SIZE), prompt_tokens)
}

fn hashes(tokens: &[u32]) -> Vec<u64> {
    let mut hashes = PrefixHashes::default();
    hashes.extend(tokens, BLOCK_SIZE);
    hashes.as_slice().to_vec()
}

/// One block of one turn.
#[derive(Debug, Clone, Copy)]
struct Access {
    block: u64,
    /// Whether a hit here saves a prompt token (blocks of an answer are computed anyway).
    counts: bool,
    /// Whether the run found it in the cache.
    was_hit: bool,
}

/// What one replica's cache was asked for, in order.
#[derive(Debug, Default)]
struct Accesses(Vec<Access>);

impl Accesses {
    /// Adds a turn that filled these blocks, the first `prompt_blocks` of them with its prompt.
    fn turn(&mut self, turn: &TurnRecord, prompt_blocks: usize, filled: &[u64]) {
        let hit = (turn.cached_tokens / BLOCK_SIZE) as usize;
        // The last token of a prompt is always computed, and its block with it.
        let countable = prompt_blocks.min((turn.prompt_tokens as usize - 1) / BLOCK_SIZE as usize);
        self.0
            .extend(filled.iter().enumerate().map(|(index, block)| Access {
                block: *block,
                counts: index < countable,
                was_hit: index < hit,
            }));
    }

    /// Accesses that count and hit, where a block is kept only if it is needed sooner than another.
    /// A block that the run hit at its first access was there at the start.
    fn belady_hits(&self, capacity: usize) -> u64 {
        let mut next_use = vec![usize::MAX; self.0.len()];
        let mut later: HashMap<u64, usize> = HashMap::new();
        for (index, access) in self.0.iter().enumerate().rev() {
            if let Some(next) = later.insert(access.block, index) {
                next_use[index] = next;
            }
        }
        // Blocks that are held and needed again, latest need last. What is never needed again
        // takes no room.
        let mut held: BTreeSet<(usize, u64)> = BTreeSet::new();
        for (index, access) in self.0.iter().enumerate() {
            if access.was_hit && later[&access.block] == index {
                held.insert((index, access.block));
            }
        }
        let mut hits = 0;
        for (index, access) in self.0.iter().enumerate() {
            let is_hit = held.remove(&(index, access.block));
            hits += u64::from(is_hit && access.counts);
            if next_use[index] != usize::MAX {
                held.insert((next_use[index], access.block));
            }
            while held.len() > capacity {
                held.pop_last();
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(blocks: &[u64], capacity: usize, was_hit: bool) -> u64 {
        let accesses = blocks.iter().map(|block| Access {
            block: *block,
            counts: true,
            was_hit,
        });
        Accesses(accesses.collect()).belady_hits(capacity)
    }

    #[test]
    fn a_cycle_over_one_block_too_many_still_hits_what_is_kept() {
        // Least-recently-used would never hit here; the best is to keep one block less than fit.
        assert_eq!(hits(&[1, 2, 3, 1, 2, 3, 1, 2, 3], 2, false), 4);
        assert_eq!(hits(&[1, 2, 3, 1, 2, 3, 1, 2, 3], 3, false), 6);
        assert_eq!(hits(&[1, 2, 3, 1, 2, 3, 1, 2, 3], 3, true), 9);
        assert_eq!(hits(&[1, 1, 2, 2], 0, false), 0);
    }
}
