//! What outlives a restart, an orderly one and a kill.

use crate::support::{Warden, homes_bytes, until};

/// Enough that each replica is home to some, and chance does not bring them all back.
const SESSIONS: u64 = 8;
/// Least bytes of one home on disk.
const RECORD_BYTES: u64 = 60;

fn turns(warden: &Warden) -> Vec<(String, String)> {
    let turn = |session| {
        warden
            .url
            .turn("demo", &format!("session-{session}"), "hello")
            .went()
    };
    (0..SESSIONS).map(turn).collect()
}

#[test]
fn homes_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let before = turns(&warden);
    let replicas: std::collections::BTreeSet<&String> =
        before.iter().map(|(_, replica)| replica).collect();
    assert!(replicas.len() > 1, "{before:?}");
    until("the homes to be written", || {
        (homes_bytes(directory.path()) >= SESSIONS * RECORD_BYTES).then_some(())
    });
    let engine = warden.engine();
    warden.kill();
    until("the engine to end, too", || {
        (!engine.is_open()).then_some(())
    });

    let warden = Warden::start(directory.path());
    for ((_, home), (route, replica)) in before.iter().zip(turns(&warden)) {
        assert_eq!((route.as_str(), &replica), ("sticky", home));
    }
}

#[test]
fn an_orderly_end_loses_no_home_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let before = turns(&warden);
    assert_eq!(warden.terminate().code(), Some(0));
    let warden = Warden::start(directory.path());
    for ((_, home), (route, replica)) in before.iter().zip(turns(&warden)) {
        assert_eq!((route.as_str(), &replica), ("sticky", home));
    }
}

#[test]
fn a_change_of_routing_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let change = "{\"affinity\": false, \"spill_threshold\": 3}";
    let reply = warden
        .url
        .ask("PATCH /api/v1/models/demo/routing", "", change);
    assert_eq!(reply.status, 200, "{}", reply.body);
    warden.kill();

    let warden = Warden::start(directory.path());
    let routing = &warden.url.get("/api/v1/models/demo")["routing"];
    assert_eq!(
        (&routing["affinity"], &routing["spill_threshold"]["value"]),
        (&false.into(), &3.into())
    );
    assert_eq!(warden.url.turn("demo", "s", "hello").went().0, "balanced");
}

#[test]
fn a_drained_replica_serves_nothing_new_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let home = warden.url.turn("demo", "s", "hello").went().1;
    let path = format!("/api/v1/models/demo/replicas/{home}");
    assert_eq!(
        warden.url.ask(&format!("POST {path}/drain"), "", "").status,
        200
    );
    let (route, moved) = warden.url.turn("demo", "s", "hello").went();
    assert_eq!(route, "moved");
    for (_, replica) in turns(&warden) {
        assert_ne!(replica, home);
    }
    let replicas = &warden.url.get("/api/v1/models/demo")["routing"]["replicas"];
    let number: usize = home.parse().unwrap();
    assert_eq!(replicas[number]["state"], "draining");
    assert_eq!(
        warden
            .url
            .ask(&format!("POST {path}/undrain"), "", "")
            .status,
        200
    );
    assert_eq!(
        warden.url.turn("demo", "s", "hello").went(),
        ("sticky".to_owned(), moved)
    );
}
