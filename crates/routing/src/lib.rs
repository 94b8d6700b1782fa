//! Which replica serves a request, and why.
//!
//! This crate owns every routing rule of LM Warden: the precedence and keys of conversation
//! identity, placement, spill, pins, failover, wedged replicas and the bounded table of homes. It
//! is pure: it does no I/O, reads no clock, uses no global random source and iterates no hash map,
//! so the same inputs always give the same decisions. The gateway and the simulator run this very
//! code, and a recorded day can be replayed against it.
//!
//! It deliberately knows nothing of HTTP: the warden turns headers and bodies into a
//! [`Request`], and a [`Decision`] back into a header or an upstream address.

mod decision;
mod identity;
mod router;
mod settings;
mod time;

pub use decision::{Decision, Reason, Refusal, Route, Score, Ticket};
pub use identity::{Candidates, ConversationKey, Identity, IdentitySource, OwnerId, Seed};
pub use router::{
    ConversationView, Event, Gauges, HomeChange, HomeRecord, ReplicaView, Request, RequestClass,
    Router, Snapshot, Usage,
};
pub use settings::{ReplicaIndex, ReplicaSpec, Settings, Steering};
pub use time::Time;
