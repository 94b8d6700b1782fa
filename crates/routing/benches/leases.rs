//! One decision with 10,000 waiting among 64 replicas, and what leases cost where nothing is
//! contended.
//!
//! The queue is that of a farm far over its capacity: every replica holds as many conversations as
//! fit, and each end of a turn may let one in. Each measured step is a whole one: a request that
//! comes and is told to wait, or a turn that ends, per request that is let in by that. The bound for
//! either is 5 microseconds on an otherwise idle core.

mod support;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use routing::{
    Admission, Event, Grant, LeaseMode, LeaseRule, LeaseSettings, ReplicaSpec, Request, Router,
    Settings, Steering, Ticket, Time, Usage,
};

const REPLICAS: u16 = 64;
const WAITING: usize = 10_000;

fn request(number: usize) -> Request {
    support::request(number, 40_000, 4_000, 1)
}

fn router(mode: LeaseMode, switches: bool) -> Router {
    let settings = Settings {
        affinity: true,
        spill_threshold: None,
        max_num_seqs: 32,
        steering: Steering::Urls,
        session_idle: Duration::from_secs(3600),
        conversations_max: 100_000,
        leases: LeaseSettings {
            mode,
            // Nobody is refused, however long the queue.
            queue_wait_max: Duration::from_secs(1_000_000),
            rule: LeaseRule {
                switches,
                ..LeaseRule::default()
            },
            ..LeaseSettings::default()
        },
    };
    let specs = (0..REPLICAS).map(|index| ReplicaSpec {
        id: format!("http://10.0.0.{index}:8000"),
        kv_tokens: Some(40_000),
        host: None,
    });
    Router::new(settings, specs.collect(), Time(1_000_000_000))
}

const USAGE: Usage = Usage {
    prompt_tokens: 10_000,
    cached_tokens: Some(9_000),
    completion_tokens: 100,
};

/// A farm with its places taken and its queue full.
struct Farm {
    router: Router,
    now: Time,
    flying: std::collections::VecDeque<Ticket>,
    arrivals: usize,
    waiting: usize,
}

impl Farm {
    fn full() -> Self {
        let mut farm = Self {
            router: router(LeaseMode::Auto, false),
            now: Time(2_000_000_000),
            flying: std::collections::VecDeque::new(),
            arrivals: 0,
            waiting: 0,
        };
        farm.arrive();
        farm.finish();
        farm.fill();
        farm
    }

    fn fill(&mut self) {
        while self.waiting < WAITING {
            self.arrive();
        }
    }

    fn arrive(&mut self) {
        self.now.0 += 10;
        self.arrivals += 1;
        match self.router.admit(self.now, &request(self.arrivals)) {
            Ok(Admission::Go(decision)) => self.flying.push_back(decision.ticket),
            Ok(Admission::Wait(_)) => self.waiting += 1,
            Err(refusal) => panic!("nobody is refused: {refusal}"),
        }
    }

    /// The oldest turn ends; who is let in by that flies.
    fn finish(&mut self) {
        self.now.0 += 1_000;
        if let Some(ticket) = self.flying.pop_front() {
            self.router
                .observe(self.now, Event::Finished(ticket, Some(USAGE)));
        }
        self.take_grants();
    }

    fn take_grants(&mut self) {
        let grants = self.router.advance(self.now);
        self.take(&grants);
    }

    fn take(&mut self, grants: &[Grant]) {
        self.waiting -= grants.len();
        let let_in = grants.iter().filter(|grant| grant.decision.is_ok());
        self.flying.extend(let_in.map(|grant| grant.ticket));
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed(step: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    step();
    start.elapsed()
}

fn contended(criterion: &mut Criterion) {
    let mut farm = Farm::full();
    let mut group = criterion.benchmark_group("10,000 waiting, 64 replicas");
    group.bench_function("a request comes and waits", |bencher| {
        bencher.iter_custom(|n| {
            let mut total = Duration::ZERO;
            for _ in 0..n {
                let request = request(farm.arrivals + 1);
                farm.arrivals += 1;
                farm.now.0 += 10;
                let mut ticket = None;
                total += timed(|| {
                    if let Ok(Admission::Wait(wait)) = farm.router.admit(farm.now, &request) {
                        ticket = Some(black_box(wait).ticket);
                    }
                });
                if let Some(ticket) = ticket {
                    farm.router.observe(farm.now, Event::Aborted(ticket));
                    farm.take_grants();
                }
            }
            total
        });
    });
    group.bench_function("a turn ends and another is let in", |bencher| {
        bencher.iter_custom(|n| {
            let mut total = Duration::ZERO;
            let mut decisions = 0;
            while decisions < n {
                // Long enough that whoever is silent has lost its place.
                farm.now.0 += 2_000_000;
                farm.take_grants();
                let Some(ticket) = farm.flying.pop_front() else {
                    break;
                };
                let mut grants = Vec::new();
                total += timed(|| {
                    farm.router
                        .observe(farm.now, Event::Finished(ticket, Some(USAGE)));
                    farm.now.0 += 3_000_000;
                    grants = black_box(farm.router.advance(farm.now));
                });
                decisions += grants.len().max(1) as u64;
                farm.take(&grants);
                farm.fill();
            }
            total
        });
    });
    group.finish();
}

/// Decisions timed in one go; as many requests are in flight at most.
const BATCH: u64 = 256;

/// A router on which nothing is contended, and the turns of 1000 conversations in a round.
struct Uncontended {
    router: Router,
    now: Time,
    requests: Vec<Request>,
    number: usize,
}

impl Uncontended {
    fn new(mode: LeaseMode) -> Self {
        Self {
            router: router(mode, true),
            now: Time(2_000_000_000),
            requests: (0..1000).map(request).collect(),
            number: 0,
        }
    }

    fn decide(&mut self) -> Option<Ticket> {
        self.number = (self.number + 1) % self.requests.len();
        self.now.0 += 1000;
        match self.router.admit(self.now, &self.requests[self.number]) {
            Ok(Admission::Go(decision)) => Some(decision.ticket),
            _ => None,
        }
    }

    fn finish(&mut self, ticket: Ticket) {
        self.router
            .observe(self.now, Event::Finished(ticket, Some(USAGE)));
    }
}

/// What a request waits for on its way in: the decision alone, turns end outside of the timing.
fn uncontended_decision(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a decision while nothing is contended");
    for (name, mode) in [("off", LeaseMode::Off), ("auto", LeaseMode::Auto)] {
        let mut idle = Uncontended::new(mode);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|n| {
                let mut total = Duration::ZERO;
                let mut left = n;
                while left > 0 {
                    let batch = left.min(BATCH);
                    let mut tickets = Vec::with_capacity(batch as usize);
                    total += timed(|| {
                        for _ in 0..batch {
                            tickets.extend(black_box(idle.decide()));
                        }
                    });
                    for ticket in tickets {
                        idle.finish(ticket);
                    }
                    left -= batch;
                }
                total
            });
        });
    }
    group.finish();
}

fn uncontended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a turn while nothing is contended");
    for (name, mode) in [("off", LeaseMode::Off), ("auto", LeaseMode::Auto)] {
        let mut idle = Uncontended::new(mode);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                if let Some(ticket) = idle.decide() {
                    idle.finish(ticket);
                }
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .measurement_time(Duration::from_secs(3));
    targets = contended, uncontended_decision, uncontended
}
criterion_main!(benches);
