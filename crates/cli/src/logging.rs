//! Where log lines go: stderr, as text or as JSON lines, filtered by `LM_WARDEN_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

/// The variable that filters the log.
const FILTER: &str = "LM_WARDEN_LOG";

/// Starts logging. Only the long-running commands do; the others speak for themselves.
pub(crate) fn start(json: bool) {
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colour);
    if json {
        lines.json().flatten_event(true).init();
    } else {
        lines.init();
    }
}
