//! The replicas of one model and vLLM's balancer in front of them.
//!
//! A fleet survives the stages of a run, so that a second arm finds the caches that the first one
//! left; it can be cloned, so that several policies start from the same warm caches.

mod balancer;
mod replica;

pub(crate) use balancer::Balancer;
pub use balancer::{BalancerVersion, Balancing};
pub(crate) use replica::Replica;

use crate::profile::Profile;
use crate::scheduler::Counters;

/// Replicas of one model.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub(crate) profile: Profile,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) balancer: Balancer,
    /// Virtual time, microseconds since the fleet was started.
    pub(crate) now_us: u64,
    pub(crate) next_request: u64,
}

impl Fleet {
    /// `replicas` (at least 1) cold engines of this profile.
    pub fn new(profile: &Profile, replicas: u16, balancer: impl Into<Balancing>) -> Self {
        let count = usize::from(replicas.max(1));
        Self {
            profile: profile.clone(),
            replicas: vec![Replica::new(profile); count],
            balancer: Balancer::new(balancer.into(), count),
            now_us: 0,
            next_request: 0,
        }
    }

    /// Virtual time since the start, seconds.
    pub fn now_s(&self) -> f64 {
        self.now_us as f64 / 1e6
    }

    /// Counters summed over the replicas.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for replica in &self.replicas {
            let counters = replica.scheduler.counters();
            sum.prefix_cache_queries += counters.prefix_cache_queries;
            sum.prefix_cache_hits += counters.prefix_cache_hits;
            sum.prompt_tokens += counters.prompt_tokens;
            sum.prompt_tokens_cached += counters.prompt_tokens_cached;
            sum.prompt_tokens_loaded += counters.prompt_tokens_loaded;
            sum.generation_tokens += counters.generation_tokens;
            sum.preemptions += counters.preemptions;
        }
        sum
    }

    /// Replicas with a running request.
    pub(crate) fn busy(&self) -> usize {
        self.replicas
            .iter()
            .filter(|replica| replica.scheduler.running() > 0)
            .count()
    }
}
