//! vLLM's own balancer over data-parallel ranks.
//!
//! Every API server process keeps a view of its own. Up to 0.26, engines of dense models publish no
//! load, so that a server sees only what it sent itself and never sees it end: it goes round in
//! turn from a start of its own. Connections land on the servers at random. From 0.27 on the
//! engines' load counts.
//!
//! Who keeps connections open stays with the servers that these fell to: then a whole run depends on
//! a few draws. The published run is simulated with a connection per request.

use super::Replica;
use crate::random::Random;

/// Which vLLM's balancer is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BalancerVersion {
    /// `vllm-0.26`: blind round-robin per API server (dense models).
    V026,
    /// `vllm-0.27`: load-aware.
    V027,
}

impl BalancerVersion {
    /// The version of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "vllm-0.26" => Some(Self::V026),
            "vllm-0.27" => Some(Self::V027),
            _ => None,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V026 => "vllm-0.26",
            Self::V027 => "vllm-0.27",
        }
    }
}

/// How requests come to the ranks where no policy chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balancing {
    /// Which vLLM.
    pub version: BalancerVersion,
    /// API servers, at least 1; `None` is vLLM's default, as many as ranks.
    pub api_servers: Option<u16>,
    /// Whether whoever sends the requests keeps connections open and takes the one last used, as
    /// the gateway does; else each request opens one.
    pub keeps_connections: bool,
}

impl From<BalancerVersion> for Balancing {
    fn from(version: BalancerVersion) -> Self {
        Self {
            version,
            api_servers: None,
            keeps_connections: false,
        }
    }
}

/// All API servers of one deployment.
#[derive(Debug, Clone)]
pub(crate) struct Balancer {
    version: BalancerVersion,
    ranks: usize,
    /// The API servers of idle connections, last used last; `None` where none is kept.
    idle: Option<Vec<usize>>,
    /// Per server: the rank at which its next scan starts.
    starts: Vec<usize>,
    /// Per server and rank: requests in flight that this server sent (0.27).
    in_flight: Vec<Vec<u32>>,
}

impl Balancer {
    pub(crate) fn new(balancing: Balancing, ranks: usize) -> Self {
        let servers = balancing.api_servers.map_or(ranks, usize::from).max(1);
        Self {
            version: balancing.version,
            ranks,
            idle: balancing.keeps_connections.then(Vec::new),
            starts: (0..servers)
                .map(|server| ranks * server / servers)
                .collect(),
            in_flight: vec![vec![0; ranks]; servers],
        }
    }

    /// The API server that a request's connection lands on, and the rank that it chooses.
    pub(crate) fn choose(&mut self, replicas: &[Replica], random: &mut Random) -> (usize, usize) {
        let ranks = self.ranks;
        let kept = self.idle.as_mut().and_then(Vec::pop);
        let server = kept.unwrap_or_else(|| random.below(self.starts.len() as u64) as usize);
        let start = self.starts[server];
        self.starts[server] = (start + 1) % ranks;
        let rank = match self.version {
            BalancerVersion::V026 => start,
            BalancerVersion::V027 => {
                let mut best = (f64::INFINITY, start);
                for rank in (0..ranks).map(|offset| (start + offset) % ranks) {
                    let score = self.score(server, rank, &replicas[rank]);
                    if score < best.0 {
                        best = (score, rank);
                    }
                }
                best.1
            }
        };
        self.in_flight[server][rank] += 1;
        (server, rank)
    }

    /// A request that [`Self::choose`] placed has ended.
    pub(crate) fn ended(&mut self, server: usize, rank: usize) {
        self.in_flight[server][rank] -= 1;
        if let Some(idle) = &mut self.idle {
            idle.push(server);
        }
    }

    /// 0.27's score of a rank, as one server sees it; the lowest wins.
    fn score(&self, server: usize, rank: usize, replica: &Replica) -> f64 {
        let waiting = replica.scheduler.waiting() as f64;
        let own = self.starts.len() as f64 * f64::from(self.in_flight[server][rank]);
        let fill = (replica.scheduler.kv_cache_usage() - 0.5).max(0.0);
        own.max(replica.requests() as f64) + 6.0 * waiting * fill
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::scheduler::RequestId;

    fn replicas() -> Vec<Replica> {
        vec![Replica::new(&Profile::named("demo").unwrap()); 4]
    }

    #[test]
    fn up_to_0_26_each_server_goes_round_whatever_the_load() {
        let mut replicas = replicas();
        replicas[0].scheduler.add(RequestId(1), vec![1; 100], 5);
        let mut balancer = Balancer::new(BalancerVersion::V026.into(), 4);
        let mut random = Random::new(1);
        let mut next: Vec<usize> = (0..4).collect();
        for _ in 0..100 {
            let (server, rank) = balancer.choose(&replicas, &mut random);
            assert_eq!(rank, next[server]);
            next[server] = (rank + 1) % 4;
        }
    }

    #[test]
    fn a_kept_connection_stays_with_its_server() {
        let replicas = replicas();
        let balancing = Balancing {
            api_servers: Some(64),
            keeps_connections: true,
            ..BalancerVersion::V026.into()
        };
        let mut balancer = Balancer::new(balancing, 4);
        let mut random = Random::new(1);
        let (server, first) = balancer.choose(&replicas, &mut random);
        for turn in 1..20 {
            balancer.ended(server, (first + turn - 1) % 4);
            let next = balancer.choose(&replicas, &mut random);
            assert_eq!(next, (server, (first + turn) % 4));
        }
        let (other, _) = balancer.choose(&replicas, &mut random);
        assert_ne!(
            other, server,
            "a second connection in flight is another one"
        );
    }

    #[test]
    fn from_0_27_on_the_loaded_rank_is_avoided() {
        let mut replicas = replicas();
        for id in 0..9 {
            replicas[2].scheduler.add(RequestId(id), vec![1; 100], 5);
        }
        let mut balancer = Balancer::new(BalancerVersion::V027.into(), 4);
        let mut random = Random::new(1);
        for _ in 0..40 {
            let (server, rank) = balancer.choose(&replicas, &mut random);
            assert_ne!(rank, 2);
            balancer.ended(server, rank);
        }
    }
}
