//! Commands that ask a running warden: `status` and `claude`. They use its public HTTP alone, so
//! they work from another machine through a tunnel as well.

pub mod claude;
mod client;
pub mod status;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientError};
