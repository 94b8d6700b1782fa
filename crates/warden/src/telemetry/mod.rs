//! One stream of events from the gateway feeds counters, log, history and pages: no number is
//! counted in two places.

mod event;

pub use event::{End, RequestEvent, RequestId, RequestInfo, Telemetry};
