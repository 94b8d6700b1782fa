//! kill -9 of the warden and of its engine: while nothing happens, with streams in flight, and while
//! the warden drains. How many streams, and the moment, come from a seed, which a failure names;
//! `LM_WARDEN_SEED=17` replays one, `LM_WARDEN_SEEDS=0..60` runs others than the usual.

use std::{
    io::Read as _,
    net::TcpStream,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::support::{CONFIG, Warden, drawn, homes_bytes, messages, seeds, until};

const SESSIONS: u64 = 5;
/// Least bytes of one home on disk.
const RECORD_BYTES: u64 = 60;
/// What the warden may hold more after its engine's death: the connection that asks, and those that
/// are kept for the next request.
const FILES_MORE_MAX: usize = 4;
/// One for each moment.
const USUAL_SEEDS: Range<u64> = 0..3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Idle,
    Streaming,
    Draining,
}

/// What a seed decides.
struct Plan {
    moment: Moment,
    streams: u64,
    wait: Duration,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let moments = [Moment::Streaming, Moment::Draining, Moment::Idle];
        let moment = moments[(seed % 3) as usize];
        let streams = match moment {
            Moment::Idle => 0,
            Moment::Streaming | Moment::Draining => 1 + drawn(seed, 0, 6),
        };
        Self {
            moment,
            streams,
            wait: Duration::from_millis(drawn(seed, 1, 300)),
        }
    }
}

/// Runs a law for each seed.
fn whatever_the_seed(test: &str, law: impl Fn(&Plan)) {
    for seed in seeds(USUAL_SEEDS) {
        let plan = Plan::of(seed);
        assert!(
            catch_unwind(AssertUnwindSafe(|| law(&plan))).is_ok(),
            "seed {seed} breaks a law; replay: LM_WARDEN_SEED={seed} cargo test -p lm-warden --test it killed::{test}"
        );
    }
}

/// Replicas slow enough that streams are in flight for a while.
fn start(directory: &Path) -> Warden {
    Warden::with(directory, &CONFIG.replace("1000.0", "5.0")).ready()
}

fn went(warden: &Warden, session: u64) -> (String, String) {
    let session = format!("session-{session}");
    // An engine that is started again may not be there yet.
    let reply = until("an answer", || {
        let reply = warden.url.turn("demo", &session, "hello");
        (reply.status == 200).then_some(reply)
    });
    reply.went()
}

/// A warden with conversations on disk, their homes, and streams that have begun, in this moment.
fn brought_to(plan: &Plan, directory: &Path) -> (Warden, Vec<String>, Vec<TcpStream>) {
    let warden = start(directory);
    let homes = (0..SESSIONS).map(|session| went(&warden, session).1);
    let homes = homes.collect();
    until("homes and requests to be written", || {
        let history = warden.url.get("/api/v1/history");
        let written = history["written"] == SESSIONS && history["waiting"] == 0;
        (written && homes_bytes(directory) >= SESSIONS * RECORD_BYTES).then_some(())
    });
    let body = messages("demo", "tell me", true).replace("\"max_tokens\":8", "\"max_tokens\":4000");
    let streams = (0..plan.streams).map(|_| {
        let mut stream = warden.url.send("POST /v1/messages", "", &body);
        stream.read_exact(&mut [0]).unwrap();
        stream
    });
    let streams = streams.collect();
    if plan.moment == Moment::Draining {
        warden.signal(Signal::SIGTERM);
        warden.logged("draining requests=");
    }
    std::thread::sleep(plan.wait);
    (warden, homes, streams)
}

/// What was cut looks cut.
fn nobody_is_deceived(streams: Vec<TcpStream>) {
    for mut stream in streams {
        let mut rest = Vec::new();
        // A reset shows it as well as a missing last chunk does.
        if stream.read_to_end(&mut rest).is_ok() {
            let rest = String::from_utf8_lossy(&rest);
            let is_whole = rest.contains("event: message_stop");
            assert_eq!(rest.ends_with("0\r\n\r\n"), is_whole, "{rest}");
        }
    }
}

/// Every conversation is where it was, and figures count what the list holds: so many requests.
fn all_is_found(directory: &Path, homes: &[String], requests: Range<u64>) {
    let warden = start(directory);
    let listed = warden.url.get("/api/v1/requests?limit=100");
    let listed = listed["requests"].as_array().unwrap().len() as u64;
    assert!(requests.contains(&listed), "{listed} of {requests:?}");
    let history = warden.url.get("/api/v1/history");
    assert_eq!(
        (&history["writable"], &history["set_aside_files"]),
        (&true.into(), &0.into())
    );
    let stats = warden.url.get("/api/v1/stats?range=1h");
    assert_eq!(stats["summary"]["requests"], listed);
    for (session, home) in (0..).zip(homes) {
        let again = went(&warden, session);
        assert_eq!(again, ("sticky".to_owned(), home.clone()));
    }
}

#[test]
fn a_killed_warden_cuts_what_it_served_and_loses_nothing_that_was_written() {
    let test = "a_killed_warden";
    whatever_the_seed(test, |plan| {
        let directory = tempfile::tempdir().unwrap();
        let (mut warden, homes, streams) = brought_to(plan, directory.path());
        let engine = warden.engine();
        warden.kill();
        nobody_is_deceived(streams);
        until("the engine to end, too", || {
            (!engine.is_open()).then_some(())
        });
        let sent = SESSIONS + plan.streams;
        all_is_found(directory.path(), &homes, SESSIONS..sent + 1);
    });
}

#[test]
fn a_killed_engine_costs_what_it_served_and_leaves_nothing_behind() {
    let test = "a_killed_engine";
    whatever_the_seed(test, |plan| {
        let directory = tempfile::tempdir().unwrap();
        let (mut warden, homes, streams) = brought_to(plan, directory.path());
        let (engine, files) = (warden.engine(), warden.open_files());
        warden.kill_children();
        nobody_is_deceived(streams);
        let mut sent = SESSIONS + plan.streams;
        if plan.moment != Moment::Draining {
            until("another engine", || {
                (warden.engine() != engine).then_some(())
            });
            warden.await_state("ready");
            counters_are_exact(&warden, sent);
            until("no descriptor to be left", || {
                (warden.open_files() <= files + FILES_MORE_MAX).then_some(())
            });
            for (session, home) in (0..).zip(&homes) {
                assert_eq!(went(&warden, session), ("sticky".to_owned(), home.clone()));
            }
            sent = warden.counted("lm_warden_requests_total{");
            warden.signal(Signal::SIGTERM);
        }
        assert_eq!(warden.ended().code(), Some(0));
        all_is_found(directory.path(), &homes, sent..sent + 1);
    });
}

fn counters_are_exact(warden: &Warden, sent: u64) {
    until("nothing to be in flight", || {
        (warden.counted("lm_warden_in_flight{") == 0).then_some(())
    });
    assert_eq!(warden.counted("lm_warden_requests_total{"), sent);
}
