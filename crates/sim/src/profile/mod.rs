//! How long a step takes on a given card and model.
//!
//! A profile is a data file in which every number says where it comes from, so that nobody takes a
//! guess for a measurement. The formula that turns a step into time stands in one place,
//! [`Profile::step_ms`].

mod file;
#[cfg(test)]
mod tests;

use crate::scheduler::{SchedulerConfig, Step};
pub use file::{Basis, Provenance};
use routing::HostTier;

/// The profiles that come with the program, by name.
const BUILT_IN: [(&str, &str); 4] = [
    ("demo", include_str!("../../profiles/demo.toml")),
    (
        "rtx-a4000-qwen3-4b",
        include_str!("../../profiles/rtx-a4000-qwen3-4b.toml"),
    ),
    (
        "rtx-5090-27b",
        include_str!("../../profiles/rtx-5090-27b.toml"),
    ),
    ("h100-32b", include_str!("../../profiles/h100-32b.toml")),
];

/// Tokens per KV block: vLLM's default on GPUs.
pub const BLOCK_SIZE: u32 = 16;

/// Why there is no such profile. The user's fault; no retry helps.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name.
    #[error("unknown profile \"{name}\": known are {}", Profile::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Not a profile.
    #[error("malformed profile: {0}")]
    Malformed(toml::de::Error),
    /// A number that no machine can have.
    #[error("profile \"{name}\": {field} = {value} is impossible: {why}")]
    Impossible {
        /// The profile.
        name: String,
        /// The number's name.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What would be possible.
        why: &'static str,
    },
}

/// Step costs and limits of one replica.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name, e.g. `rtx-a4000-qwen3-4b`.
    pub name: String,
    /// Fixed cost of a step, milliseconds.
    pub step_overhead_ms: f64,
    /// `f`: milliseconds per computed token.
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
    /// From host memory to the card, GB (10^9 bytes) a second.
    pub host_read_gb_per_s: f64,
    /// Tokens of KV that host memory keeps for a replica; 0 unless [`Self::with_host_gib`].
    pub host_kv_tokens: u64,
    /// vLLM's `max_num_seqs`.
    pub max_num_seqs: u32,
    /// vLLM's `max_num_batched_tokens`.
    pub max_num_batched_tokens: u32,
    /// vLLM's `max_model_len`.
    pub max_model_len: u32,
    /// Where each number comes from, in the order above.
    pub provenance: Vec<Provenance>,
}

impl Profile {
    /// The built-in profile of this name.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        let (_, text) = BUILT_IN
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| ProfileError::Unknown {
                name: name.to_owned(),
            })?;
        Self::from_toml(text)
    }

    /// Names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a profile file (see `profiles/` for examples).
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        file::parse(text)
            .map_err(ProfileError::Malformed)?
            .validated()
    }

    /// The same machine with another size of KV cache.
    pub fn with_kv_tokens(mut self, kv_tokens: u64) -> Result<Self, ProfileError> {
        self.kv_tokens = kv_tokens;
        self.validated()
    }

    /// The same machine with `--kv-offloading-size` of so many GiB for each replica.
    #[must_use]
    pub fn with_host_gib(mut self, gib: f64) -> Self {
        let bytes = gib.max(0.0) * f64::from(1 << 30);
        self.host_kv_tokens = (bytes / self.kv_bytes_per_token.max(1) as f64) as u64;
        self
    }

    /// Host memory as routing accounts for it; `None` where there is none.
    pub fn host_tier(&self) -> Option<HostTier> {
        (self.host_kv_tokens > 0).then(|| HostTier {
            tokens: self.host_kv_tokens,
            tokens_per_s: self.host_read_gb_per_s * 1e9 / self.kv_bytes_per_token.max(1) as f64,
        })
    }

    fn validated(self) -> Result<Self, ProfileError> {
        let impossible = |field, value, why| ProfileError::Impossible {
            name: self.name.clone(),
            field,
            value,
            why,
        };
        for (field, value) in [
            ("step_overhead_ms", self.step_overhead_ms),
            ("prefill_ms_per_token", self.prefill_ms_per_token),
            (
                "attention_us_per_token_per_1k",
                self.attention_us_per_token_per_1k,
            ),
            ("weights_read_ms", self.weights_read_ms),
            ("kv_read_ms_per_1k", self.kv_read_ms_per_1k),
        ] {
            if !value.is_finite() || value < 0.0 {
                return Err(impossible(
                    field,
                    value,
                    "a cost is a finite number from 0 up",
                ));
            }
        }
        if !self.host_read_gb_per_s.is_finite() || self.host_read_gb_per_s <= 0.0 {
            let why = "host memory is read at some speed";
            return Err(impossible(
                "host_read_gb_per_s",
                self.host_read_gb_per_s,
                why,
            ));
        }
        if self.step_overhead_ms + self.weights_read_ms <= 0.0 {
            return Err(impossible("weights_read_ms", 0.0, "a step takes some time"));
        }
        let blocks = self.kv_tokens / u64::from(BLOCK_SIZE);
        if blocks < 2 || blocks >= u64::from(u32::MAX) {
            let why = "the KV cache needs at least 32 tokens and at most 2^32 blocks of 16";
            return Err(impossible("kv_tokens", self.kv_tokens as f64, why));
        }
        for (field, value) in [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("max_model_len", self.max_model_len),
        ] {
            if value == 0 {
                return Err(impossible(field, 0.0, "nothing could ever run"));
            }
        }
        Ok(self)
    }

    /// The scheduler of one such replica.
    pub fn scheduler_config(&self) -> SchedulerConfig {
        SchedulerConfig {
            num_blocks: (self.kv_tokens / u64::from(BLOCK_SIZE)) as u32,
            block_size: BLOCK_SIZE,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_num_seqs: self.max_num_seqs,
            max_model_len: self.max_model_len,
            host_blocks: (self.host_kv_tokens / u64::from(BLOCK_SIZE)) as u32,
        }
    }

    /// Duration of a step in milliseconds:
    ///
    /// `overhead + max(P·f + Σ(Pᵢ·ctxᵢ)·a, W/BW) + (KV tokens read)·v + (KV bytes loaded)/PCIe`
    ///
    /// P is every token the step computes. Its matrix products hide behind the reading of the
    /// weights or the other way round, hence the maximum. A prefill chunk (more than one token)
    /// pays attention by `a` for the mean context of its tokens; a decode reads its whole context
    /// once and pays by `v`, which nothing hides. What is read back from host memory delays the whole
    /// step; vLLM reads beside the steps and delays only the request, so this errs against the tier.
    pub fn step_ms(&self, step: &Step) -> f64 {
        let mut tokens = 0.0;
        let mut token_contexts_k = 0.0;
        let mut kv_read_k = 0.0;
        for request in &step.scheduled {
            let computed = f64::from(request.tokens);
            let context = f64::from(request.context);
            tokens += computed;
            if request.tokens > 1 {
                token_contexts_k += computed * (context + (computed - 1.0) / 2.0) / 1000.0;
            } else {
                kv_read_k += context / 1000.0;
            }
        }
        let compute_ms = tokens * self.prefill_ms_per_token
            + token_contexts_k * self.attention_us_per_token_per_1k / 1000.0;
        self.step_overhead_ms
            + compute_ms.max(self.weights_read_ms)
            + kv_read_k * self.kv_read_ms_per_1k
            + self.load_ms(step.loaded_tokens)
    }

    /// Time to read the KV of so many tokens back from host memory, milliseconds.
    pub fn load_ms(&self, tokens: u32) -> f64 {
        let bytes = f64::from(tokens) * self.kv_bytes_per_token as f64;
        bytes / (self.host_read_gb_per_s * 1e6)
    }
}
