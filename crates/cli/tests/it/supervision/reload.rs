//! A configuration that changes while engines run.

use std::fs;

use nix::sys::signal::Signal;

use super::{
    RANKS, SERVERS, turn,
    warden::{Place, Warden, soon},
};

#[test]
fn a_changed_engine_is_restarted_and_one_that_is_gone_from_the_configuration_is_stopped() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let pid = place.pid(0).unwrap();
    warden.end(Signal::SIGKILL);
    place.configure(
        "data_parallel_size = 2\nargs = [\"--speed\", \"0\", \"--seed\", \"7\"]",
        "",
    );
    let warden = place.serve(&[]);
    let new = soon("another process", || place.pid(0).filter(|new| *new != pid));
    warden.until("ready");
    warden.end(Signal::SIGTERM);
    let config = fs::read_to_string(place.config())
        .unwrap()
        .replace("\"m\"", "\"n\"");
    fs::write(place.config(), config).unwrap();
    let warden = place.serve(&[]);
    soon("the old engine is gone", || {
        (!place.processes().contains(&new)).then_some(())
    });
    drop(warden);
}

#[test]
fn models_that_come_go_or_grow_take_a_restart_of_the_warden_which_leaves_the_others_running() {
    let place = Place::new("");
    let tables = |name: &str, engine: &str| place.model_tables(name, engine);
    place.configure_models(&[tables("m", RANKS), tables("n", RANKS), tables("o", RANKS)]);
    let warden = place.serve(&[]);
    let ready = |warden: &Warden, model: &str| {
        soon("it is ready", || {
            (warden.state_of(model).0 == "ready").then_some(())
        });
        place.pid_of(model).unwrap()
    };
    let [m, n, _] = ["m", "n", "o"].map(|model| ready(&warden, model));
    let grown = RANKS.replace("size = 2", "size = 1");
    place.configure_models(&[tables("m", RANKS), tables("n", &grown), tables("p", RANKS)]);
    let refused = warden.post("/api/v1/reload");
    assert_eq!(refused.status, 400, "{refused:?}");
    for part in [
        "nothing was changed",
        "now m, n, o",
        "m, n, p",
        "restart it",
    ] {
        assert!(refused.body.contains(part), "{refused:?}");
    }
    assert_eq!(warden.end(Signal::SIGTERM), Some(0));
    let warden = place.serve(&["--stop-engines"]);
    assert_eq!(ready(&warden, "m"), m, "untouched");
    assert_ne!(ready(&warden, "n"), n, "started anew with another size");
    ready(&warden, "p");
    assert_eq!(place.pid_of("o"), None, "ended with its place in the file");
    assert_eq!(warden.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_reload_changes_routing_at_once_and_restarts_only_what_changed() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let pid = place.pid(0);
    let affinity = || warden.get("/api/v1/models/m").json()["routing"]["affinity"].clone();

    place.configure(RANKS, "affinity = false");
    let reloaded = warden.post("/api/v1/reload");
    assert_eq!(
        reloaded.json(),
        serde_json::json!({"routing": ["m"], "restarted": []})
    );
    assert_eq!((affinity(), place.pid(0)), (false.into(), pid));

    place.configure(RANKS, "affinity = 3");
    let (code, told) = warden.command(&["reload"]);
    assert!(
        code == Some(1) && told.contains("nothing was changed"),
        "{told}"
    );
    let refused = warden.post("/api/v1/reload");
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("nothing was changed"), "{refused:?}");
    assert_eq!((affinity(), place.pid(0)), (false.into(), pid));

    place.configure(&format!("max_num_seqs = 8\n{RANKS}"), "affinity = true");
    warden.signal(Signal::SIGHUP);
    soon("another process", || {
        place.pid(0).filter(|new| Some(*new) != pid)
    });
    assert_eq!(affinity(), true);
    warden.until("ready");
    turn(&warden, "a");
}

#[test]
fn a_reload_restarts_the_one_model_whose_engine_changed() {
    let place = Place::new("");
    let tables = |name: &str, engine: &str| place.model_tables(name, engine);
    place.configure_models(&[tables("m", RANKS), tables("n", RANKS)]);
    let warden = place.serve(&[]);
    let ready = |model: &str| {
        soon("it is ready", || {
            (warden.state_of(model).0 == "ready").then_some(())
        });
        place.pid_of(model).unwrap()
    };
    let [m, n] = ["m", "n"].map(ready);
    let reload = || warden.post("/api/v1/reload").json();

    place.configure_models(&[
        tables("m", RANKS),
        tables("n", &format!("start_s_max = 60\n{RANKS}")),
    ]);
    assert_eq!(
        reload(),
        serde_json::json!({"routing": [], "restarted": []}),
        "how long a start may take is no reason for one"
    );
    place.configure_models(&[
        tables("m", RANKS),
        tables("n", &format!("gpus = [3, 5]\n{RANKS}")),
    ]);
    assert_eq!(
        reload(),
        serde_json::json!({"routing": [], "restarted": ["n"]})
    );
    let new = soon("another process", || {
        place.pid_of("n").filter(|new| *new != n)
    });
    let environ = fs::read(format!("/proc/{new}/environ")).unwrap();
    let cards = environ.split(|byte| *byte == 0);
    assert!(
        cards
            .into_iter()
            .any(|entry| entry == b"CUDA_VISIBLE_DEVICES=3,5")
    );
    ready("n");
    assert_eq!(ready("m"), m, "untouched");
}

#[test]
fn settings_that_change_during_a_rolling_restart_reach_every_server() {
    let place = Place::new(SERVERS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let before = place.pid(0);
    let hold = place.model().join("hold");
    fs::write(&hold, "").unwrap();
    warden.post("/api/v1/models/m/restart");
    soon("the first is a new one, with the old settings", || {
        place.pid(0).filter(|new| Some(*new) != before)
    });
    place.configure(&format!("max_num_seqs = 7\n{SERVERS}"), "");
    assert_eq!(warden.post("/api/v1/reload").status, 200);
    fs::remove_file(hold).unwrap();
    soon("both have the new setting", || {
        let has = |server| {
            let line = fs::read(format!("/proc/{}/cmdline", place.pid(server)?)).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains("--max-num-seqs 7 ").then_some(())
        };
        has(0)?;
        has(1)
    });
    warden.until("ready");
}
