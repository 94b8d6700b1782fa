//! The measurements: CPU time in a closed loop, time to first byte in an open one, memory by session.
//!
//! CPU: a block of requests for one target after the other, round after round. TTFB: one schedule in
//! which every tick belongs to the next target, so that all see the same machine; each gets 20
//! requests a second, as a house full of agents would send. Memory: a request of each of many
//! sessions, several times over; what still grows after the first pass is no table but a leak.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::body;
use crate::client::{Caller, Connection, Sessions};
use crate::target::Target;

/// Agents that send at once in the closed loop.
const CONNECTIONS: usize = 8;
/// Sessions that the CPU and TTFB measurements rotate through.
const SESSIONS: usize = 200;
const RATE_PER_S: u32 = 20;
/// Requests of each session in the memory measurement.
const PASSES: usize = 5;

/// How much to measure.
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) ttfb_s: u64,
    pub(crate) sessions: usize,
}

/// Everything that was measured, as it goes into the JSON file.
#[derive(Serialize)]
pub(crate) struct Results {
    pub(crate) cells: Vec<Cell>,
    pub(crate) memory: Vec<Memory>,
}

/// One target with one size and kind of request.
#[derive(Serialize)]
pub(crate) struct Cell {
    pub(crate) target: &'static str,
    pub(crate) body_bytes: usize,
    pub(crate) stream: bool,
    /// User and system time of the proxy; null without one.
    pub(crate) cpu_s_per_1000_requests: Option<f64>,
    pub(crate) ttfb_ms_p50: f64,
    pub(crate) ttfb_ms_p99: f64,
    pub(crate) ttfb_samples: usize,
}

/// A proxy's resident memory before any session, and after each pass over all of them.
#[derive(Serialize)]
pub(crate) struct Memory {
    pub(crate) target: &'static str,
    pub(crate) sessions: usize,
    pub(crate) rss_bytes_before: u64,
    pub(crate) rss_bytes_after_pass: Vec<u64>,
}

struct Shape {
    /// A conversation's turns.
    bodies: Vec<Bytes>,
    stream: bool,
    /// Requests of one block of the CPU measurement: some tenths of a second of a proxy's time.
    block: usize,
}

pub(crate) async fn run(plan: &Plan, targets: &[Target]) -> anyhow::Result<Results> {
    let shapes: Vec<Shape> = [(1_000, 4_000), (200_000, 1_500), (1_000_000, 300)]
        .into_iter()
        .flat_map(|(size, block)| {
            [false, true].map(|stream| Shape {
                bodies: body::turns(size, stream),
                stream,
                block,
            })
        })
        .collect();
    let memory = memory(plan, targets).await?;
    let cpu = cpu(plan, targets, &shapes).await?;
    let mut cells = Vec::new();
    for (shape, cpu_s) in shapes.iter().zip(cpu) {
        let ttfb = ttfb(plan, targets, shape).await?;
        for ((target, cpu_s), mut ttfb_ms) in targets.iter().zip(cpu_s).zip(ttfb) {
            ttfb_ms.sort_by(f64::total_cmp);
            cells.push(Cell {
                target: target.name,
                body_bytes: shape.bodies[0].len(),
                stream: shape.stream,
                cpu_s_per_1000_requests: cpu_s,
                ttfb_ms_p50: percentile(&ttfb_ms, 50),
                ttfb_ms_p99: percentile(&ttfb_ms, 99),
                ttfb_samples: ttfb_ms.len(),
            });
        }
    }
    Ok(Results { cells, memory })
}

/// CPU-seconds per 1,000 requests: for each shape, for each target.
async fn cpu(
    plan: &Plan,
    targets: &[Target],
    shapes: &[Shape],
) -> anyhow::Result<Vec<Vec<Option<f64>>>> {
    let sessions = Sessions::new(SESSIONS);
    let mut used_s = vec![vec![0.0; targets.len()]; shapes.len()];
    for round in 0..plan.rounds {
        eprintln!("CPU: round {} of {}", round + 1, plan.rounds);
        for (shape, used_s) in shapes.iter().zip(&mut used_s) {
            for (target, used_s) in targets.iter().zip(used_s) {
                let Some(process) = &target.process else {
                    continue;
                };
                closed_loop(target.address, &shape.bodies, 100, &sessions).await?;
                let before = process.cpu_s()?;
                closed_loop(target.address, &shape.bodies, shape.block, &sessions).await?;
                *used_s += process.cpu_s()? - before;
            }
        }
    }
    let per_1000 = |shape: &Shape, used_s: f64, target: &Target| {
        target.process.as_ref()?;
        Some(used_s * 1_000.0 / (shape.block * plan.rounds) as f64)
    };
    Ok(shapes
        .iter()
        .zip(used_s)
        .map(|(shape, used_s)| {
            targets
                .iter()
                .zip(used_s)
                .map(|(target, s)| per_1000(shape, s, target))
                .collect()
        })
        .collect())
}

/// Sends `requests` turns, every session's in order, over a few connections: each sends the next as
/// soon as it has its reply.
pub(crate) async fn closed_loop(
    address: SocketAddr,
    bodies: &[Bytes],
    requests: usize,
    sessions: &Sessions,
) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut agents = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (next, bodies, sessions) = (Arc::clone(&next), bodies.to_vec(), sessions.clone());
        agents.spawn(async move {
            let mut connection = Connection::open(address).await?;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= requests {
                    return anyhow::Ok(());
                }
                let body = turn(&bodies, n, sessions.count());
                connection.turn(&sessions.caller(n), body).await?;
            }
        });
    }
    while let Some(agent) = agents.join_next().await {
        agent??;
    }
    Ok(())
}

/// What request `n` sends: every session's first turn, then every session's second.
fn turn(bodies: &[Bytes], n: usize, sessions: usize) -> &Bytes {
    &bodies[n / sessions % bodies.len()]
}

/// Times to first byte in ms, for each target, sampled in turn.
async fn ttfb(plan: &Plan, targets: &[Target], shape: &Shape) -> anyhow::Result<Vec<Vec<f64>>> {
    let bytes = shape.bodies[0].len();
    eprintln!("TTFB: {bytes} bytes, {}", kind(shape.stream));
    let pools: Vec<Arc<Pool>> = targets
        .iter()
        .map(|target| Arc::new(Pool::new(target.address)))
        .collect();
    let sessions = Sessions::new(SESSIONS);
    let ticks = plan.ttfb_s as usize * RATE_PER_S as usize * targets.len();
    let mut tick =
        tokio::time::interval(Duration::from_secs(1) / RATE_PER_S / targets.len() as u32);
    let mut requests = JoinSet::new();
    for n in 0..ticks {
        tick.tick().await;
        let (at, pool) = (n % targets.len(), Arc::clone(&pools[n % targets.len()]));
        let body = turn(&shape.bodies, n, SESSIONS).clone();
        let caller = sessions.caller(n);
        requests.spawn(async move { anyhow::Ok((at, pool.turn(&caller, &body).await?)) });
    }
    let mut times_ms = vec![Vec::new(); targets.len()];
    while let Some(done) = requests.join_next().await {
        let (at, first_byte) = done??;
        times_ms[at].push(first_byte.as_secs_f64() * 1_000.0);
    }
    Ok(times_ms)
}

/// Idle connections to one target: in an open loop a request must not wait for another's reply.
struct Pool {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            idle: Mutex::default(),
        }
    }

    async fn turn(&self, caller: &Caller, body: &Bytes) -> anyhow::Result<Duration> {
        let idle = self.idle.lock().await.pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let timing = connection.turn(caller, body).await?;
        self.idle.lock().await.push(connection);
        Ok(timing.first_byte)
    }
}

async fn memory(plan: &Plan, targets: &[Target]) -> anyhow::Result<Vec<Memory>> {
    let bodies = body::turns(1_000, false);
    let mut results = Vec::new();
    for target in targets {
        let Some(process) = &target.process else {
            continue;
        };
        eprintln!("memory: {} sessions through {}", plan.sessions, target.name);
        // Buffers and pools reach their size before the first reading.
        closed_loop(target.address, &bodies, 2_000, &Sessions::new(1)).await?;
        let rss_bytes_before = process.rss_bytes()?;
        let sessions = Sessions::new(plan.sessions);
        let mut rss_bytes_after_pass = Vec::new();
        for _ in 0..PASSES {
            closed_loop(target.address, &bodies, plan.sessions, &sessions).await?;
            rss_bytes_after_pass.push(process.rss_bytes()?);
        }
        results.push(Memory {
            target: target.name,
            sessions: plan.sessions,
            rss_bytes_before,
            rss_bytes_after_pass,
        });
    }
    Ok(results)
}

/// The value below which `percent` of the sorted samples lie; 0 without any.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or(0.0)
}

pub(crate) fn kind(stream: bool) -> &'static str {
    if stream { "streamed" } else { "plain" }
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_a_sample() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 50).to_bits(), 50.0_f64.to_bits());
        assert_eq!(percentile(&sorted, 99).to_bits(), 99.0_f64.to_bits());
        assert_eq!(percentile(&[], 50).to_bits(), 0.0_f64.to_bits());
    }
}
