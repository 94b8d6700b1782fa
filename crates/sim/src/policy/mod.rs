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
    /// The warden's rule.
    Affinity,
}

impl PolicyKind {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Self; 4] = [
        Self::Balanced,
        Self::Hash,
        Self::AffinityGauge,
        Self::Affinity,
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
        }
    }
}

/// A turn that wants a replica.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) session: u64,
    pub(crate) prompt_tokens: u32,
    pub(crate) shared_tokens: u32,
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
    /// A policy that knows no conversation yet. `spill_threshold`: requests in flight above which
    /// conversations spill; `None` is a quarter of `max_num_seqs`.
    pub fn new(kind: PolicyKind, fleet: &Fleet, spill_threshold: Option<u32>) -> Self {
        Self(match kind {
            PolicyKind::Balanced => {
                Kind::Router(Box::new(RouterPolicy::new(fleet, false, spill_threshold)))
            }
            PolicyKind::Affinity => {
                Kind::Router(Box::new(RouterPolicy::new(fleet, true, spill_threshold)))
            }
            PolicyKind::Hash => Kind::Hash,
            PolicyKind::AffinityGauge => Kind::Gauge(Gauge::new(fleet, spill_threshold)),
        })
    }

    pub(crate) fn choose(&mut self, ask: &Ask, fleet: &Fleet, random: &mut Random) -> Choice {
        match &mut self.0 {
            Kind::Router(router) => router.choose(ask, fleet),
            Kind::Hash => {
                let replica = Random::new(ask.session).below(fleet.replicas.len() as u64) as usize;
                Choice {
                    replica: Some(replica),
                    stayed: None,
                    ticket: None,
                }
            }
            Kind::Gauge(gauge) => gauge.choose(ask, random),
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
