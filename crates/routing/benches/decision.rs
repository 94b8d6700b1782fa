//! One decision among 64 replicas with 1,000,000 conversations, and what a conversation costs.
//!
//! Decisions are timed in batches and released outside the timing, so that the figures are those
//! of `Router::route` alone. The median batch counts: a batch is so short that few see another
//! process take the core, whose time is not the decision's. Conversations are visited in a
//! scattered order: in service, the next one to speak is not the one that the processor's cache
//! happens to hold.

mod support;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use routing::{
    Candidates, Event, Gauges, Identity, OwnerId, ReplicaIndex, ReplicaSpec, Request, Router, Seed,
    Settings, Steering, Ticket, Time,
};

const REPLICAS: u16 = 64;
const CONVERSATIONS: usize = 1_000_000;
/// Decisions timed in one go; as many requests are in flight at most.
const BATCH: u64 = 256;
/// Memory that one conversation may cost, in bytes.
const BYTES_PER_CONVERSATION_MAX: usize = 300;

/// Identities of this many conversations of several owners, made as the gateway makes them.
fn requests(count: usize) -> Vec<Request> {
    let request = |number| support::request(number, 200_000, 50_000, (number % 5) as u64);
    (0..count).map(request).collect()
}

/// A router with its table full, its replicas' caches known and their gauges fresh.
fn full_router(requests: &[Request]) -> (Router, Time) {
    let settings = Settings {
        affinity: true,
        spill_threshold: Some(64),
        max_num_seqs: 256,
        steering: Steering::Urls,
        session_idle: Duration::from_secs(3600),
        conversations_max: CONVERSATIONS,
        leases: routing::LeaseSettings::default(),
    };
    let specs = (0..REPLICAS).map(|index| ReplicaSpec {
        id: format!("http://10.0.0.{index}:8000"),
        kv_tokens: Some(40_000_000_000),
        host: None,
    });
    let mut now = Time(1_000_000_000);
    let mut router = Router::new(settings, specs.collect(), now);
    for request in requests {
        // All within the time that they count as active: the most that there can be to keep.
        now = now.plus(Duration::from_micros(100));
        let decision = router.route(now, request).expect("all replicas are up");
        router.observe(now, Event::Finished(decision.ticket, None));
    }
    for index in 0..REPLICAS {
        let gauges = Gauges {
            running: u32::from(index) % 3,
            waiting: 0,
            kv_cache_usage: 0.5,
            tokens_total: 1,
        };
        router.observe(now, Event::Scraped(ReplicaIndex(index), gauges));
    }
    (router, now)
}

/// Resident memory of this process; 0 where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures memory")]
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}

/// Times `route` for requests picked by `pick` from their running number.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn time_decisions(
    router: &mut Router,
    now: &mut Time,
    decisions: u64,
    pick: &mut impl FnMut() -> Request,
) -> Duration {
    let mut times: Vec<Duration> = Vec::new();
    let mut left = decisions;
    while left > 0 {
        let batch: Vec<Request> = (0..left.min(BATCH)).map(|_| pick()).collect();
        let mut tickets: Vec<Ticket> = Vec::with_capacity(batch.len());
        let start = std::time::Instant::now();
        for request in &batch {
            now.0 += 10;
            let decision = router.route(*now, request).expect("all replicas are up");
            tickets.push(black_box(decision).ticket);
        }
        times.push(start.elapsed() / batch.len() as u32);
        for ticket in tickets {
            router.observe(*now, Event::Finished(ticket, None));
        }
        left -= left.min(BATCH);
    }
    times.sort_unstable();
    times[times.len() / 2].mul_f64(decisions as f64)
}

fn decision(criterion: &mut Criterion) {
    let known = requests(CONVERSATIONS);
    let before_bytes = resident_bytes();
    let (mut router, mut now) = full_router(&known);
    let counted = router.memory_bytes() / CONVERSATIONS;
    let resident = (resident_bytes() - before_bytes) / CONVERSATIONS;
    println!(
        "memory per conversation: {counted} bytes by capacity, {resident} resident, \
         of at most {BYTES_PER_CONVERSATION_MAX}"
    );
    assert!(counted.max(resident) <= BYTES_PER_CONVERSATION_MAX);

    let mut group = criterion.benchmark_group("decision/64 replicas, 1,000,000 conversations");
    let mut number = 0;
    // A stride that shares no factor with the count visits all, none near the last.
    let mut sticky = || {
        number = (number + 617_647) % CONVERSATIONS;
        known[number]
    };
    group.bench_function(BenchmarkId::from_parameter("known"), |bencher| {
        bencher.iter_custom(|n| time_decisions(&mut router, &mut now, n, &mut sticky));
    });
    let strangers = requests(2 * CONVERSATIONS).split_off(CONVERSATIONS);
    let mut number = 0;
    // The table holds the last million, so by the time one comes again it has been forgotten.
    let mut new = || {
        number = (number + 1) % CONVERSATIONS;
        strangers[number]
    };
    group.bench_function(BenchmarkId::from_parameter("new, table full"), |bencher| {
        bencher.iter_custom(|n| time_decisions(&mut router, &mut now, n, &mut new));
    });
    router.configure(Settings {
        spill_threshold: Some(0),
        ..router.settings().clone()
    });
    // Everything lives on one replica, which is over its threshold.
    let crowd = requests(2 * CONVERSATIONS + 100).split_off(2 * CONVERSATIONS);
    for request in &crowd {
        let decision = router.route(now, request).expect("all replicas are up");
        router.observe(now, Event::Finished(decision.ticket, None));
        let identity = request.identity.expect("an id was sent");
        router.move_conversation(now, identity.conversation, ReplicaIndex(0));
    }
    let mut number = 0;
    let mut spilling = || {
        number = (number + 1) % crowd.len();
        crowd[number]
    };
    group.bench_function(
        BenchmarkId::from_parameter("over the threshold"),
        |bencher| {
            bencher.iter_custom(|n| time_decisions(&mut router, &mut now, n, &mut spilling));
        },
    );
    group.finish();
}

fn identity(criterion: &mut Criterion) {
    let id = *b"3fe796ef-ae22-4c8c-9f5a-541a585a9d7b";
    let ids = Candidates {
        claude_code_session_id: Some(&id),
        claude_code_agent_id: Some(&id),
        ..Candidates::default()
    };
    criterion.bench_function("identity", |bencher| {
        bencher.iter(|| Identity::of(&Seed([1; 16]), OwnerId(1), "demo", black_box(&ids)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(50)
        .measurement_time(Duration::from_secs(3));
    targets = decision, identity
}
criterion_main!(benches);
