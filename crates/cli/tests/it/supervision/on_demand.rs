//! Models that run only while somebody asks for them.

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
