//! One stream of events from the gateway feeds counters, log, history and pages: no number is
//! counted in two places.
//!
//! All of it is in memory and bounded: requests in flight by the gateway's own limits, finished
//! ones by a ring, from which they are listed until the history has them on disk. Nothing here asks
//! a clock or a router; the operators' API puts the routers' snapshots beside these figures.

mod changes;
mod cold;
mod counters;
mod event;
mod hub;
mod log;
mod record;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub use changes::{Changes, Watcher};
pub use cold::{PromptNote, RecalledTurn};
pub use counters::{Outcome, RouteCounters, Totals};
pub use event::{End, RequestEvent, RequestId, RequestInfo};
pub use hub::{Filter, Telemetry};
