//! What outlives a restart, an orderly one and a kill.

use crate::support::{EngineProcess, Warden, homes_bytes, until};

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

/// Ids of requests of one turn of each session.
fn request_ids(warden: &Warden) -> Vec<String> {
    let id = |session| {
        let reply = warden
            .url
            .turn("demo", &format!("session-{session}"), "hello");
        reply.went();
        reply.header("x-lm-warden-request-id").to_owned()
    };
    (0..SESSIONS).map(id).collect()
}

#[test]
fn a_kill_costs_no_request_that_was_written_and_leaves_lists_and_figures_in_step() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let written = request_ids(&warden);
    // Nothing here asks for a write: it comes by itself, several times a second.
    until("the requests to be written", || {
        let history = warden.url.get("/api/v1/history");
        (history["written"] == SESSIONS && history["waiting"] == 0).then_some(())
    });
    let unsure = request_ids(&warden);
    warden.kill();

    let warden = Warden::start(directory.path());
    let requests = warden.url.get("/api/v1/requests?limit=100");
    let requests = requests["requests"].as_array().unwrap();
    let found: Vec<&str> = requests
        .iter()
        .map(|request| request["id"].as_str().unwrap())
        .collect();
    for id in &written {
        assert!(found.contains(&id.as_str()), "{id} is lost: {found:?}");
    }
    for id in &found {
        let sent = written.iter().chain(&unsure).any(|sent| sent == id);
        assert!(sent, "{id} was never sent");
    }
    let stats = warden.url.get("/api/v1/stats?range=1h");
    assert_eq!(stats["summary"]["requests"], found.len());
    let history = warden.url.get("/api/v1/history");
    assert_eq!(
        (&history["writable"], &history["set_aside_files"]),
        (&true.into(), &0.into())
    );
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

/// Why the last request was cold, and in words.
fn cold(warden: &Warden) -> (String, String) {
    let requests = warden.url.get("/api/v1/requests?limit=1");
    let cold = &requests["requests"][0]["cold"];
    let word = |name: &str| cold[name].as_str().unwrap_or_default().to_owned();
    (word("why"), word("sentence"))
}

#[test]
fn the_first_turn_after_a_restart_says_why_it_is_cold() {
    let directory = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start(&["--data-parallel-size=2"]);
    let config = format!(
        "[[models]]\nname = \"demo\"\n[models.engine]\nkind = \"attached\"\nmax_num_seqs = 32\n\
         data_parallel_size = 2\nurl = \"{}\"\n",
        engine.url.0
    );
    let mut warden = Warden::with(directory.path(), &config).ready();
    let turn = |warden: &Warden, session: &str, word: &str| {
        let prompt = format!("{word} ").repeat(3_000);
        warden.url.turn("demo", session, &prompt).went()
    };
    let (_, home) = turn(&warden, "moves", "one");
    let (_, stays) = turn(&warden, "stays", "two");
    let warm = turn(&warden, "is-warm", "three");
    assert_eq!(warden.terminate().code(), Some(0));

    let warden = Warden::with(directory.path(), &config).ready();
    assert_eq!(turn(&warden, "is-warm", "three").1, warm.1);
    assert_eq!(cold(&warden), (String::new(), String::new()));
    // Its replica and its engine are the same, its prompt is not, and nobody remembers that.
    assert_eq!(turn(&warden, "stays", "four"), ("sticky".to_owned(), stays));
    let (why, sentence) = cold(&warden);
    assert_eq!(why, "unknown", "{sentence}");
    assert!(sentence.starts_with("lm-warden restarted since the turn before"));
    let drain = format!("POST /api/v1/models/demo/replicas/{home}/drain");
    assert_eq!(warden.url.ask(&drain, "", "").status, 200);
    let (route, elsewhere) = turn(&warden, "moves", "one");
    assert_eq!(route, "moved");
    let (why, sentence) = cold(&warden);
    assert_eq!(why, "moved", "{sentence}");
    let moved = format!("moved to replica {elsewhere}; the turn before was on replica {home}: ");
    assert!(sentence.starts_with(&moved), "{sentence}");
}

#[test]
fn the_first_turn_after_a_restart_of_the_engine_too_says_that() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let prompt = "hello ".repeat(3_000);
    let (_, home) = warden.url.turn("demo", "s", &prompt).went();
    assert_eq!(warden.terminate().code(), Some(0));
    let warden = Warden::start(directory.path());
    warden.url.turn("demo", "s", &prompt).went();
    let (why, sentence) = cold(&warden);
    assert_eq!(why, "restarted", "{sentence}");
    let restarted = format!("the engine of replica {home} restarted since the turn before: ");
    assert!(sentence.starts_with(&restarted), "{sentence}");
}
