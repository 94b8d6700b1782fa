//! Which rank takes a request: the client's `X-data-parallel-rank`, else vLLM's own balancer.
//!
//! vLLM runs several API servers on one port and the kernel spreads connections over them at
//! random; each chooses ranks on its own. Before 0.27, for dense models, each goes round the ranks
//! from a start of its own, blind to load. From 0.27 on it takes the lowest score, the scan start
//! rotating.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use http::HeaderMap;

use crate::{metrics::RankMetrics, random::Random};

/// The header that pins a request to a rank.
pub(crate) const RANK_HEADER: &str = "x-data-parallel-rank";

/// The rank that a request's header asks for. As in vLLM, which reads it with Python's `int`:
/// white space and a plus sign are fine, and what is no integer is ignored.
pub(crate) fn asked_rank(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get(RANK_HEADER)?.to_str().ok()?.trim();
    let valid = !text.contains("__") && !text.ends_with('_') && !text.starts_with('_');
    // Out of i64's range is out of any range of ranks.
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    let is_integer = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    (valid && is_integer).then(|| digits.parse().unwrap_or(i64::MAX))
}

/// The API servers' balancers.
#[derive(Debug)]
pub(crate) struct Balancer {
    by_load: bool,
    seed: u64,
    servers: Vec<ApiServer>,
    connections: AtomicUsize,
}

#[derive(Debug)]
struct ApiServer {
    /// Where its next scan starts.
    start: AtomicUsize,
    /// Its requests in flight, by rank.
    in_flight: Vec<Arc<AtomicUsize>>,
}

/// A request in flight at an API server; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<AtomicUsize>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Balancer {
    pub(crate) fn new(ranks: usize, api_servers: usize, seed: u64, by_load: bool) -> Self {
        let servers = (0..api_servers)
            .map(|index| ApiServer {
                start: AtomicUsize::new(ranks * index / api_servers),
                in_flight: (0..ranks).map(|_| Arc::default()).collect(),
            })
            .collect();
        Self {
            by_load,
            seed,
            servers,
            connections: AtomicUsize::new(0),
        }
    }

    /// The API server that the next connection falls to.
    pub(crate) fn accept(&self) -> usize {
        let connection = self.connections.fetch_add(1, Relaxed) as u64;
        Random::derived(self.seed, connection).below(self.servers.len() as u64) as usize
    }

    /// The rank that this API server chooses.
    pub(crate) fn choose(&self, api_server: usize, ranks: &[Arc<RankMetrics>]) -> usize {
        let server = &self.servers[api_server];
        let start = server.start.fetch_add(1, Relaxed) % ranks.len();
        if !self.by_load {
            return start;
        }
        let score = |rank: usize| {
            let (waiting, running, kv_usage) = ranks[rank].load();
            let own = self.servers.len() * server.in_flight[rank].load(Relaxed);
            let penalty = 6.0 * waiting as f64 * (kv_usage - 0.5).max(0.0);
            own.max(waiting + running) as f64 + penalty
        };
        (0..ranks.len())
            .map(|step| (start + step) % ranks.len())
            .min_by(|one, other| score(*one).total_cmp(&score(*other)))
            .unwrap_or(start)
    }

    /// Counts a request of this API server as in flight at the rank.
    pub(crate) fn ticket(&self, api_server: usize, rank: usize) -> Ticket {
        let counter = Arc::clone(&self.servers[api_server].in_flight[rank]);
        counter.fetch_add(1, Relaxed);
        Ticket(counter)
    }

    /// Requests in flight in all.
    pub(crate) fn in_flight(&self) -> usize {
        let counters = self.servers.iter().flat_map(|server| &server.in_flight);
        counters.map(|counter| counter.load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &str) -> Option<i64> {
        let mut headers = HeaderMap::new();
        headers.insert(RANK_HEADER, value.parse().expect("a header value"));
        asked_rank(&headers)
    }

    #[test]
    fn the_header_is_read_as_python_reads_integers() {
        assert_eq!(asked("1"), Some(1));
        assert_eq!(asked(" 1 "), Some(1));
        assert_eq!(asked("+1"), Some(1));
        assert_eq!(asked("-1"), Some(-1));
        assert_eq!(asked("1_0"), Some(10));
        assert_eq!(asked("99999999999999999999"), Some(i64::MAX));
        for ignored in ["abc", "", "1.0", "0x1", "1 2", "_1", "1_", "+"] {
            assert_eq!(asked(ignored), None, "{ignored:?}");
        }
        assert_eq!(asked_rank(&HeaderMap::new()), None);
    }

    fn idle_ranks(count: usize) -> Vec<Arc<RankMetrics>> {
        (0..count)
            .map(|_| Arc::new(RankMetrics::new(1000)))
            .collect()
    }

    #[test]
    fn each_api_server_goes_round_from_its_own_start() {
        let ranks = idle_ranks(4);
        let balancer = Balancer::new(4, 2, 0, false);
        let choices = |server| [(); 5].map(|()| balancer.choose(server, &ranks));
        assert_eq!(choices(0), [0, 1, 2, 3, 0]);
        assert_eq!(choices(1), [2, 3, 0, 1, 2]);
    }

    #[test]
    fn by_load_a_busy_rank_is_passed_over() {
        let ranks = idle_ranks(3);
        let balancer = Balancer::new(3, 1, 0, true);
        let busy = [balancer.ticket(0, 0), balancer.ticket(0, 1)];
        assert_eq!(
            [(); 3].map(|()| balancer.choose(0, &ranks)),
            [2, 2, 2],
            "only rank 2 is idle"
        );
        drop(busy);
        assert_eq!(balancer.in_flight(), 0);
    }

    #[test]
    fn connections_spread_over_the_api_servers_by_the_seed() {
        let spread = |seed| {
            let balancer = Balancer::new(4, 4, seed, false);
            [(); 64].map(|()| balancer.accept())
        };
        assert_eq!(spread(1), spread(1));
        assert_ne!(spread(1), spread(2));
        for server in 0..4 {
            assert!(spread(1).contains(&server));
        }
    }
}
