//! How far a starting vLLM has come, and why one died, read from its log lines.
//!
//! The lines are vLLM's own wording (0.26; checked against a real server), prefixed with a process
//! name and a time that are ignored here. A line that is not recognised changes nothing.

/// How far a start has come. Later phases compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The process runs and reads its configuration.
    Starting,
    /// Weights are being read.
    LoadingWeights,
    /// Weights are in; kernels compile and the memory profile runs.
    Compiling,
    /// The KV cache was sized: so many tokens per engine.
    KvCache {
        /// Tokens one engine's cache holds.
        tokens: u64,
    },
    /// The HTTP server says that it is up.
    Serving,
}

/// The phase that a log line announces.
pub fn phase_of_line(line: &str) -> Option<Phase> {
    if let Some(at) = line.find("KV cache size: ") {
        let digits: String = line[at + "KV cache size: ".len()..]
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == ',')
            .filter(char::is_ascii_digit)
            .take(18)
            .collect();
        return digits.parse().ok().map(|tokens| Phase::KvCache { tokens });
    }
    let has = |part: &str| line.contains(part);
    if has("Application startup complete") {
        Some(Phase::Serving)
    } else if has("Starting to load model") || has("Loading safetensors checkpoint shards") {
        Some(Phase::LoadingWeights)
    } else if has("Model loading took")
        || has("Warming up model")
        || has("Capturing CUDA graph")
        || has("torch.compile takes")
    {
        Some(Phase::Compiling)
    } else if has("non-default args:") || has("Resolved architecture:") {
        Some(Phase::Starting)
    } else {
        None
    }
}

/// GiB that one card gives its KV cache, where a line says so; vLLM prints that before the cache's size.
pub fn kv_gib_of_line(line: &str) -> Option<f64> {
    let (_, told) = line.split_once("Available KV cache memory: ")?;
    let (gib, _) = told.split_once(" GiB")?;
    gib.parse()
        .ok()
        .filter(|gib: &f64| gib.is_finite() && *gib > 0.0)
}

/// The usual reasons for a vLLM that does not come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// Weights, graphs or cache do not fit the card.
    OutOfGpuMemory,
    /// The port is in use.
    PortTaken,
    /// No such model, or it may not be fetched.
    NoSuchModel,
    /// The cache that is left holds less than one request of full length.
    KvCacheSmallerThanContext,
    /// The attention heads cannot be split over that many cards.
    TensorParallelDoesNotDivide,
    /// A flag that this version does not know.
    UnknownArgument,
}

impl FailureCause {
    /// What an operator should do, as a sentence.
    pub fn hint(self) -> &'static str {
        match self {
            Self::OutOfGpuMemory => {
                "The card ran out of memory: see what else runs on it (nvidia-smi), lower --gpu-memory-utilization, --max-model-len or max_num_seqs, or spread the model with tensor_parallel_size."
            }
            Self::PortTaken => {
                "The engine's port is taken: stop what listens there, or set another port for this model."
            }
            Self::NoSuchModel => {
                "The model was not found: check the name or folder, HF_HOME, and whether this machine may download (HF_TOKEN, HF_HUB_OFFLINE)."
            }
            Self::KvCacheSmallerThanContext => {
                "The KV cache is smaller than one request of full length: lower --max-model-len in args, or raise --gpu-memory-utilization."
            }
            Self::TensorParallelDoesNotDivide => {
                "tensor_parallel_size must divide the model's number of attention heads: choose 1, 2, 4 or 8."
            }
            Self::UnknownArgument => {
                "vLLM does not know one of the arguments: compare args with `vllm serve --help` of the installed version."
            }
        }
    }
}

/// The cause that a log line names.
pub fn failure_cause(line: &str) -> Option<FailureCause> {
    let has = |part: &str| line.contains(part);
    if has("OutOfMemoryError")
        || has("CUDA out of memory")
        || has("is less than desired GPU memory utilization")
        || has("No available memory for the cache blocks")
    {
        Some(FailureCause::OutOfGpuMemory)
    } else if has("Address already in use") {
        Some(FailureCause::PortTaken)
    } else if has("larger than the available KV cache memory") {
        Some(FailureCause::KvCacheSmallerThanContext)
    } else if has("must be divisible by tensor parallel size") {
        Some(FailureCause::TensorParallelDoesNotDivide)
    } else if has("LocalEntryNotFoundError")
        || has("RepositoryNotFoundError")
        || has("is not a valid model identifier")
        || has("Repo id must be")
        || has("does not appear to have a file named config.json")
    {
        Some(FailureCause::NoSuchModel)
    } else if has("error: unrecognized arguments") {
        Some(FailureCause::UnknownArgument)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_come_from_the_lines_of_a_real_start() {
        for (line, phase) in [
            (
                "INFO 11-29 23:29:12 [api_utils.py:273] non-default args: {'model_tag': 'm'}",
                Some(Phase::Starting),
            ),
            (
                "(Worker pid=7) INFO [cpu_model_runner.py:128] Starting to load model m...",
                Some(Phase::LoadingWeights),
            ),
            (
                "(Worker pid=7) INFO [gpu_model_runner.py:1] Model loading took 7.6 GiB memory and 3.1 seconds",
                Some(Phase::Compiling),
            ),
            (
                "(EngineCore_DP1 pid=9) INFO [kv_cache_utils.py:2177] GPU KV cache size: 17,600 tokens",
                Some(Phase::KvCache { tokens: 17_600 }),
            ),
            (
                "(ApiServer_0 pid=3) INFO:     Application startup complete.",
                Some(Phase::Serving),
            ),
            ("GPU KV cache size: none", None),
            ("something else", None),
        ] {
            assert_eq!(phase_of_line(line), phase, "{line}");
        }
        assert!(Phase::KvCache { tokens: 1 } < Phase::Serving);
    }

    #[test]
    fn the_memory_of_the_cache_comes_from_its_line() {
        let told =
            "(Worker_TP0 pid=7) INFO [gpu_worker.py:721] Available KV cache memory: 4.85 GiB";
        assert_eq!(kv_gib_of_line(told), Some(4.85));
        for other in [
            "Available KV cache memory: -3.44 GiB",
            "Available KV cache memory: inf GiB",
            "Available KV cache memory: 4.85",
            "GPU KV cache size: 17,600 tokens",
        ] {
            assert_eq!(kv_gib_of_line(other), None, "{other}");
        }
    }

    #[test]
    fn causes_come_from_the_lines_of_real_failures() {
        for (line, cause) in [
            (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                FailureCause::OutOfGpuMemory,
            ),
            (
                "OSError: [Errno 98] Address already in use",
                FailureCause::PortTaken,
            ),
            (
                "ValueError: To serve at least one request with the model's max seq len (16384), (0.01 GiB KV cache is needed, which is larger than the available KV cache memory (0.0 GiB).",
                FailureCause::KvCacheSmallerThanContext,
            ),
            (
                "  Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3).",
                FailureCause::TensorParallelDoesNotDivide,
            ),
            (
                "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
                FailureCause::NoSuchModel,
            ),
            (
                "vllm: error: unrecognized arguments: --no-such-flag",
                FailureCause::UnknownArgument,
            ),
        ] {
            assert_eq!(failure_cause(line), Some(cause), "{line}");
            assert!(failure_cause(line).is_some_and(|c| c.hint().ends_with('.')));
        }
        assert_eq!(failure_cause("INFO all well"), None);
    }
}
