//! A long, full and unkind day: thousands of slow streams, as many conversations as a house has in
//! weeks, clients that leave in mid-stream, engines that die. What must come of it: flat memory, flat
//! descriptors, counters that agree with what the clients saw, nothing left in flight.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    slice,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{
    agent::{Outcome, Pace, turn},
    fleet::{Fleet, REPLICAS},
    metrics::Metrics,
    samples::Samples,
    verdict::{Verdict, tell},
};
use crate::{
    body,
    client::{Connection, Sessions},
    measure::{closed_loop, percentile},
};

/// The client's, the engine's, and one of either that is being closed: a busy machine is slow to tell
/// the warden that a client has left. One kept per request would be ten times as many in a minute.
const DESCRIPTORS_PER_STREAM_MAX: usize = 3;
/// Descriptors that may be left more than before: the pool's idle connections, soon gone too.
const DESCRIPTORS_LEFT_MAX: f64 = 16.0;
/// Who the conversations belong to: one owner alone may fill half of the warden's table.
const OWNERS: usize = 4;
/// From one sample to the next.
const SAMPLE: Duration = Duration::from_secs(1);
/// Until idle connections are closed and what is left has ended.
const SETTLE: Duration = Duration::from_secs(12);

/// Arguments of `soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lm-warden binary to try.
    #[arg(long, default_value = "target/release/lm-warden")]
    warden: PathBuf,
    /// How long the full load lasts.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Streams at a time, of at most 5 events a second each.
    #[arg(long, default_value_t = 2_000)]
    streams: usize,
    /// Conversations of four owners, each of which speaks at least once.
    #[arg(long, default_value_t = 100_000)]
    conversations: usize,
    /// Writes each sample of memory and descriptors here as it is taken, as CSV.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// What leaves and dies when is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    outcomes: Mutex<BTreeMap<Outcome, u64>>,
    next: AtomicUsize,
    ttfb_ms: Mutex<Vec<f64>>,
}

/// What the probes measured.
#[derive(Default)]
struct Probes {
    through_ms: Vec<f64>,
    direct_ms: Vec<f64>,
    /// Through the warden.
    sent: u64,
}

/// Runs the trial; fails where a bound is missed.
pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut fleet = Fleet::start(&args.warden).await?;
    let warden = fleet.warden.address;
    let process = fleet.warden.process.as_ref().context("a process")?;
    let descriptors_before = process.open_files()?;
    let keys = fleet.make_keys(&args.warden, OWNERS).await?;
    let sessions = Sessions::of(keys, args.conversations);
    // Each conversation speaks once, so that the table is full before memory is looked at.
    let short = body::messages(1_000, false);
    closed_loop(warden, slice::from_ref(&short), sessions.count(), &sessions).await?;
    let counted_before = Metrics::of(warden)
        .await?
        .sum("lm_warden_requests_total", "");

    let seen = Arc::new(Seen::default());
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let mut clients = JoinSet::new();
    let stream = body::messages(2_000, true);
    for number in 0..args.streams {
        let (seen, body) = (Arc::clone(&seen), stream.clone());
        let dice = Dice(args.seed.wrapping_add(number as u64));
        let sessions = sessions.clone();
        clients.spawn(async move { client(warden, (body, sessions), dice, deadline, &seen).await });
    }
    let probes = tokio::spawn(probe(warden, fleet.addresses[0], deadline));
    let mut samples = Samples::into(args.samples.as_deref())?;
    misfortune(&mut fleet, args.seed, deadline, &mut samples).await?;
    while let Some(client) = clients.join_next().await {
        client?;
    }
    let probes = probes.await?;
    tokio::time::sleep(SETTLE).await;

    let mut verdict = Verdict::default();
    let process = fleet.warden.process.as_ref().context("a process")?;
    samples.judge(&mut verdict);
    let most = descriptors_before + DESCRIPTORS_PER_STREAM_MAX * args.streams + 256;
    let descriptors_max = samples.descriptors_max();
    verdict.at_most("descriptors at most", descriptors_max, most as f64);
    let left = process.open_files()?.saturating_sub(descriptors_before);
    verdict.at_most("descriptors left over", left as f64, DESCRIPTORS_LEFT_MAX);
    counters(&mut verdict, warden, &seen, (counted_before, probes.sent)).await?;
    latency(&seen, probes);
    Ok(verdict.exit_code())
}

/// Streams, one after the other, until the deadline; then the last one ends.
async fn client(
    warden: SocketAddr,
    (body, sessions): (Bytes, Sessions),
    mut dice: Dice,
    deadline: Instant,
    seen: &Seen,
) {
    // They do not all begin at once, which no house of agents does.
    tokio::time::sleep(Duration::from_millis(dice.below(5_000))).await;
    let mut kept = None;
    while Instant::now() < deadline {
        let connection = match kept.take() {
            Some(connection) => Some(connection),
            None => Connection::open(warden).await.ok(),
        };
        let Some(mut connection) = connection else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let caller = sessions.caller(seen.next.fetch_add(1, Ordering::Relaxed));
        let pace = Pace {
            events: 5 + dice.below(40) as usize,
            gap: Duration::from_millis(200 + dice.below(300)),
        };
        let leaves = (dice.below(5) == 0).then(|| 1 + dice.below(2_000) as usize);
        let ended = turn(&mut connection, &caller, &body, pace, leaves).await;
        if let Some(first_byte) = ended.first_byte {
            let mut ttfb_ms = seen.ttfb_ms.lock().expect("no panic holds it");
            ttfb_ms.push(first_byte.as_secs_f64() * 1_000.0);
        }
        let mut outcomes = seen.outcomes.lock().expect("no panic holds it");
        *outcomes.entry(ended.outcome).or_default() += 1;
        drop(outcomes);
        if ended.outcome == Outcome::Complete {
            kept = Some(connection);
        }
    }
}

/// Kills engines and starts them again until the deadline, the first one excepted (it is probed
/// directly), and samples the warden meanwhile.
async fn misfortune(
    fleet: &mut Fleet,
    seed: u64,
    deadline: Instant,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let mut dice = Dice(seed ^ 0xdead);
    let mut dead: Option<usize> = None;
    while Instant::now() < deadline {
        for _ in 0..2 + dice.below(6) {
            tokio::time::sleep(SAMPLE).await;
            let process = fleet.warden.process.as_ref().context("a process")?;
            samples.take(process)?;
        }
        if let Some(replica) = dead.take() {
            fleet.restart(replica).await?;
        } else {
            let replica = 1 + dice.below(REPLICAS as u64 - 1) as usize;
            fleet.kill(replica);
            dead = Some(replica);
        }
    }
    if let Some(replica) = dead {
        fleet.restart(replica).await?;
    }
    Ok(())
}

/// Times to first byte through the warden and at an engine itself, in turn, ten a second each.
///
/// Gives back how many went through the warden, too.
async fn probe(warden: SocketAddr, engine: SocketAddr, deadline: Instant) -> Probes {
    let body = body::messages(1_000, false);
    // A conversation that nobody owns.
    let caller = Sessions::new(1).caller(0);
    let mut probes = Probes::default();
    while Instant::now() < deadline {
        let both = [
            (warden, &mut probes.through_ms),
            (engine, &mut probes.direct_ms),
        ];
        for (at, times_ms) in both {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let Ok(mut connection) = Connection::open(at).await else {
                continue;
            };
            probes.sent += u64::from(at == warden);
            if let Ok(timing) = connection.turn(&caller, &body).await {
                times_ms.push(timing.first_byte.as_secs_f64() * 1_000.0);
            }
        }
    }
    probes
}

async fn counters(
    verdict: &mut Verdict,
    warden: SocketAddr,
    seen: &Seen,
    sent_besides: (u64, u64),
) -> anyhow::Result<()> {
    let outcomes = seen.outcomes.lock().expect("no panic holds it").clone();
    for (outcome, count) in &outcomes {
        tell(
            &format!("streams that ended as {outcome:?}"),
            &count.to_string(),
        );
    }
    let metrics = Metrics::of(warden).await?;
    let sent: u64 = outcomes.values().sum();
    let (counted_before, probes) = sent_besides;
    let counted = metrics.sum("lm_warden_requests_total", "") - counted_before;
    verdict.same("requests counted, and sent", counted, sent + probes);
    verdict.same(
        "in flight at the end",
        metrics.sum("lm_warden_in_flight", ""),
        0,
    );
    Ok(())
}

fn latency(seen: &Seen, probes: Probes) {
    let (mut through, mut direct) = (probes.through_ms, probes.direct_ms);
    through.sort_by(f64::total_cmp);
    direct.sort_by(f64::total_cmp);
    for percent in [50, 99] {
        let added = percentile(&through, percent) - percentile(&direct, percent);
        tell(
            &format!("added TTFB p{percent}, ms"),
            &format!("{added:.2}"),
        );
    }
    let mut ttfb_ms = seen.ttfb_ms.lock().expect("no panic holds it").clone();
    ttfb_ms.sort_by(f64::total_cmp);
    tell(
        "TTFB of the streams p99, ms",
        &format!("{:.2}", percentile(&ttfb_ms, 99)),
    );
}

/// Choices from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
