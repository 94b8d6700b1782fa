//! The router of one model: a table of conversations, the replicas' states, and one decision per
//! request.

use crate::{
    ConversationKey, Decision, Identity, OwnerId, Refusal, ReplicaIndex, ReplicaSpec, Route,
    Settings, Ticket, Time,
};

/// What a client says a request is (`x-claude-code-request-class`), where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestClass {
    /// Not sent: the lineage decides.
    #[default]
    Unknown,
    /// `main`, `subagent`, `workflow`: a turn of the conversation.
    Turn,
    /// `compaction`, `auxiliary`, `side_reply`: a side request.
    Side,
}

/// What the router is told about a request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Whose key it came with.
    pub owner: OwnerId,
    /// The conversation, where one could be named.
    pub identity: Option<Identity>,
    /// An integer `X-data-parallel-rank` of the client's.
    pub pin: Option<i64>,
    /// False where the engine ignores the header on this API.
    pub steerable: bool,
    /// Bytes of prompt text (tools, system, messages).
    pub prompt_bytes: u64,
    /// Of these, bytes that other conversations share (tools and system).
    pub shared_bytes: u64,
    /// Hash of tools + system; 0 where unknown.
    pub lineage: u64,
    /// The client's own word on it.
    pub class: RequestClass,
}

/// Token counts that the engine reported for a finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All prompt tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Read from the prefix cache; `None` where the engine did not say.
    pub cached_tokens: Option<u64>,
    /// Generated tokens.
    pub completion_tokens: u64,
}

/// One scrape of an engine's gauges and counters for one replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauges {
    /// `vllm:num_requests_running`.
    pub running: u32,
    /// `vllm:num_requests_waiting`.
    pub waiting: u32,
    /// `vllm:kv_cache_usage_perc`, 0..1, active requests only.
    pub kv_cache_usage: f64,
    /// Sum of the token counters (prompt and generation); any change is progress.
    pub tokens_total: u64,
}

/// What happened, in the order it happened. Events with an unknown ticket are ignored.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The first body byte of a request's reply arrived.
    FirstByte(Ticket),
    /// Further body bytes of a reply arrived (at most once a second per request).
    Progress(Ticket),
    /// The reply ended well; usage where the engine gave it.
    Finished(Ticket, Option<Usage>),
    /// It ended otherwise: client gone, engine error, broken stream.
    Aborted(Ticket),
    /// A scrape succeeded.
    Scraped(ReplicaIndex, Gauges),
    /// The engine told how many tokens its KV cache holds.
    KvTokens(ReplicaIndex, u64),
    /// A TCP connect to the replica failed: out at once, even as the last one.
    ConnectFailed(ReplicaIndex),
    /// Its health probe failed. A probe alone never empties the set.
    ProbeFailed(ReplicaIndex),
    /// Its health probe succeeded.
    ProbeSucceeded(ReplicaIndex),
    /// Its engine process is another than before: what its cache held is gone.
    EngineRestarted(ReplicaIndex),
    /// Operator: nothing new goes there, conversations move when they next speak.
    Drain(ReplicaIndex),
    /// Operator: the end of that.
    Undrain(ReplicaIndex),
}

/// A change to the table of homes, to be written to disk by the warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeChange {
    /// New, moved or touched: replaces what was written under this key.
    Set(HomeRecord),
    /// Forgotten.
    Forget(ConversationKey),
}

/// What is persisted of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeRecord {
    /// The conversation.
    pub identity: Identity,
    /// Its owner.
    pub owner: OwnerId,
    /// Its home (the warden writes the replica's stable id).
    pub home: ReplicaIndex,
    /// When it last spoke.
    pub last_active: Time,
    /// Tokens of its context, shared prefix included.
    pub context_tokens: u64,
    /// Of these, its own.
    pub own_tokens: u64,
    /// Main-lineage turns so far.
    pub turns: u32,
    /// The main lineage.
    pub lineage: u64,
}

/// One replica as the panel shows it. Counters of decisions are telemetry's, not the router's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaView {
    /// Up, not draining, and making progress.
    pub available: bool,
    /// Reached by probes and connects.
    pub up: bool,
    /// An operator drains it.
    pub draining: bool,
    /// Requests in flight without any progress for too long.
    pub wedged: bool,
    /// Shortly back: takes new conversations at half rate.
    pub ramping: bool,
    /// Requests the warden has in flight there.
    pub in_flight: u32,
    /// The last scrape and when it was; `None` before the first.
    pub gauges: Option<(Gauges, Time)>,
    /// Active conversations homed there.
    pub conversations: u32,
    /// Their own tokens and the shared prefixes, each counted once.
    pub committed_tokens: u64,
    /// What its KV cache holds.
    pub kv_tokens: Option<u64>,
    /// When it last made progress (or last had nothing to do).
    pub last_progress: Time,
}

/// The router's state at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// By index.
    pub replicas: Vec<ReplicaView>,
    /// Requests in flight, those without a replica (balanced) included.
    pub in_flight: u32,
    /// Conversations in the table.
    pub conversations: usize,
}

/// One conversation as the pages show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConversationView {
    /// What is also persisted.
    pub record: HomeRecord,
    /// Requests in flight.
    pub in_flight: u32,
    /// The rule of its last decision.
    pub last_route: Route,
}

/// The router of one model.
#[derive(Debug)]
pub struct Router {}

impl Router {
    /// An empty table over these replicas, all of them up until an event says otherwise.
    pub fn new(_settings: Settings, _replicas: Vec<ReplicaSpec>, _now: Time) -> Self {
        todo!()
    }

    /// Puts back persisted homes (oldest first), before the first request. Records over the
    /// table's bounds or past the idle time are dropped.
    pub fn restore(&mut self, _now: Time, _homes: impl IntoIterator<Item = HomeRecord>) {
        todo!()
    }

    /// Decides where a request goes and counts it in flight until a `Finished` or `Aborted`.
    pub fn route(&mut self, _now: Time, _request: &Request) -> Result<Decision, Refusal> {
        todo!()
    }

    /// A second decision for a request that failed on `failed` before any byte: same ticket,
    /// counted there instead. At most once; a pinned request is refused.
    pub fn reroute(
        &mut self,
        _now: Time,
        _ticket: Ticket,
        _failed: ReplicaIndex,
    ) -> Result<Decision, Refusal> {
        todo!()
    }

    /// Takes note of what happened.
    pub fn observe(&mut self, _now: Time, _event: Event) {
        todo!()
    }

    /// New settings, in force from the next request on.
    pub fn configure(&mut self, _settings: Settings) {
        todo!()
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        todo!()
    }

    /// Changes to homes since the last call, oldest first, at most one per conversation, bounded
    /// by the table.
    pub fn take_changes(&mut self) -> Vec<HomeChange> {
        todo!()
    }

    /// State for pages and metrics.
    pub fn snapshot(&self, _now: Time) -> Snapshot {
        todo!()
    }

    /// Conversations, most recently active first, at most `limit`.
    pub fn conversations(&self, _now: Time, _limit: usize) -> Vec<ConversationView> {
        todo!()
    }

    /// One conversation.
    pub fn conversation(&self, _now: Time, _key: ConversationKey) -> Option<ConversationView> {
        todo!()
    }

    /// Operator: gives a conversation another home. False where it is unknown or there is no such
    /// replica.
    pub fn move_conversation(
        &mut self,
        _now: Time,
        _key: ConversationKey,
        _to: ReplicaIndex,
    ) -> bool {
        todo!()
    }

    /// Operator: forgets a conversation. False where it is unknown.
    pub fn forget(&mut self, _key: ConversationKey) -> bool {
        todo!()
    }
}
