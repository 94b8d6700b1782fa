//! Which replica serves a request, and why.
//!
//! This crate owns every routing rule of LM Warden: the precedence and keys of conversation
//! identity, placement, spill, pins, failover, wedged replicas, the bounded table of homes, and who
//! waits when the contexts outgrow the caches. It
//! is pure: it does no I/O, reads no clock, uses no global random source and iterates no hash map,
//! so the same inputs always give the same decisions. The gateway and the simulator run this very
//! code, and a recorded day can be replayed against it.
//!
//! It deliberately knows nothing of HTTP: the warden turns headers and bodies into a
//! [`Request`], and a [`Decision`] back into a header or an upstream address.

#![deny(clippy::iter_over_hash_type)]

mod choice;
mod cold;
mod decision;
mod event;
mod flights;
mod home;
mod identity;
mod lease;
mod lineage;
mod placement;
mod replica;
mod request;
mod router;
mod settings;
mod table;
mod time;
mod tokens;
mod view;

pub use cold::{Cold, ColdCause, Prefix, ServedTurn, why_cold};
pub use decision::{Decision, Reason, Refusal, Route, Score, Ticket};
pub use event::{Event, Gauges};
pub use home::{HomeChange, HomeRecord};
pub use identity::{
    Candidates, ConversationKey, ID_BYTES_MAX, Identity, IdentitySource, OwnerId, Seed,
};
pub use lease::{
    Admission, Grant, Hold, HolderView, LeaseCounters, LeaseMode, LeaseRule, LeaseSettings,
    LeaseShare, LeaseState, LeaseView, Overflow, Wait, WaiterView,
};
pub use lineage::MainLineage;
pub use request::{Request, RequestClass, Usage};
pub use router::Router;
pub use settings::{HostTier, ReplicaIndex, ReplicaSpec, Settings, Steering};
pub use time::Time;
pub use view::{ConversationView, ReplicaView, Snapshot};
