//! `lm-warden engine`: arguments named as vLLM's, and the process's life.

use std::{
    io::{Read, Write},
    time::Duration,
};

use engine::{Config, Exit as EngineExit, Fault, StartError, VllmVersion};
use sim::profile::Profile;
use tokio::net::TcpListener;

use crate::{
    block_on,
    exit::{Exit, Failure},
    logging,
};

/// Runs the simulated vLLM server alone.
///
/// It speaks vLLM's HTTP API over simulated ranks that cache, schedule and take time as vLLM's do.
/// When it is ready it prints one line of JSON on stdout: {"listening":"http://HOST:PORT"}.
#[derive(Debug, clap::Args)]
pub(crate) struct Engine {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// 0 takes a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The model's name(s); the first one shows in replies.
    #[arg(long, visible_alias = "model", num_args = 1.., default_value = "demo")]
    served_model_name: Vec<String>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    behaviour: Behaviour,
    /// Seconds until the port opens, as vLLM takes to load.
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    startup_delay_s: f64,
    /// End when stdin closes, so as never to outlive a parent.
    #[arg(long)]
    exit_with_stdin: bool,
    /// A fault from the start, e.g. "wedge:rank=1,seconds=5", "die:seconds=10", "rank-death",
    /// "reset:events=3", "stall:events=3", "error:count=2", "slow:seconds=2"; may be repeated.
    /// While it runs: POST the same text to /sim/fault; DELETE clears.
    #[arg(long, value_name = "SPEC")]
    fault: Vec<Fault>,
}

#[derive(Debug, clap::Args)]
struct Limits {
    /// Ranks, each with a cache of its own.
    #[arg(long, default_value_t = 1)]
    data_parallel_size: usize,
    /// API servers over which connections spread at random [default: as many as ranks].
    #[arg(long)]
    api_server_count: Option<usize>,
    /// Sequences that a rank runs at once [default: the profile's].
    #[arg(long)]
    max_num_seqs: Option<u32>,
    /// KV blocks per rank, the null block included [default: the profile's].
    #[arg(long, visible_alias = "num-gpu-blocks-override")]
    num_gpu_blocks: Option<u32>,
    /// Tokens per KV block.
    #[arg(long, default_value_t = 16)]
    block_size: u32,
    /// Longest prompt plus output [default: the profile's, within the KV cache].
    #[arg(long)]
    max_model_len: Option<u32>,
    /// Tokens per step [default: the profile's].
    #[arg(long)]
    max_num_batched_tokens: Option<u32>,
}

#[derive(Debug, clap::Args)]
struct Behaviour {
    /// Card and model: demo, rtx-a4000-qwen3-4b, rtx-5090-27b, h100-32b.
    #[arg(long, default_value = "demo", value_parser = Profile::named)]
    profile: Profile,
    /// Divides all step times; 0 is as fast as possible.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Decides texts, lengths and the spread of connections.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Length of plain replies in tokens [default: drawn by the seed, 16 to 511].
    #[arg(long)]
    output_tokens: Option<u32>,
    /// The version whose behaviour to show.
    #[arg(long, default_value_t = VllmVersion::DEFAULT)]
    vllm_version: VllmVersion,
    /// Key that /v1 paths ask for, as a bearer token.
    #[arg(long, env = "VLLM_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Report cached tokens in usage.
    #[arg(
        long,
        num_args = 0..=1,
        default_value_t = true,
        default_missing_value = "true",
        value_name = "true|false"
    )]
    enable_prompt_tokens_details: bool,
    /// Usage on every chunk, asked or not.
    #[arg(long)]
    enable_force_include_usage: bool,
    /// Opens `/reset_prefix_cache`.
    #[arg(long, env = "VLLM_SERVER_DEV_MODE", value_parser = clap::builder::FalseyValueParser::new())]
    server_dev_mode: bool,
}

impl Engine {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let _log = logging::start(false);
        block_on(self.serve())?
    }

    async fn serve(self) -> Result<Exit, Failure> {
        let usage = |error: StartError| Failure::new(Exit::Usage, error);
        let delay = Duration::try_from_secs_f64(self.startup_delay_s)
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        let parent_gone = parent_gone(self.exit_with_stdin);
        let address = (self.host.clone(), self.port);
        let config = self.config();
        config.validate().map_err(|error| usage(error.into()))?;
        let shutdown = async {
            tokio::select! {
                () = parent_gone => {}
                () = terminated() => {}
            }
        };
        let mut shutdown = std::pin::pin!(shutdown);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = &mut shutdown => return Ok(Exit::Done),
        }
        let listener = TcpListener::bind(&address)
            .await
            .map_err(anyhow::Error::from)?;
        announce(&listener)?;
        let ended = engine::serve(config, listener, shutdown)
            .await
            .map_err(usage)?;
        match ended {
            // A dying vLLM exits with 0, too.
            EngineExit::Stopped | EngineExit::Died => Ok(Exit::Done),
        }
    }

    fn config(self) -> Config {
        let (limits, behaviour) = (self.limits, self.behaviour);
        Config {
            served_model_names: self.served_model_name,
            data_parallel_size: limits.data_parallel_size,
            api_server_count: limits.api_server_count,
            max_num_seqs: limits.max_num_seqs,
            num_gpu_blocks: limits.num_gpu_blocks,
            block_size: limits.block_size,
            max_model_len: limits.max_model_len,
            max_num_batched_tokens: limits.max_num_batched_tokens,
            speed: behaviour.speed,
            seed: behaviour.seed,
            output_tokens: behaviour.output_tokens,
            vllm_version: behaviour.vllm_version,
            api_key: behaviour.api_key,
            prompt_tokens_details: behaviour.enable_prompt_tokens_details,
            force_include_usage: behaviour.enable_force_include_usage,
            dev_endpoints: behaviour.server_dev_mode,
            faults: self.fault,
            ..Config::new(behaviour.profile)
        }
    }
}

fn announce(listener: &TcpListener) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(anyhow::Error::from)?;
    let line = serde_json::json!({"listening": format!("http://{address}")});
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").map_err(anyhow::Error::from)?;
    stdout.flush().map_err(anyhow::Error::from)?;
    Ok(())
}

/// Returns when stdin closes, if that is to be watched; a thread of its own reads it, since a
/// runtime cannot end while one of its own waits for a pipe.
async fn parent_gone(watched: bool) {
    if !watched {
        return std::future::pending().await;
    }
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
        drop(sender);
    });
    let _ = receiver.await;
}

/// Returns at SIGTERM or SIGINT.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
