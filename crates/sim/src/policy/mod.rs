//! Who decides where a turn goes.
//!
//! `balanced` and `affinity` run the production router itself, with affinity off and on. `hash` and
//! `affinity-gauge` are what others did, and stand here for comparison only.

mod gauge;
mod router;

use crate::fleet::Fleet;
use crate::random::Random;
use gauge::Gauge;
use router::RouterPolicy;
pub use routing::{Hold, LeaseCounters, LeaseMode, LeaseRule, LeaseSettings, Overflow};
use routing::{Ticket, Usage};

/// The policies that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// Affinity off: vLLM's own balancer chooses.
    Balanced,
    /// The hash of the session id chooses.
    Hash,
    /// New conversations by the scraped gauge of running requests; then they stay.
    AffinityGauge,
    /// The warden's rule without leases.
    Affinity,
    /// The warden's rule.
    Leases,
}

impl PolicyKind {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Self; 5] = [
        Self::Balanced,
        Self::Hash,
        Self::AffinityGauge,
        Self::Affinity,
        Self::Leases,
    ];

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Hash => "hash",
            Self::AffinityGauge => "affinity-gauge",
            Self::Affinity => "affinity",
            Self::Leases => "leases",
        }
    }
}

/// A turn that wants a replica.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) session: u64,
    pub(crate) prompt_tokens: u32,
    pub(crate) shared_tokens: u32,
    pub(crate) owner: u32,
}

/// Where a turn goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// `None`: where vLLM's balancer sends it.
    pub(crate) replica: Option<usize>,
    /// Whether a known conversation stayed at its home; `None` for new ones and where there are no
    /// homes.
    pub(crate) stayed: Option<bool>,
    pub(crate) ticket: Option<Ticket>,
}

/// What a policy says to a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Go(Choice),
    /// Its choice comes with its ticket from [`Policy::advance`].
    Wait(Ticket),
    /// The client asks again so much later.
    Refused {
        retry_us: u64,
    },
}

/// What an operator of the simulated warden has set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knobs {
    /// Requests in flight above which conversations spill; `None` is a quarter of `max_num_seqs`.
    pub spill_threshold: Option<u32>,
    /// For [`PolicyKind::Leases`]; the mode is that of the policy.
    pub leases: LeaseSettings,
    /// What the warden believes of the KV cache, as a part of what there is.
    pub kv_tokens_believed: f64,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            spill_threshold: None,
            leases: LeaseSettings::default(),
            kv_tokens_believed: 1.0,
        }
    }
}

/// A policy at work, with what it remembers.
#[derive(Debug)]
pub struct Policy(Kind);

#[derive(Debug)]
enum Kind {
    Router(Box<RouterPolicy>),
    Hash,
    Gauge(Gauge),
}

impl Policy {
    /// A policy that knows no conversation yet.
    pub fn new(kind: PolicyKind, fleet: &Fleet, knobs: &Knobs) -> Self {
        let router = |affinity, mode| {
            let leases = LeaseSettings {
                mode,
                ..knobs.leases
            };
            let knobs = Knobs { leases, ..*knobs };
            Kind::Router(Box::new(RouterPolicy::new(fleet, affinity, &knobs)))
        };
        Self(match kind {
            PolicyKind::Balanced => router(false, LeaseMode::Off),
            PolicyKind::Affinity => router(true, LeaseMode::Off),
            PolicyKind::Leases => router(true, LeaseMode::Auto),
            PolicyKind::Hash => Kind::Hash,
            PolicyKind::AffinityGauge => Kind::Gauge(Gauge::new(fleet, knobs.spill_threshold)),
        })
    }

    pub(crate) fn choose(&mut self, ask: &Ask, fleet: &Fleet, random: &mut Random) -> Answer {
        Answer::Go(match &mut self.0 {
            Kind::Router(router) => return router.choose(ask, fleet),
            Kind::Hash => {
                let replica = Random::new(ask.session).below(fleet.replicas.len() as u64) as usize;
                Choice {
                    replica: Some(replica),
                    stayed: None,
                    ticket: None,
                }
            }
            Kind::Gauge(gauge) => gauge.choose(ask, random),
        })
    }

    /// Turns whose wait ended; to be asked after everything that happens and at [`Self::wakeup`].
    pub(crate) fn advance(&mut self, now_us: u64) -> Vec<(Ticket, Choice)> {
        match &mut self.0 {
            Kind::Router(router) => router.advance(now_us),
            Kind::Hash | Kind::Gauge(_) => Vec::new(),
        }
    }

    /// When [`Self::advance`] has to be asked at the latest, virtual microseconds.
    pub(crate) fn wakeup(&self, now_us: u64) -> Option<u64> {
        match &self.0 {
            Kind::Router(router) => router.wakeup(now_us),
            Kind::Hash | Kind::Gauge(_) => None,
        }
    }

    /// What leases did so far.
    pub(crate) fn lease_counters(&self, now_us: u64) -> LeaseCounters {
        match &self.0 {
            Kind::Router(router) => router.lease_counters(now_us),
            Kind::Hash | Kind::Gauge(_) => LeaseCounters::default(),
        }
    }

    pub(crate) fn first_byte(&mut self, choice: &Choice, now_us: u64) {
        if let Kind::Router(router) = &mut self.0 {
            router.first_byte(choice, now_us);
        }
    }

    pub(crate) fn finished(&mut self, choice: &Choice, usage: Usage, now_us: u64) {
        match &mut self.0 {
            Kind::Router(router) => router.finished(choice, usage, now_us),
            Kind::Hash => {}
            Kind::Gauge(gauge) => gauge.finished(choice),
        }
    }

    /// The gauges were scraped, as they are every second.
    pub(crate) fn scraped(&mut self, fleet: &Fleet) {
        match &mut self.0 {
            Kind::Router(router) => router.scraped(fleet),
            Kind::Hash => {}
            Kind::Gauge(gauge) => gauge.scraped(fleet),
        }
    }
}
