//! The command line and the cards of one `vllm serve` process.

/// Everything that decides how one vLLM server is started. Secrets are not among it: the API key
/// goes by the environment (`VLLM_API_KEY`), never by a command line that every user can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeCommand<'a> {
    /// Path or name of the model, as vLLM takes it.
    pub model: &'a str,
    /// Names under which the engine serves it; the first is the one the warden sends.
    pub served_names: &'a [String],
    /// Loopback port.
    pub port: u16,
    /// `--dtype`, where set.
    pub dtype: Option<&'a str>,
    /// Ranks of this server; 1 in the `servers` layout.
    pub data_parallel_size: u16,
    /// Cards per replica.
    pub tensor_parallel_size: u16,
    /// Concurrent sequences per replica.
    pub max_num_seqs: u32,
    /// Host memory per replica for evicted KV blocks, GiB; 0 is none.
    pub kv_offload_gib: u32,
    /// `--tool-call-parser`; `None` leaves tool calls off.
    pub tool_call_parser: Option<&'a str>,
    /// The operator's own arguments, last, so that they win.
    pub args: &'a [String],
}

impl ServeCommand<'_> {
    /// Arguments after the executable's name.
    pub fn argv(&self) -> Vec<String> {
        let mut argv = vec!["serve".to_owned(), self.model.to_owned()];
        argv.push("--served-model-name".to_owned());
        argv.extend(self.served_names.iter().cloned());
        let mut set = |flag: &str, value: String| argv.extend([flag.to_owned(), value]);
        // vLLM's port is for the warden alone: a client that reached it would bypass routing.
        set("--host", "127.0.0.1".to_owned());
        set("--port", self.port.to_string());
        if let Some(dtype) = self.dtype {
            set("--dtype", dtype.to_owned());
        }
        set("--data-parallel-size", self.data_parallel_size.to_string());
        set(
            "--tensor-parallel-size",
            self.tensor_parallel_size.to_string(),
        );
        // One API server per rank is vLLM's own default; said here so that it is seen.
        set("--api-server-count", self.data_parallel_size.to_string());
        set("--max-num-seqs", self.max_num_seqs.to_string());
        if self.kv_offload_gib > 0 {
            // vLLM counts this per engine, summed over the engine's tensor-parallel ranks.
            set("--kv-offloading-size", self.kv_offload_gib.to_string());
        }
        if let Some(parser) = self.tool_call_parser {
            set("--tool-call-parser", parser.to_owned());
            argv.push("--enable-auto-tool-choice".to_owned());
        }
        // Without the first, no prefix is kept; without the second, no cached tokens are reported.
        argv.push("--enable-prefix-caching".to_owned());
        argv.push("--enable-prompt-tokens-details".to_owned());
        argv.extend(self.args.iter().cloned());
        argv
    }
}

/// Why the configured cards do not work out. The operator's to mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// Fewer cards than replicas x tensor-parallel size.
    #[error(
        "gpus names {given} cards, but data_parallel_size {replicas} x tensor_parallel_size {per_replica} needs {}",
        .replicas * .per_replica
    )]
    TooFew {
        /// Cards named.
        given: usize,
        /// Replicas wanted.
        replicas: usize,
        /// Cards per replica.
        per_replica: usize,
    },
    /// A card stands in the list twice.
    #[error("gpus names card {card} twice")]
    Twice {
        /// The card.
        card: u32,
    },
}

/// The cards of each replica, in order: replica r gets the r-th run of `per_replica` cards. Cards
/// that are left over stay unused.
pub fn assign_gpus(
    gpus: &[u32],
    replicas: usize,
    per_replica: usize,
) -> Result<Vec<Vec<u32>>, GpuError> {
    for (at, card) in gpus.iter().enumerate() {
        if gpus[..at].contains(card) {
            return Err(GpuError::Twice { card: *card });
        }
    }
    if gpus.len() < replicas * per_replica {
        return Err(GpuError::TooFew {
            given: gpus.len(),
            replicas,
            per_replica,
        });
    }
    Ok(gpus
        .chunks(per_replica.max(1))
        .take(replicas)
        .map(<[u32]>::to_vec)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command<'a>(served_names: &'a [String], args: &'a [String]) -> ServeCommand<'a> {
        ServeCommand {
            model: "Qwen/Qwen3-4B-Instruct-2507",
            served_names,
            port: 8701,
            dtype: Some("bfloat16"),
            data_parallel_size: 4,
            tensor_parallel_size: 1,
            max_num_seqs: 32,
            kv_offload_gib: 0,
            tool_call_parser: Some("hermes"),
            args,
        }
    }

    #[test]
    fn the_command_line_of_the_published_machine() {
        let names = ["qwen3-4b-dp4".to_owned()];
        let args = ["--max-model-len".to_owned(), "32768".to_owned()];
        insta::assert_snapshot!(command(&names, &args).argv().join(" "), @"serve Qwen/Qwen3-4B-Instruct-2507 --served-model-name qwen3-4b-dp4 --host 127.0.0.1 --port 8701 --dtype bfloat16 --data-parallel-size 4 --tensor-parallel-size 1 --api-server-count 4 --max-num-seqs 32 --tool-call-parser hermes --enable-auto-tool-choice --enable-prefix-caching --enable-prompt-tokens-details --max-model-len 32768");
    }

    #[test]
    fn one_server_per_replica_with_host_memory() {
        let names = ["m".to_owned()];
        let mut one = command(&names, &[]);
        one.data_parallel_size = 1;
        one.tensor_parallel_size = 2;
        one.kv_offload_gib = 16;
        one.dtype = None;
        one.tool_call_parser = None;
        insta::assert_snapshot!(one.argv().join(" "), @"serve Qwen/Qwen3-4B-Instruct-2507 --served-model-name m --host 127.0.0.1 --port 8701 --data-parallel-size 1 --tensor-parallel-size 2 --api-server-count 1 --max-num-seqs 32 --kv-offloading-size 16 --enable-prefix-caching --enable-prompt-tokens-details");
    }

    #[test]
    fn cards_go_to_replicas_in_order() {
        assert_eq!(
            assign_gpus(&[0, 1, 2, 3], 2, 2),
            Ok(vec![vec![0, 1], vec![2, 3]])
        );
        assert_eq!(assign_gpus(&[5, 3, 1], 2, 1), Ok(vec![vec![5], vec![3]]));
        assert_eq!(assign_gpus(&[0, 0], 1, 1), Err(GpuError::Twice { card: 0 }));
        let few = assign_gpus(&[0, 1, 2], 2, 2);
        assert_eq!(
            few,
            Err(GpuError::TooFew {
                given: 3,
                replicas: 2,
                per_replica: 2
            })
        );
        assert_eq!(
            few.expect_err("too few").to_string(),
            "gpus names 3 cards, but data_parallel_size 2 x tensor_parallel_size 2 needs 4"
        );
    }
}
