//! Where log lines go: stderr, as text or as JSON lines, filtered by `LM_WARDEN_LOG`.

mod lines;

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt};

pub(crate) use lines::Flushed;

/// The variable that filters the log.
const FILTER: &str = "LM_WARDEN_LOG";

/// Starts logging; what is under way is written when the value given back is dropped. Only the
/// long-running commands log; the others speak for themselves.
pub(crate) fn start(json: bool) -> Flushed {
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (lines, flushed) = lines::to(io::stderr());
    let log = fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone())
        .with_target(false)
        .with_ansi(colour);
    if json {
        log.json().flatten_event(true).init();
    } else {
        log.init();
    }
    flushed
}
