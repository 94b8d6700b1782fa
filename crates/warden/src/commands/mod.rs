//! Commands that ask a running warden: `status`, `claude`, `logs` and `reload`; and what `key` prints. They use its public HTTP alone, so
//! they work from another machine through a tunnel as well.

pub mod claude;
mod client;
pub mod key;
pub mod logs;
pub mod reload;
pub mod status;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};

pub use client::{Client, ClientError, client_tls};
use table::table;

/// Prints. A reader that has left (`status | head`) is no failure.
pub fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}
