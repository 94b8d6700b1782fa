//! Conversations and their homes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Route;

/// Conversations, most recently active first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Conversations {
    /// Conversations.
    pub conversations: Vec<Conversation>,
    /// How many there are, beyond those listed.
    pub total: u64,
}

/// One conversation. Ids of clients are shown as keyed hashes only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Conversation {
    /// 16 hex digits of a keyed hash of owner, model, session and agent.
    pub id: String,
    /// The model.
    pub model: String,
    /// 16 hex digits, equal for a main agent and its subagents.
    pub session: String,
    /// 16 hex digits; null for the main agent.
    pub agent: Option<String>,
    /// What named it, such as `x-claude-code-session-id`.
    pub named_by: String,
    /// Its home.
    pub replica: u16,
    /// Turns so far.
    pub turns: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// Tokens of its context, the shared prefix included.
    pub context_tokens: u64,
    /// Of these, its own.
    pub own_tokens: u64,
    /// The rule of its last decision.
    pub last_route: Route,
    /// When it last spoke, in epoch seconds.
    pub last_active: f64,
}

/// Where to move a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveConversation {
    /// Its new home.
    pub replica: u16,
}
