//! What the router answers: where a request goes, by which rule, and on which figures.

use std::time::Duration;

use crate::Time;
use crate::settings::ReplicaIndex;

/// Handle of one routed request, from [`crate::Router::route`] to its last event. Never reused
/// within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// For hash tables: tickets count up, and multiplying by the golden ratio spreads them.
    pub(crate) fn spread(self) -> u64 {
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// The rule that chose the replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// The client named the replica.
    Pinned,
    /// The engine's own balancer chooses (or round-robin over URLs).
    Balanced,
    /// First request of a conversation: placed on the least loaded replica.
    New,
    /// The conversation's home.
    Sticky,
    /// The home was over its threshold; another replica serves this one request.
    Spilled,
    /// The home was gone; the replica named here is the new home.
    Moved,
}

impl Route {
    /// The word used in headers, metrics and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Balanced => "balanced",
            Self::New => "new",
            Self::Sticky => "sticky",
            Self::Spilled => "spilled",
            Self::Moved => "moved",
        }
    }
}

/// Why, in a form a page can put in words; the figures are in [`Decision::scores`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The client's `X-data-parallel-rank`.
    ClientPin,
    /// Affinity is off for the model.
    AffinityOff,
    /// The engine ignores the header on this API.
    NotSteerable,
    /// Least loaded for a conversation not seen before (or a request without identity).
    LeastLoaded,
    /// The home, at or under the threshold.
    Home,
    /// The home is over the threshold, but no other replica is under it with 2 fewer in flight.
    HomeNoBetter,
    /// Over the threshold at home.
    HomeOverThreshold {
        /// The home.
        home: ReplicaIndex,
        /// Requests in flight there.
        in_flight: u32,
        /// The threshold in force.
        threshold: u32,
    },
    /// The home makes no progress with requests in flight.
    HomeWedged {
        /// The home.
        home: ReplicaIndex,
    },
    /// The home is out (failed, draining or no longer configured).
    HomeOut {
        /// The former home.
        home: ReplicaIndex,
    },
    /// Spilled twice in a row: the replica named is the new home.
    SpilledTwice {
        /// The former home.
        home: ReplicaIndex,
    },
    /// An operator moved the conversation.
    MovedByOperator,
    /// The first attempt failed before a byte.
    Retry {
        /// The replica that failed.
        failed: ReplicaIndex,
    },
    /// Its conversation holds its share of the cache there, while others wait.
    LeaseHeld,
    /// It waited until there was room.
    LeaseGranted {
        /// From the request's arrival.
        waited: Duration,
    },
    /// It had waited so long that it goes to a full replica.
    WaitedTooLong {
        /// From the conversation's first arrival.
        waited: Duration,
    },
    /// There is room reserved for requests without a conversation.
    Reserved,
}

/// One replica's figures at the moment of a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The replica.
    pub replica: ReplicaIndex,
    /// Whether it could be chosen at all (up, not draining, not wedged).
    pub available: bool,
    /// Whether the conversations' own tokens and this prompt fit its cache (true where unknown).
    pub fits: bool,
    /// Requests that the warden has in flight there: what the spill threshold is compared with.
    pub in_flight: u32,
    /// Requests running: the larger of the warden's own count and the engine's fresh gauges.
    pub running: u32,
    /// Own tokens of its active conversations over its KV tokens; `None` where that is unknown.
    pub cache_fill: Option<f32>,
    /// Active conversations homed there.
    pub conversations: u32,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// To be named in every later event of this request.
    pub ticket: Ticket,
    /// The rule.
    pub route: Route,
    /// The replica; `None` where vLLM's balancer chooses.
    pub replica: Option<ReplicaIndex>,
    /// Why.
    pub reason: Reason,
    /// All replicas' figures, by index.
    pub scores: Box<[Score]>,
    /// 1 for a conversation's first main-lineage turn; 0 without a conversation.
    pub turn: u32,
    /// When the replica's cache last began empty, as far as was seen: its engine's last restart. Where
    /// vLLM's balancer chooses, the earliest of all replicas'.
    pub cache_since: Time,
}

/// Why a request cannot be sent anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The client's fault: no such rank.
    #[error("replica {pin} does not exist: this model has replicas 0 to {}", .replicas.saturating_sub(1))]
    PinOutOfRange {
        /// What was asked for.
        pin: i64,
        /// How many replicas there are.
        replicas: u16,
    },
    /// The pinned replica is out; a pin is never sent elsewhere.
    #[error("replica {} is not available", .replica.0)]
    PinnedReplicaOut {
        /// The replica.
        replica: ReplicaIndex,
    },
    /// No replica is up.
    #[error("no replica is available")]
    NoReplica,
    /// The one other attempt was used already, or the request was pinned.
    #[error("the request was tried on every replica it may go to")]
    RetriesSpent,
    /// So many wait that it would outlast its client's patience.
    #[error("about {} s until there is room for another conversation; come back in {} s", .predicted.as_secs(), .retry_after.as_secs())]
    QueueTooLong {
        /// How long it would wait.
        predicted: Duration,
        /// When to ask again, at most 60 s. Its place in the queue counts from its first arrival.
        retry_after: Duration,
    },
}
