//! What a simulated server is told at its start.

use sim::{profile::Profile, scheduler::SchedulerConfig};

use crate::{Fault, VllmVersion};

/// Ranks that one server may have; more than any machine this is for.
const RANKS_MAX: usize = 1024;

/// Settings of one simulated vLLM server. Limits left `None` are the profile's.
#[derive(Debug, Clone)]
pub struct Config {
    /// Names that clients ask for, the first one shown in replies; at least one.
    pub served_model_names: Vec<String>,
    /// Ranks, each with a scheduler and a KV cache of its own; 1 to 1024.
    pub data_parallel_size: usize,
    /// API servers in front of them, over which connections spread; default: as many as ranks.
    pub api_server_count: Option<usize>,
    /// Card and model: step costs and the defaults of the limits below.
    pub profile: Profile,
    /// Sequences that a rank runs at once.
    pub max_num_seqs: Option<u32>,
    /// KV blocks of a rank, block 0 (the null block) included.
    pub num_gpu_blocks: Option<u32>,
    /// Tokens per KV block.
    pub block_size: u32,
    /// Longest prompt plus output, tokens; at most what the KV cache of a rank holds (as vLLM
    /// demands), to which the profile's is cut.
    pub max_model_len: Option<u32>,
    /// Tokens per step.
    pub max_num_batched_tokens: Option<u32>,
    /// Step times are divided by this; 0 means as fast as possible.
    pub speed: f64,
    /// Decides texts, lengths and the spread of connections.
    pub seed: u64,
    /// A fixed length of plain replies, tokens; drawn from the seed where `None`.
    pub output_tokens: Option<u32>,
    /// The version whose behaviour to show.
    pub vllm_version: VllmVersion,
    /// The key that `/v1` paths ask for, as vLLM's `--api-key`.
    pub api_key: Option<String>,
    /// Report cached tokens (`--enable-prompt-tokens-details`).
    pub prompt_tokens_details: bool,
    /// Usage on every chunk, asked or not (`--enable-force-include-usage`).
    pub force_include_usage: bool,
    /// Opens `/reset_prefix_cache` (`VLLM_SERVER_DEV_MODE=1`).
    pub dev_endpoints: bool,
    /// Faults that apply from the start.
    pub faults: Vec<Fault>,
}

/// A setting that no server can run with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No model name.
    #[error("at least one served model name is needed")]
    NoModelName,
    /// Outside its range.
    #[error("{key} is {value}; it must be {range}")]
    OutOfRange {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        range: &'static str,
    },
}

impl Config {
    /// One rank of this profile, model name `demo`, in real time.
    pub fn new(profile: Profile) -> Self {
        Self {
            served_model_names: vec!["demo".to_owned()],
            data_parallel_size: 1,
            api_server_count: None,
            profile,
            max_num_seqs: None,
            num_gpu_blocks: None,
            block_size: 16,
            max_model_len: None,
            max_num_batched_tokens: None,
            speed: 1.0,
            seed: 0,
            output_tokens: None,
            vllm_version: VllmVersion::DEFAULT,
            api_key: None,
            prompt_tokens_details: true,
            force_include_usage: false,
            dev_endpoints: false,
            faults: Vec::new(),
        }
    }

    /// Checks every range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.served_model_names.is_empty() {
            return Err(ConfigError::NoModelName);
        }
        let scheduler = self.scheduler();
        let positive: [(&'static str, u32); 5] = [
            ("block_size", self.block_size),
            ("max_num_seqs", scheduler.max_num_seqs),
            ("max_model_len", scheduler.max_model_len),
            ("max_num_batched_tokens", scheduler.max_num_batched_tokens),
            ("num_gpu_blocks", scheduler.num_blocks.saturating_sub(1)),
        ];
        for (key, value) in positive {
            let value = f64::from(value);
            in_range(key, value, value >= 1.0, "at least 1 (num_gpu_blocks: 2)")?;
        }
        let length = scheduler.max_model_len;
        let fits = length <= kv_tokens(scheduler.num_blocks, scheduler.block_size);
        in_range(
            "max_model_len",
            f64::from(length),
            fits,
            "within the KV cache",
        )?;
        let ranks = self.data_parallel_size;
        let allowed = (1..=RANKS_MAX).contains(&ranks);
        in_range("data_parallel_size", ranks as f64, allowed, "1 to 1024")?;
        let servers = self.api_servers();
        let allowed = (1..=RANKS_MAX).contains(&servers);
        in_range("api_server_count", servers as f64, allowed, "1 to 1024")?;
        let allowed = self.speed.is_finite() && self.speed >= 0.0;
        in_range("speed", self.speed, allowed, "0 or more")
    }

    pub(crate) fn api_servers(&self) -> usize {
        self.api_server_count.unwrap_or(self.data_parallel_size)
    }

    pub(crate) fn scheduler(&self) -> SchedulerConfig {
        let profile = &self.profile;
        let block_size = self.block_size.max(1);
        let blocks = profile.kv_tokens / u64::from(block_size);
        let num_blocks = self.num_gpu_blocks.unwrap_or(blocks as u32);
        SchedulerConfig {
            num_blocks,
            block_size: self.block_size,
            max_num_batched_tokens: self
                .max_num_batched_tokens
                .unwrap_or(profile.max_num_batched_tokens),
            max_num_seqs: self.max_num_seqs.unwrap_or(profile.max_num_seqs),
            max_model_len: self
                .max_model_len
                .unwrap_or_else(|| profile.max_model_len.min(kv_tokens(num_blocks, block_size))),
            host_blocks: 0,
        }
    }
}

/// Tokens that so many blocks hold, the null block left out.
fn kv_tokens(num_blocks: u32, block_size: u32) -> u32 {
    num_blocks.saturating_sub(1).saturating_mul(block_size)
}

fn in_range(
    key: &'static str,
    value: f64,
    allowed: bool,
    range: &'static str,
) -> Result<(), ConfigError> {
    if allowed {
        Ok(())
    } else {
        Err(ConfigError::OutOfRange { key, value, range })
    }
}
