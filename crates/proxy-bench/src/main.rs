//! Measures lm-warden as a proxy beside nginx, haproxy and no proxy at all, in one run: CPU time per
//! request, added time to the first byte, and memory per session.
//!
//! Each figure is taken interleaved, so that whatever else the machine does falls on every target
//! alike; ratios down a column hold between machines, absolute figures do not. It shares no code
//! with the other crates: what measures the gateway must not be built from it.

mod body;
mod client;
mod measure;
mod mock;
mod process;
mod report;
mod target;
mod trial;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::measure::Plan;
use crate::target::Target;

/// Compares lm-warden with nginx, haproxy and no proxy: CPU, added TTFB, memory.
#[derive(Parser)]
#[command(name = "proxy-bench")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts all proxies before one mock engine and measures them in turn.
    Run(RunArgs),
    /// Sends requests to one address as fast as it answers, e.g. to profile it.
    Load(LoadArgs),
    /// The mock engine alone: answers as vLLM does, computing nothing.
    Mock {
        /// How many ports to listen on; they are printed, one a line.
        #[arg(long, default_value_t = 4)]
        ports: usize,
        /// Listen on this address instead of free ports.
        #[arg(long)]
        at: Option<SocketAddr>,
    },
    /// Thousands of slow streams, clients that leave, engines that die: nothing may leak.
    Soak(trial::soak::Args),
    /// Kills and wedges one of four replicas, and counts what that costs.
    Failures(trial::failures::Args),
}

#[derive(clap::Args)]
struct LoadArgs {
    address: SocketAddr,
    #[arg(long, default_value_t = 200_000)]
    body_bytes: usize,
    /// Asks for streams of 256 events.
    #[arg(long)]
    stream: bool,
    #[arg(long, default_value_t = 5_000)]
    requests: usize,
    #[arg(long, default_value_t = 200)]
    sessions: usize,
}

#[derive(clap::Args)]
struct RunArgs {
    /// The lm-warden binary to measure.
    #[arg(long, default_value = "target/release/lm-warden")]
    warden: PathBuf,
    /// Writes every figure to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Rounds of CPU measurement; each goes once through all targets and cells.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds for which each cell's time to first byte is sampled.
    #[arg(long, default_value_t = 20)]
    ttfb_s: u64,
    /// Sessions of the memory measurement.
    #[arg(long, default_value_t = 20_000)]
    sessions: usize,
    /// Measures only these targets (direct, nginx, haproxy, lm-warden), comma-separated.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Args::parse().command {
        Command::Soak(args) => return trial::soak::run(&args).await,
        Command::Failures(args) => return trial::failures::run(&args).await,
        Command::Run(args) => run(&args).await,
        Command::Load(args) => {
            let bodies = body::turns(args.body_bytes, args.stream);
            let sessions = client::Sessions::new(args.sessions);
            measure::closed_loop(args.address, &bodies, args.requests, &sessions).await
        }
        Command::Mock { ports, at } => mock::serve(ports, at).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

async fn run(args: &RunArgs) -> anyhow::Result<()> {
    let engine = mock::Child::start(4)?;
    let targets = Target::start_all(&engine.ports, &args.warden, &args.only).await?;
    let plan = Plan {
        rounds: args.rounds,
        ttfb_s: args.ttfb_s,
        sessions: args.sessions.min(1_000_000),
    };
    let results = measure::run(&plan, &targets).await?;
    print!("{}", report::table(&results));
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&results)?;
        std::fs::write(path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
