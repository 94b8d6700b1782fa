//! Conversations and their homes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Route;

/// A page of conversations, most recently active first unless asked otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Conversations {
    /// Conversations.
    pub conversations: Vec<Conversation>,
    /// How many match what was asked, beyond this page.
    pub matching: u64,
    /// How many there are, of the model asked for or of all.
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
    /// What its client does that costs it its cache; null where nothing of that kind was seen.
    pub alarm: Option<Alarm>,
}

/// Something about clients' prompts that an operator should know and can stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// What it is.
    pub kind: AlarmKind,
    /// How many conversations it was seen in.
    pub conversations: u32,
    /// What happens, what it costs and what to do.
    pub message: String,
    /// The setting of the client that stops it.
    pub setting: String,
}

/// Kind of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// Claude Code's billing block changes between turns.
    BillingBlock,
}

/// Where to move a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveConversation {
    /// Its new home.
    pub replica: u16,
}
