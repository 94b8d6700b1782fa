//! What a vLLM's host memory (`kv_offload_gib`) is to routing: how many tokens it keeps, and how fast
//! they come back.
//!
//! No metric tells how many bytes a token takes, and a model's files tell it only to those who know
//! every kind of attention and of quantised cache. The engine's log does: it says how much memory its
//! KV cache got, and then how many tokens that is. Where it does not, routing knows of no host memory.

use routing::HostTier;
use vllm::serve::{Phase, kv_gib_of_line};

use crate::config::Vllm;

/// Bytes that a card reads from host memory in a second: of the 31.5 GB/s of `PCIe` 4.0 x16, what blocks of a
/// few MB, scattered over the layers, leave (a guess from data sheets, as in the simulator's profiles).
/// What depends on it is whether a return costs less than a third of a prefill, and it costs a
/// twentieth; so half or twice of it is all the same.
const HOST_READ_BYTES_PER_S: f64 = 20e9;

const GIB: f64 = (1 << 30) as f64;

/// A server whose caches have their sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CacheSizes {
    /// `None` where host memory keeps nothing, or nobody can tell how much.
    pub(super) host: Option<HostTier>,
}

/// Reads along in the log of one server; its engines are alike.
#[derive(Debug, Default)]
pub(super) struct KvSize {
    /// GiB of one card's KV cache.
    gib: Option<f64>,
    told: Option<CacheSizes>,
}

impl KvSize {
    /// Takes note of a line and of the phase that it tells; `Some` where that tells sizes that were
    /// not told before.
    pub(super) fn read(
        &mut self,
        (line, phase): (&str, Option<Phase>),
        engine: &Vllm,
    ) -> Option<CacheSizes> {
        self.gib = kv_gib_of_line(line).or(self.gib);
        let Some(Phase::KvCache { tokens }) = phase else {
            return None;
        };
        let tier = self.gib.map(|gib| tier(engine, gib, tokens));
        let host = tier.filter(|tier| tier.tokens > 0 && tier.tokens_per_s.is_normal());
        let sizes = Some(CacheSizes { host });
        let before = std::mem::replace(&mut self.told, sizes);
        sizes.filter(|_| sizes != before)
    }
}

/// The cards of an engine each keep their part of every token and read it by themselves; the setting
/// is for all of them together.
fn tier(engine: &Vllm, gib_of_card: f64, kv_tokens: u64) -> HostTier {
    let tokens_per_gib_of_card = kv_tokens as f64 / gib_of_card;
    let gib_of_card = f64::from(engine.kv_offload_gib) / f64::from(engine.tensor_parallel_size);
    HostTier {
        tokens: (gib_of_card * tokens_per_gib_of_card) as u64,
        tokens_per_s: HOST_READ_BYTES_PER_S / GIB * tokens_per_gib_of_card,
    }
}

#[cfg(test)]
mod tests {
    use vllm::serve::phase_of_line;

    use super::*;
    use crate::supervisor::launch::tests::engine;

    /// What is known after these lines of an engine with such settings.
    fn after(lines: &[&str], offload_gib: u32, cards: u16) -> Option<CacheSizes> {
        let engine = engine(&format!(
            "kv_offload_gib = {offload_gib}\ntensor_parallel_size = {cards}"
        ));
        let mut size = KvSize::default();
        lines
            .iter()
            .filter_map(|line| size.read((line, phase_of_line(line)), &engine))
            .last()
    }

    const NONE: Option<CacheSizes> = Some(CacheSizes { host: None });
    const MEMORY: &str = "INFO [gpu_worker.py:1] Available KV cache memory: 5.5 GiB";
    const SIZE: &str = "INFO [kv_cache_utils.py:1] GPU KV cache size: 40,000 tokens";

    #[test]
    fn host_memory_keeps_as_many_tokens_a_gib_as_the_kv_cache() {
        let tier = after(&[MEMORY, SIZE], 11, 1).unwrap().host.unwrap();
        assert_eq!(tier.tokens, 80_000);
        // 147,640 bytes a token.
        assert!(
            (135_000.0..136_000.0).contains(&tier.tokens_per_s),
            "{tier:?}"
        );
        // Two cards share what is set; each reads half of every token.
        let two = after(&[MEMORY, SIZE], 11, 2).unwrap().host.unwrap();
        assert_eq!((two.tokens, two.tokens_per_s), (40_000, tier.tokens_per_s));
    }

    #[test]
    fn where_the_log_does_not_tell_there_is_none() {
        assert_eq!(after(&[MEMORY], 11, 1), None);
        assert_eq!(after(&[SIZE], 11, 1), NONE);
        assert_eq!(after(&[MEMORY, SIZE], 0, 1), NONE);
        let nonsense = "Available KV cache memory: 0.0 GiB";
        assert_eq!(after(&[nonsense, SIZE], 11, 1), NONE);
    }
}
