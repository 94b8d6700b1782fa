//! A router with a clock and conversations named by number, so that a test reads as the story of
//! its rule.

use std::time::Duration;

use crate::{
    ConversationKey, Decision, Event, Gauges, Identity, IdentitySource, OwnerId, Refusal,
    ReplicaIndex, ReplicaSpec, Request, RequestClass, Route, Router, Settings, Steering, Time,
    Usage,
};

/// The lineage of every conversation's main turns, unless a test says otherwise.
pub(super) const MAIN: u64 = 1;

/// A router under test.
pub(super) struct Fleet {
    pub(super) router: Router,
    pub(super) now: Time,
}

pub(super) fn settings(steering: Steering) -> Settings {
    Settings {
        affinity: true,
        spill_threshold: None,
        max_num_seqs: 32,
        steering,
        session_idle: Duration::from_secs(3600),
        conversations_max: 1000,
        leases: crate::LeaseSettings::default(),
    }
}

pub(super) fn identity(session: u32) -> Identity {
    // Spread like a hash, since the table takes the key for one.
    let spread = u128::from(session + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    Identity {
        conversation: ConversationKey(spread),
        session: u64::from(session),
        agent: None,
        source: IdentitySource::ClaudeCodeHeader,
    }
}

/// A main turn of 4,000 bytes, 1,000 of them shared.
pub(super) fn request(session: u32) -> Request {
    Request {
        owner: OwnerId(0),
        identity: Some(identity(session)),
        pin: None,
        steerable: true,
        prompt_bytes: 4000,
        shared_bytes: 1000,
        lineage: MAIN,
        front: 0,
        class: RequestClass::Unknown,
        streams: false,
    }
}

pub(super) fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage {
        prompt_tokens,
        cached_tokens: None,
        completion_tokens,
    }
}

pub(super) fn gauges(running: u32, tokens_total: u64) -> Gauges {
    Gauges {
        running,
        waiting: 0,
        kv_cache_usage: 0.5,
        tokens_total,
    }
}

pub(super) fn r(index: u16) -> ReplicaIndex {
    ReplicaIndex(index)
}

impl Fleet {
    pub(super) fn with(settings: Settings, replicas: u16, kv_tokens: Option<u64>) -> Self {
        let now = Time(1_000_000_000_000);
        let specs = (0..replicas).map(|index| ReplicaSpec {
            id: format!("rank:{index}"),
            kv_tokens,
            host: None,
        });
        Self {
            router: Router::new(settings, specs.collect(), now),
            now,
        }
    }

    /// Replicas that are ranks of one server.
    pub(super) fn ranks(replicas: u16) -> Self {
        Self::with(settings(Steering::Ranks), replicas, None)
    }

    /// Replicas on their own URLs.
    pub(super) fn urls(replicas: u16) -> Self {
        Self::with(settings(Steering::Urls), replicas, None)
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
    }

    pub(super) fn configure(&mut self, edit: impl FnOnce(&mut Settings)) {
        let mut settings = self.router.settings().clone();
        edit(&mut settings);
        self.router.configure(settings);
    }

    pub(super) fn try_route(&mut self, request: &Request) -> Result<Decision, Refusal> {
        self.router.route(self.now, request)
    }

    pub(super) fn route(&mut self, request: &Request) -> Decision {
        self.try_route(request).expect("a replica is up")
    }

    /// A turn that stays in flight.
    pub(super) fn begin(&mut self, session: u32) -> Decision {
        self.route(&request(session))
    }

    /// A turn that ends at once.
    pub(super) fn turn(&mut self, session: u32) -> Decision {
        let decision = self.begin(session);
        self.finish(&decision);
        decision
    }

    pub(super) fn observe(&mut self, event: Event) {
        self.router.observe(self.now, event);
    }

    pub(super) fn finish(&mut self, decision: &Decision) {
        self.observe(Event::Finished(decision.ticket, None));
    }

    /// That many requests in flight on the replica, of no conversation.
    pub(super) fn load(&mut self, replica: u16, requests: usize) -> Vec<Decision> {
        let pinned = Request {
            identity: None,
            pin: Some(i64::from(replica)),
            ..request(0)
        };
        (0..requests).map(|_| self.route(&pinned)).collect()
    }

    pub(super) fn in_flight(&self) -> Vec<u32> {
        let snapshot = self.router.snapshot(self.now);
        snapshot.replicas.iter().map(|r| r.in_flight).collect()
    }

    pub(super) fn home(&self, session: u32) -> Option<ReplicaIndex> {
        let key = identity(session).conversation;
        let view = self.router.conversation(self.now, key)?;
        Some(view.record.home)
    }
}

/// What a decision says in short.
pub(super) fn said(decision: &Decision) -> (Route, Option<u16>) {
    (decision.route, decision.replica.map(|replica| replica.0))
}
