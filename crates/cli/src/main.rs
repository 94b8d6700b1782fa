//! `lm-warden`: arguments, logging and exit codes. What a command does is in the crate it calls.

#![deny(clippy::print_stdout)] // it panics where the reader has gone

mod command;
mod exit;
mod logging;

use std::process::ExitCode;

use clap::Parser;

use crate::{command::Command, exit::Exit};

/// A body of a few hundred KB comes and goes with every request. glibc gives such memory back to the
/// system each time and pays for it with page faults, which cost more than the copy into it. Without
/// transparent huge pages (feature `no_thp`): with them a small process holds twice the memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keeps every conversation of your coding agents on the vLLM replica that holds its prefix cache.
///
/// LM Warden stands between agents (Claude Code, Codex, opencode, anything that speaks the
/// Anthropic or OpenAI APIs) and the replicas of a model. A conversation's next turn goes to the
/// replica that served the last one, so the engine reads a few hundred new tokens instead of the
/// whole history.
///
/// Try it: `lm-warden serve` starts four simulated replicas as model "demo" and prints the line
/// that points Claude Code at them.
#[derive(Debug, Parser)]
#[command(name = "lm-warden", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 the warden cannot be reached; \
4 degraded (status, doctor).

LM_WARDEN_KEY holds the key for a warden that requires one, LM_WARDEN_CA a PEM file with the issuer \
of its certificate; LM_WARDEN_LOG sets what is logged to stderr (error, warn, info, debug; default info). NO_COLOR \
turns colour off.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command.run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("error: {:#}", failure.error);
            failure.exit.into()
        }
    }
}

/// Runs a command's future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, exit::Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| exit::Failure::new(Exit::Failed, error))?;
    Ok(runtime.block_on(future))
}
