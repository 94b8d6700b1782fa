//! Engines that the warden starts, with a simulated engine that poses as vLLM: they start, die, are
//! stopped, and outlive the warden. What needs the real vLLM is in `e2e/vllm`.

mod failing;
mod on_demand;
mod reload;
mod terminal;
mod warden;

use std::{fs, os::unix::process::CommandExt as _, process::Command};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use self::warden::{Place, soon};

const RANKS: &str = "data_parallel_size = 2\nargs = [\"--speed\", \"0\"]";
const SERVERS: &str = "data_parallel_size = 2\nlayout = \"servers\"\nargs = [\"--speed\", \"0\"]";

fn kill_9(pid: u32) {
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
}

/// The replica that served a turn, and by which route.
fn turn(warden: &warden::Warden, session: &str) -> (String, String) {
    let answer = warden.turn(session);
    assert_eq!(answer.status, 200, "{answer:?}");
    let header = |name| answer.header(name).unwrap_or_default().to_owned();
    (header("x-lm-warden-replica"), header("x-lm-warden-route"))
}

#[test]
fn an_engine_starts_prints_into_the_ring_and_ends_when_it_is_stopped() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    assert_eq!(turn(&warden, "a").1, "new");
    assert_eq!(
        warden.get("/api/v1/models/m").json()["engine"]["kind"],
        "vllm"
    );
    let logs = warden.get("/api/v1/models/m/logs?limit=2000");
    assert!(
        logs.body.contains("GPU KV cache size: 17,600 tokens"),
        "{logs:?}"
    );
    let of_last = logs.json()["lines"].as_array().unwrap().last().unwrap()["number"].clone();
    let newer = warden.get(&format!("/api/v1/models/m/logs?after={of_last}"));
    assert_eq!(newer.json()["lines"], serde_json::json!([]));
    let (code, printed) = warden.command(&["logs", "m"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("GPU KV cache size: 17,600 tokens"),
        "{printed}"
    );
    assert_eq!(warden.command(&["logs", "n"]).0, Some(1));

    assert_eq!(warden.post("/api/v1/models/m/stop").status, 200);
    warden.until("stopped");
    assert!(place.processes().is_empty(), "no orphans");
    let refused = warden.turn("a");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(warden.post("/api/v1/models/m/start").status, 200);
    warden.until("ready");
}

#[test]
fn what_host_memory_keeps_is_read_from_the_log_also_of_an_adopted_engine() {
    let place = Place::new(&format!("{RANKS}\nkv_offload_gib = 4"));
    let told = || {
        let log = place.log();
        let lines = log
            .lines()
            .filter(|line| line.contains("host memory keeps"));
        // 4 of 2.42 GiB for 17,600 tokens.
        lines.filter(|line| line.contains("29090")).count()
    };
    let warden = place.serve(&[]);
    warden.until("ready");
    assert_eq!(told(), 1, "{}", place.log());
    assert_eq!(warden.end(Signal::SIGTERM), Some(0));
    let warden = place.serve(&[]);
    warden.until("ready");
    assert_eq!(told(), 2, "{}", place.log());
}

#[test]
fn an_engine_outlives_the_warden_and_is_adopted_with_its_conversations() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let (home, _) = turn(&warden, "a");
    let pid = place.pid(0).unwrap();
    assert_eq!(warden.end(Signal::SIGTERM), Some(0));

    let warden = place.serve(&[]);
    warden.until("ready");
    assert_eq!(place.pid(0), Some(pid));
    assert_eq!(turn(&warden, "a"), (home.clone(), "sticky".to_owned()));
    // Homes are on disk within half a second of a turn; a turn that was seen by the last warden is.
    warden.end(Signal::SIGKILL);

    let warden = place.serve(&["--stop-engines"]);
    warden.until("ready");
    assert_eq!(place.pid(0), Some(pid));
    assert_eq!(turn(&warden, "a"), (home, "sticky".to_owned()));
    assert_eq!(warden.end(Signal::SIGTERM), Some(0));
    assert!(place.processes().is_empty());
    assert_eq!(place.pid(0), None);
}

#[test]
fn an_engine_that_dies_is_started_again_and_what_it_left_is_ended() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    turn(&warden, "a");
    let pid = place.pid(0).unwrap();
    let before = place.processes();
    assert!(before.len() > 1, "the fake leaves a process behind");
    kill_9(pid);
    let reason = warden.until("loading");
    assert!(!reason.is_empty());
    let refused = warden.turn("a");
    assert!(
        refused.status == 503 && refused.header("retry-after").is_some() || refused.status == 200,
        "{refused:?}"
    );
    warden.until("ready");
    let after = soon("another process", || place.pid(0).filter(|new| *new != pid));
    assert!(place.processes().contains(&after));
    assert!(
        before.iter().all(|old| !place.processes().contains(old)),
        "no orphans"
    );
    turn(&warden, "a");
}

#[test]
fn an_adopted_engine_that_dies_is_started_again() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let pid = place.pid(0).unwrap();
    warden.end(Signal::SIGKILL);
    let warden = place.serve(&[]);
    warden.until("ready");
    assert_eq!(place.pid(0), Some(pid));
    kill_9(pid);
    soon("another process", || place.pid(0).filter(|new| *new != pid));
    warden.until("ready");
    turn(&warden, "a");
}

#[test]
fn a_start_that_fails_is_told_with_a_hint() {
    let place = Place::new(RANKS);
    fs::write(
        place.model().join("fail"),
        "OSError: [Errno 98] Address already in use\n",
    )
    .unwrap();
    let warden = place.serve(&[]);
    let reason = soon("the hint", || {
        let (state, reason) = warden.state();
        assert_eq!(state, "loading", "{reason}");
        reason.contains("port is taken").then_some(reason)
    });
    assert!(reason.contains("exit code 1"), "{reason}");
    fs::remove_file(place.model().join("fail")).unwrap();
    warden.until("ready");
}

#[test]
fn a_server_that_dies_takes_one_replica_and_its_conversations_move() {
    let place = Place::new(SERVERS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let homes: Vec<String> = ["a", "b"].map(|session| turn(&warden, session).0).into();
    assert_eq!(homes, ["0", "1"]);
    let untouched = place.pid(0);
    kill_9(place.pid(1).unwrap());
    assert!(warden.until("degraded").starts_with("replica 1 out"));
    assert_eq!(turn(&warden, "a"), ("0".to_owned(), "sticky".to_owned()));
    assert_eq!(turn(&warden, "b"), ("0".to_owned(), "moved".to_owned()));
    warden.until("ready");
    assert_eq!(place.pid(0), untouched);
}

#[test]
fn a_rank_that_dies_on_another_machine_takes_nothing_new_and_is_shown() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let homes: Vec<String> = ["a", "b"].map(|session| turn(&warden, session).0).into();
    assert_eq!(homes, ["0", "1"]);
    // What vLLM shows of it: `/health` is 200, its requests hang, its gauges stand still.
    let fault = warden::request(
        place.engine_port(),
        "POST",
        "/sim/fault",
        ("", "wedge:rank=1"),
    );
    assert_eq!(fault.status, 204, "{fault:?}");
    let _hangs = warden.begin_turn("b");
    soon("it is shown", || {
        let model = warden.get("/api/v1/models/m").json();
        (model["routing"]["replicas"][1]["state"] == "wedged").then_some(())
    });
    assert_eq!(turn(&warden, "b").0, "0");
    assert_eq!(turn(&warden, "c").0, "0");
    assert_eq!(turn(&warden, "a"), ("0".to_owned(), "sticky".to_owned()));
}

#[test]
fn a_rolling_restart_loses_no_request() {
    let place = Place::new(SERVERS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let before = [place.pid(0), place.pid(1)];
    assert_eq!(warden.post("/api/v1/models/m/restart").status, 200);
    assert_eq!(
        warden.post("/api/v1/models/m/restart").status,
        409,
        "one at a time"
    );
    let mut turns = 0;
    soon("both are new", || {
        turn(&warden, &format!("{}", turns % 5));
        turns += 1;
        let now = [place.pid(0), place.pid(1)];
        let renewed = (0..2).all(|i| now[i].is_some() && now[i] != before[i]);
        (renewed && warden.state().0 == "ready").then_some(())
    });
    assert!(turns > 5);
}

#[test]
fn a_strangers_pid_is_never_touched() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    warden.end(Signal::SIGKILL);
    // The engine has gone, and its pid is a stranger's now.
    let pid = place.pid(0).unwrap();
    kill_9(pid);
    let mut stranger = Command::new("sleep")
        .arg("600")
        .process_group(0)
        .spawn()
        .unwrap();
    place.rewrite_pid(pid, stranger.id());
    let warden = place.serve(&["--stop-engines"]);
    warden.until("ready");
    assert_ne!(place.pid(0), Some(stranger.id()));
    assert_eq!(warden.end(Signal::SIGTERM), Some(0));
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_doctor_says_what_keeps_a_configuration_from_working() {
    let place = Place::new(RANKS);
    let config = place.config();
    let config = config.to_str().unwrap();
    let doctor = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_lm-warden"))
            .args(["doctor", "--config", config])
            .args(arguments)
            .output()
            .unwrap()
    };
    // The "model" is an empty folder.
    let output = doctor(&["--json"]);
    assert_eq!(output.status.code(), Some(4));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of = |check: &str| {
        findings
            .iter()
            .find(|finding| finding["check"] == check)
            .unwrap()
    };
    assert_eq!(of("model")["level"], "problem");
    assert!(of("model")["mend"].is_string());
    for check in ["driver", "vllm", "port", "disk", "limits", "time"] {
        assert!(of(check)["message"].is_string());
    }
    fs::write(place.model().join("config.json"), "{}").unwrap();
    let told = String::from_utf8(doctor(&[]).stdout).unwrap();
    assert!(told.contains("ok       model: \"m\""), "{told}");
}
