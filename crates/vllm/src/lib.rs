//! Bytes to facts: everything LM Warden reads out of what clients send and what vLLM answers.
//!
//! Pure: no sockets, files, clocks or runtime. Each parser takes arbitrary bytes, is bounded, and
//! never builds a document of a body. It deliberately decides nothing: which replica serves a
//! request is `routing`'s, what to do about an error is the warden's.

#![deny(clippy::iter_over_hash_type)]

mod alias;
mod blame;
mod dialect;
mod error_body;
mod facts;
mod headers;
mod models;
mod prometheus;
mod reply;
pub mod serve;
mod version;

pub use alias::{alias_matches, is_glob};
pub use blame::is_clients_mistake;
pub use dialect::Dialect;
pub use error_body::{ErrorKind, error_body, error_event, error_message};
pub use facts::{
    BodyError, BodyFacts, Bookmark, DEPTH_MAX, Digests, MODEL_BYTES_MAX, PromptChain, PromptChange,
    PromptSection, metadata_session, scan, scan_on, splice_model,
};
pub use headers::{HeaderClass, HeaderIds, parse_rank};
pub use models::{ModelCard, model_body, models_body};
pub use prometheus::{EngineMetrics, Scrape, parse_metrics};
pub use reply::{
    HELD_BYTES_MAX, MEASURED_BYTES_MAX, ReplyTap, StreamEnd, TapOutput, Usage, split_prompt,
};
pub use version::{responses_steerable, takes_cache_salt};
