//! Models that run only while somebody asks for them.

use std::fs;

use nix::sys::signal::Signal;

use super::{
    turn,
    warden::{Place, Warden, soon},
};

const ON_DEMAND: &str = "start = \"on-demand\"\nargs = [\"--speed\", \"0\"]";

#[test]
fn a_model_on_demand_starts_with_its_first_request() {
    let place = Place::new(ON_DEMAND);
    let warden = place.serve(&["--stop-engines"]);
    warden.until("stopped");
    assert_eq!(place.pid(0), None);
    let refused = warden.turn("a");
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    assert!(refused.body.contains("on demand"), "{refused:?}");
    warden.until("ready");
    turn(&warden, "a");
    warden.post("/api/v1/models/m/stop");
    warden.until("stopped");
    assert!(warden.turn("a").body.contains("an operator stopped it"));
    warden.end(Signal::SIGTERM);
}

/// Asks until the model serves.
fn served(warden: &Warden, model: &str) {
    soon("it serves", || {
        (warden.turn_with(model, "a").status == 200).then_some(())
    });
}

#[test]
fn a_model_that_nobody_asks_for_is_stopped_and_starts_again() {
    let place = Place::new(&format!("idle_stop_s = 1\n{ON_DEMAND}"));
    let warden = place.serve(&[]);
    for _ in 0..2 {
        assert_eq!(warden.turn("a").status, 503);
        served(&warden, "m");
        let reason = warden.until("stopped");
        assert!(reason.contains("next request"), "{reason}");
        assert!(place.processes().is_empty(), "no orphans");
    }
}

#[test]
fn models_on_the_same_card_take_turns() {
    let place = Place::new("");
    let on_one_card = format!("gpus = [0]\nidle_stop_s = 1\n{ON_DEMAND}");
    let models = ["m", "n"].map(|name| place.model_tables(name, &on_one_card));
    place.configure_models(&models);
    let warden = place.serve(&[]);
    for (wanted, other) in [("m", "n"), ("n", "m"), ("m", "n")] {
        assert_eq!(warden.turn_with(wanted, "a").status, 503);
        served(&warden, wanted);
        assert_eq!(warden.state_of(other).0, "stopped");
    }
}

#[test]
fn a_stream_waits_with_pings_for_a_model_that_starts() {
    let place = Place::new(ON_DEMAND);
    let hold = place.model().join("hold");
    fs::write(&hold, "").unwrap();
    let warden = place.serve(&["--stop-engines"]);
    let mut lines = warden.stream();
    let mut until = |wanted: &str| {
        let seen: Vec<String> = lines.by_ref().take_while(|line| line != wanted).collect();
        (seen, lines.next())
    };
    let (head, _) = until("event: ping");
    assert_eq!(head[0], "HTTP/1.1 200 OK", "{head:?}");
    for header in ["x-lm-warden-route: queued", "x-lm-warden-replica: -"] {
        assert!(head.iter().any(|line| line == header), "{head:?}");
    }
    assert_eq!(warden.turn("a").status, 503, "where it is no stream");
    fs::remove_file(hold).unwrap();
    let (events, data) = until("event: message_stop");
    assert!(data.is_some(), "it ended without its end: {events:?}");
    assert!(
        events
            .iter()
            .any(|line| line == "event: content_block_delta")
    );

    warden.post("/api/v1/models/m/stop");
    warden.until("stopped");
    let head: Vec<String> = warden.stream().take(1).collect();
    assert_eq!(
        head,
        ["HTTP/1.1 503 Service Unavailable"],
        "an operator stopped it"
    );
    warden.end(Signal::SIGTERM);
}

#[test]
fn a_stream_that_waits_is_told_when_the_model_cannot_start() {
    let place = Place::new(ON_DEMAND);
    fs::write(place.model().join("hold"), "").unwrap();
    let warden = place.serve(&["--stop-engines"]);
    let mut lines = warden.stream();
    assert!(lines.any(|line| line == "event: ping"));
    warden.post("/api/v1/models/m/stop");
    let rest: Vec<String> = lines.collect();
    let told = rest
        .iter()
        .any(|line| line.contains("an operator stopped it"));
    assert!(
        told && rest.iter().any(|line| line == "event: error"),
        "{rest:?}"
    );
}
