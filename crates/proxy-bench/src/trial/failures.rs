//! What a killed and a wedged replica cost, under 20 new sessions a second before four.
//!
//! A session is one streamed request. It counts as lost when it gets an error, or no end within its
//! patience. A reply that breaks off after its first byte because its engine was killed is counted
//! apart: nothing in front of that engine can save it, and its client sees the break and asks again.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    agent::{Ended, Outcome, Pace, turn},
    fleet::Fleet,
    verdict::{Verdict, tell},
};
use crate::{
    body,
    client::{Caller, Connection, Sessions},
};

/// How new sessions arrive.
const RATE_PER_S: u32 = 20;
/// How long a client waits for the end of its reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// A reply: ten events, half a second.
const PACE: Pace = Pace {
    events: 10,
    gap: Duration::from_millis(50),
};
/// Until a replica that serves again gets sessions.
const BACK_S_MAX: f64 = 3.0;
/// Which replicas are killed and wedged.
const KILLED: usize = 1;
const WEDGED: usize = 2;

/// What a session came to, and when.
struct Session {
    began: Instant,
    over: Instant,
    ended: Ended,
}

/// Arguments of `failures`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lm-warden binary to try.
    #[arg(long, default_value = "target/release/lm-warden")]
    warden: PathBuf,
    /// Seconds for which the replica is wedged; before and after it, and around the kill, the trial
    /// runs for as long in proportion.
    #[arg(long, default_value_t = 25)]
    wedge_s: u64,
    /// Tells how long coming back took and does not judge it: on a machine that is busy with other
    /// things, that is what is measured.
    #[arg(long)]
    times_unjudged: bool,
}

/// Runs the trial; fails where a bound is missed.
pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut fleet = Fleet::start(&args.warden).await?;
    let unit = Duration::from_secs(args.wedge_s) / 5;
    let sessions = Arc::new(Mutex::new(Vec::new()));
    let load = tokio::spawn(sessions_arrive(fleet.warden.address, Arc::clone(&sessions)));

    tokio::time::sleep(unit).await;
    let killed = Instant::now();
    fleet.kill(KILLED);
    tokio::time::sleep(2 * unit).await;
    fleet.restart(KILLED).await?;
    let serves_again = Instant::now();
    tokio::time::sleep(2 * unit).await;
    let wedged = Instant::now();
    fleet.wedge(WEDGED)?;
    tokio::time::sleep(5 * unit).await;
    fleet.unwedge(WEDGED)?;
    let moves_again = Instant::now();
    tokio::time::sleep(6 * unit).await;
    load.abort();
    tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;

    let sessions = std::mem::take(&mut *sessions.lock().expect("no panic holds it"));
    let (around_kill, around_wedge): (Vec<Session>, Vec<Session>) = sessions
        .into_iter()
        .partition(|session| session.began + unit < wedged);
    let mut verdict = Verdict::default();
    println!("one of four replicas killed under {RATE_PER_S} new sessions/s");
    told(&around_kill);
    verdict.at_most("  lost", lost(&around_kill), 0.0);
    let back = back_after(&around_kill, KILLED, serves_again);
    back_in(&mut verdict, "it serves", back, args.times_unjudged);
    let during = around_kill.iter().filter(|s| s.began >= killed).count();
    tell("  sessions since the kill", &during.to_string());
    println!("one of four replicas wedged for {} s", args.wedge_s);
    told(&around_wedge);
    let percent = 100.0 * lost(&around_wedge) / around_wedge.len().max(1) as f64;
    verdict.at_most("  lost, percent", percent, 1.0);
    let back = back_after(&around_wedge, WEDGED, moves_again);
    back_in(&mut verdict, "it moves", back, args.times_unjudged);
    Ok(verdict.exit_code())
}

async fn sessions_arrive(warden: SocketAddr, sessions: Arc<Mutex<Vec<Session>>>) {
    let body = body::messages(1_000, true);
    let callers = Sessions::new(usize::MAX);
    let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE_PER_S);
    for number in 0.. {
        tick.tick().await;
        let (body, sessions) = (body.clone(), Arc::clone(&sessions));
        let caller = callers.caller(number);
        tokio::spawn(async move {
            let session = session(warden, &caller, &body).await;
            sessions.lock().expect("no panic holds it").push(session);
        });
    }
}

async fn session(warden: SocketAddr, caller: &Caller, body: &Bytes) -> Session {
    let began = Instant::now();
    let asked = async {
        let Ok(mut connection) = Connection::open(warden).await else {
            return Ended {
                outcome: Outcome::Dropped,
                first_byte: None,
                replica: None,
            };
        };
        turn(&mut connection, caller, body, PACE, None).await
    };
    let ended = tokio::time::timeout(PATIENCE, asked).await;
    Session {
        began,
        over: Instant::now(),
        ended: ended.unwrap_or(Ended {
            outcome: Outcome::TooLong,
            first_byte: None,
            replica: None,
        }),
    }
}

fn told(sessions: &[Session]) {
    let mut outcomes = BTreeMap::<Outcome, usize>::new();
    for session in sessions {
        *outcomes.entry(session.ended.outcome).or_default() += 1;
    }
    for (outcome, count) in outcomes {
        tell(&format!("  {outcome:?}"), &count.to_string());
    }
}

fn lost(sessions: &[Session]) -> f64 {
    let kept =
        |session: &&Session| matches!(session.ended.outcome, Outcome::Complete | Outcome::Cut);
    (sessions.len() - sessions.iter().filter(kept).count()) as f64
}

/// A replica that never comes back is a fault on any machine.
fn back_in(verdict: &mut Verdict, since: &str, seconds: f64, is_unjudged: bool) {
    let max = if is_unjudged { f64::MAX } else { BACK_S_MAX };
    verdict.at_most(
        &format!("  back in rotation after {since} again, s"),
        seconds,
        max,
    );
}

/// Seconds until a session that began since then was served by the replica.
fn back_after(sessions: &[Session], replica: usize, since: Instant) -> f64 {
    let served = sessions.iter().filter(|session| {
        session.began >= since
            && session.ended.replica == Some(replica)
            && session.ended.outcome == Outcome::Complete
    });
    let first = served
        .map(|session| {
            session
                .over
                .min(session.began + session.ended.first_byte.unwrap_or_default())
        })
        .min();
    first.map_or(f64::INFINITY, |first| {
        first.duration_since(since).as_secs_f64()
    })
}
