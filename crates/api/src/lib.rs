//! The types of the operators' API (`/api/v1`): what the warden serves and what the pages, the
//! terminal and the bench read.
//!
//! Holds no logic. A number that is not known is `null`, never 0. `openapi.json` beside this crate
//! is made from these types, and the pages' types from that; a test holds it current.

#![deny(clippy::iter_over_hash_type)]

mod conversations;
mod engines;
mod error;
mod events;
mod gpus;
mod history;
mod keys;
mod leases;
mod models;
mod openapi;
mod requests;
mod stats;

pub use conversations::{Alarm, AlarmKind, Conversation, Conversations, MoveConversation};
pub use engines::{LogLine, Logs, Reloaded};
pub use error::{Error, ErrorDetail};
pub use events::{Changed, Hello};
pub use gpus::{Gpu, GpuReplica, Gpus};
pub use history::HistoryState;
pub use keys::{Key, KeyLimits, KeyRole, Keys, Login, Session};
pub use leases::{
    LeaseCounters, LeaseHolder, LeaseShare, LeaseTurns, LeaseWaiter, Leases, LeasesMode,
    LeasesState, SetTurns,
};
pub use models::{
    AutoWord, Engine, EngineCounters, EngineKind, Model, ModelState, Models, PatchRouting, Replica,
    ReplicaState, Routing, SetThreshold, SpillThreshold, ThresholdSource, Throughput, WorkingSet,
};
pub use openapi::openapi_json;
pub use requests::{Cold, ColdCause, Request, RequestEnd, Requests, Route, Score};
pub use stats::{Mark, MarkKind, Point, RouteFigures, Stats, StatsSummary};
