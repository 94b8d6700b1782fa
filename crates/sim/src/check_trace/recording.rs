//! The file format of a recorded run of vLLM's own scheduler.

use crate::scheduler::SchedulerConfig;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// One recording. Fields that only describe its origin are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Recording {
    num_blocks: u32,
    block_size: u32,
    max_num_batched_tokens: u32,
    max_num_seqs: u32,
    max_model_len: u32,
    pub(super) steps: Vec<RecordedStep>,
    pub(super) cached_tokens_at_admission: BTreeMap<String, u32>,
    pub(super) final_free_order: Vec<u32>,
}

impl Recording {
    pub(super) fn config(&self) -> SchedulerConfig {
        SchedulerConfig {
            num_blocks: self.num_blocks,
            block_size: self.block_size,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_num_seqs: self.max_num_seqs,
            max_model_len: self.max_model_len,
            host_blocks: 0,
        }
    }
}

/// A request that arrives.
#[derive(Debug, Deserialize)]
pub(super) struct Arrival {
    pub(super) id: String,
    /// The first `n` tokens of each named stream, one stream after the other.
    pub(super) prompt: Vec<(String, u32)>,
    pub(super) max_tokens: u32,
}

/// Everything recorded of one step.
#[derive(Debug, Deserialize)]
pub(super) struct RecordedStep {
    pub(super) add: Vec<Arrival>,
    pub(super) scheduled: Vec<(String, u32)>,
    pub(super) running: Vec<String>,
    pub(super) waiting: usize,
    pub(super) preempted: Vec<String>,
    pub(super) free_blocks: usize,
    pub(super) sampled: Vec<String>,
    pub(super) stopped: Vec<String>,
    pub(super) finished: Vec<String>,
}

/// Token values of streams: equal stream and position give equal tokens, and no two positions of
/// any streams share one.
#[derive(Debug, Default)]
pub(super) struct Streams {
    numbers: HashMap<String, u32>,
}

/// Positions that one stream may have; what is left of 32 bits numbers the streams.
const POSITIONS: u32 = 1 << 16;

impl Streams {
    /// The token at `position` of `stream`.
    pub(super) fn token(&mut self, stream: &str, position: u32) -> u32 {
        let number = if let Some(number) = self.numbers.get(stream) {
            *number
        } else {
            let number = self.numbers.len() as u32;
            self.numbers.insert(stream.to_owned(), number);
            number
        };
        number.wrapping_mul(POSITIONS).wrapping_add(position)
    }

    /// The tokens of a prompt.
    pub(super) fn prompt(&mut self, parts: &[(String, u32)]) -> Vec<u32> {
        let mut tokens = Vec::new();
        for (stream, count) in parts {
            tokens.extend((0..*count).map(|position| self.token(stream, position)));
        }
        tokens
    }
}
