//! How long a step takes on a given card and model. Profiles are data files with a source for
//! every number; see `profiles/`.

/// Step cost of one replica: `overhead + max(P·f + Σ(P_i·ctx_i)·a, W/BW) + KV tokens read · v`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct Profile {
    /// Name, e.g. `rtx-a4000-qwen3-4b`.
    pub name: String,
    /// Fixed cost of a step, milliseconds.
    pub step_overhead_ms: f64,
    /// `f`: milliseconds per prefilled token.
    pub prefill_ms_per_token: f64,
    /// `a`: microseconds per prefilled token and 1,000 tokens of context before it.
    pub attention_us_per_token_per_1k: f64,
    /// `W / BW`: milliseconds to read the weights once.
    pub weights_read_ms: f64,
    /// `v`: milliseconds per 1,000 KV tokens read by decodes.
    pub kv_read_ms_per_1k: f64,
    /// KV bytes per token.
    pub kv_bytes_per_token: u64,
    /// Tokens the KV cache of one replica holds.
    pub kv_tokens: u64,
    /// vLLM's `max_num_seqs`.
    pub max_num_seqs: u32,
    /// vLLM's `max_num_batched_tokens`.
    pub max_num_batched_tokens: u32,
    /// vLLM's `max_model_len`.
    pub max_model_len: u32,
}
