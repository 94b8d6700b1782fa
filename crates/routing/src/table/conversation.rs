//! What is kept of one conversation. Every byte here is paid up to a million times, so tokens are
//! 32 bits wide and nothing is boxed.

use super::recency::Links;
use crate::lineage::MainLineage;
use crate::replica::{Charge, Weight};
use crate::{
    ConversationKey, ConversationView, HomeRecord, Identity, IdentitySource, OwnerId, ReplicaIndex,
    Route, Time,
};

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
    pub(crate) main: MainLineage,
    pub(crate) context_tokens: u32,
    pub(crate) own_tokens: u32,
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
            main: MainLineage::default(),
            context_tokens: 0,
            own_tokens: 0,
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
            main: MainLineage::restored(record.lineage, record.turns),
            context_tokens: saturating(record.context_tokens),
            own_tokens: saturating(record.own_tokens.min(record.context_tokens)),
            last_route: Route::Sticky,
            exported: true,
            ..Self::new(record.identity, record.owner, record.home, last_active)
        }
    }

    /// What it weighs on its home's cache.
    pub(crate) fn weight(&self) -> Weight {
        Weight {
            lineage: self.main.lineage(),
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
            turns: self.main.turns(),
            lineage: self.main.lineage(),
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
