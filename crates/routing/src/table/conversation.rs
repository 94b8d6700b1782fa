//! What is kept of one conversation. Every byte here is paid up to a million times, so tokens are
//! 32 bits wide and nothing is boxed.

use super::recency::Links;
use crate::replica::{Charge, Weight};
use crate::{
    ConversationKey, ConversationView, HomeRecord, Identity, IdentitySource, OwnerId, ReplicaIndex,
    Request, RequestClass, Route, Time,
};

/// Turns after which one request of another lineage no longer makes that the main one: by then a
/// longer prompt is more likely a summary of a large page than a conversation that began with its
/// title.
const ESTABLISHED_TURNS: u32 = 2;

/// One entry of the table.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    pub(crate) key: ConversationKey,
    pub(crate) session: u64,
    pub(crate) agent: Option<u64>,
    pub(crate) source: IdentitySource,
    pub(crate) owner: OwnerId,
    pub(crate) home: ReplicaIndex,
    pub(crate) last_active: Time,
    /// The main lineage.
    pub(crate) lineage: u64,
    /// Low half of another lineage that was longer than the main one in the last request but the main's.
    pub(crate) rival: Option<u32>,
    /// Prompt bytes of the main lineage's last turn.
    pub(crate) prompt_bytes: u32,
    pub(crate) context_tokens: u32,
    pub(crate) own_tokens: u32,
    pub(crate) turns: u32,
    pub(crate) in_flight: u32,
    pub(crate) last_route: Route,
    /// The replica that served the last spill.
    pub(crate) last_spill: Option<ReplicaIndex>,
    /// Turns in a row that were spilled.
    pub(crate) spills: u8,
    /// An operator gave it its home, and no request has gone there since.
    pub(crate) moved_by_operator: bool,
    /// Counts among its home's active conversations.
    pub(crate) active: bool,
    /// What its home's cache ledger holds for it.
    pub(crate) charge: Option<Charge>,
    /// A record of it was exported, so forgetting it has to be exported too.
    pub(super) exported: bool,
    pub(super) links: [Links; 2],
    pub(crate) tenancy: Tenancy,
}

/// State of a slot, which outlives the conversation in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tenancy {
    /// Counts the slot's tenants, so that what remembers one of them is not taken for another's.
    pub(crate) generation: u32,
    /// False in a freed slot.
    pub(super) live: bool,
    /// It is on the list of changes.
    pub(super) changed: bool,
}

impl Conversation {
    /// A conversation that has not spoken yet.
    pub(crate) fn new(identity: Identity, owner: OwnerId, home: ReplicaIndex, now: Time) -> Self {
        Self {
            key: identity.conversation,
            session: identity.session,
            agent: identity.agent,
            source: identity.source,
            owner,
            home,
            last_active: now,
            lineage: 0,
            rival: None,
            prompt_bytes: 0,
            context_tokens: 0,
            own_tokens: 0,
            turns: 0,
            in_flight: 0,
            last_route: Route::New,
            last_spill: None,
            spills: 0,
            moved_by_operator: false,
            active: false,
            charge: None,
            exported: false,
            links: [Links::default(); 2],
            tenancy: Tenancy::default(),
        }
    }

    /// A conversation as it was written down.
    pub(crate) fn restored(record: &HomeRecord, now: Time) -> Self {
        let last_active = record.last_active.min(now);
        Self {
            lineage: record.lineage,
            context_tokens: saturating(record.context_tokens),
            own_tokens: saturating(record.own_tokens.min(record.context_tokens)),
            turns: record.turns,
            last_route: Route::Sticky,
            exported: true,
            ..Self::new(record.identity, record.owner, record.home, last_active)
        }
    }

    /// Whether a request is a turn of the conversation, or a side request that shares its id (a
    /// title, the summary of a fetched page). The client's word counts where it gave one; else the
    /// lineage with the longest prompt is the main one. Once that is established, a longer one
    /// takes over only with its second request in a row.
    pub(crate) fn takes_turn(&self, request: &Request) -> bool {
        match request.class {
            RequestClass::Turn => true,
            RequestClass::Side => false,
            RequestClass::Unknown => {
                self.turns == 0
                    || request.lineage == self.lineage
                    || (self.is_outgrown_by(request)
                        && (self.turns < ESTABLISHED_TURNS
                            || self.rival == Some(request.lineage as u32)))
            }
        }
    }

    /// Whether another lineage's prompt is longer than the main one's last.
    fn is_outgrown_by(&self, request: &Request) -> bool {
        request.lineage != self.lineage && saturating(request.prompt_bytes) > self.prompt_bytes
    }

    /// Takes note of the turn's lineage and size.
    pub(crate) fn begin_turn(&mut self, request: &Request) {
        // What came before the main lineage's first turn turns out to have been a side request.
        let begins_anew = request.class == RequestClass::Unknown
            && request.lineage != self.lineage
            && self.turns < ESTABLISHED_TURNS;
        self.turns = if begins_anew {
            1
        } else {
            self.turns.saturating_add(1)
        };
        self.lineage = request.lineage;
        self.rival = None;
        self.prompt_bytes = saturating(request.prompt_bytes);
    }

    /// Takes note of a side request.
    pub(crate) fn begin_side(&mut self, request: &Request) {
        if request.class == RequestClass::Unknown && self.is_outgrown_by(request) {
            self.rival = Some(request.lineage as u32);
        }
    }

    /// What it weighs on its home's cache.
    pub(crate) fn weight(&self) -> Weight {
        Weight {
            lineage: self.lineage,
            shared_tokens: self.context_tokens.saturating_sub(self.own_tokens),
            own_tokens: self.own_tokens,
        }
    }

    pub(crate) fn record(&self) -> HomeRecord {
        HomeRecord {
            identity: Identity {
                conversation: self.key,
                session: self.session,
                agent: self.agent,
                source: self.source,
            },
            owner: self.owner,
            home: self.home,
            last_active: self.last_active,
            context_tokens: u64::from(self.context_tokens),
            own_tokens: u64::from(self.own_tokens),
            turns: self.turns,
            lineage: self.lineage,
        }
    }

    pub(crate) fn view(&self) -> ConversationView {
        ConversationView {
            record: self.record(),
            in_flight: self.in_flight,
            last_route: self.last_route,
        }
    }
}

/// Sizes past 2^32 are a stranger's numbers, and as good as infinite.
pub(crate) fn saturating(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
