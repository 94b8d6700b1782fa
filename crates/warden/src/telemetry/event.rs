//! The steps of a request, as the gateway tells them.

use std::sync::Arc;

use routing::{Decision, Identity, Time, Wait};
use vllm::{Dialect, Usage};

use super::cold::PromptNote;

/// Id of one request (`x-lm-warden-request-id`): unique across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u128);

impl std::fmt::Display for RequestId {
    /// 32 hex digits, as the header and the operators' API give it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What is known of a request when it arrives (body read, facts found).
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// Its id.
    pub id: RequestId,
    /// When the last byte of its head arrived.
    pub arrived: Time,
    /// The model's configured name; `None` where none matched.
    pub model: Option<Arc<str>>,
    /// The API.
    pub dialect: Dialect,
    /// Method and path, without query, for the log.
    pub path: &'static str,
    /// The conversation.
    pub identity: Option<Identity>,
    /// Name of the key it came with; `None` without keys.
    pub owner: Option<Arc<str>>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// What its prompt is compared by; `None` where it is no turn of any conversation.
    pub prompt: Option<Box<PromptNote>>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Completely.
    Complete,
    /// Refused by the warden (400 to 503), nothing reached the engine.
    Refused,
    /// The engine answered an error.
    EngineError,
    /// The engine broke off after a byte.
    Cut,
    /// The engine broke off before a byte, after the retry.
    Lost,
    /// The client left.
    ClientGone,
    /// No progress of the replica for 60 s.
    Timeout,
    /// The warden was stopping.
    Shutdown,
    /// A fault of the warden's own (a panic).
    Internal,
}

/// One step.
#[derive(Debug, Clone)]
pub enum RequestEvent {
    /// A proxied request arrived and was understood, or was refused.
    Arrived(RequestInfo),
    /// It waits for room on a replica (again, after a failed attempt).
    Waits(RequestId, Time, Wait),
    /// A route was found (again, after a retry).
    Routed(RequestId, Time, Decision),
    /// The first body byte that is neither a ping nor a comment left for the client.
    FirstByte(RequestId, Time),
    /// It ended. Status 499 where the client left.
    Ended {
        /// Which.
        id: RequestId,
        /// When.
        at: Time,
        /// How.
        end: End,
        /// The status that was or would have been answered.
        status: u16,
        /// What the engine counted.
        usage: Option<Usage>,
    },
}
