//! `lm-warden bench` against running servers, and beside the simulator.

mod refusals;

use std::{
    io::Read as _,
    path::Path,
    process::{Output, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::support::{EngineProcess, Warden, binary, run, stderr, stdout, until};

/// Short sessions, for tests that look at something else than the cache.
const SMALL: [&str; 10] = [
    "--shared-tokens",
    "64",
    "--first-tokens",
    "200",
    "--turns",
    "2",
    "--turn-tokens",
    "32",
    "--max-tokens",
    "16",
];

fn bench(arguments: &[&str]) -> Output {
    run(&[&["bench"], arguments].concat())
}

fn results(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The figure of a policy's only cell.
fn figure(results: &Value, policy: &str, name: &str) -> Option<f64> {
    let cells = results["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["policy"] == policy).unwrap();
    cell[name].as_f64()
}

fn config(speed: f64) -> String {
    format!(
        "[[models]]\nname = \"demo\"\n[models.engine]\nkind = \"simulated\"\n\
         data_parallel_size = 4\nprofile = \"rtx-a4000-qwen3-4b\"\nspeed = {speed:?}\n"
    )
}

/// A simulated engine of four cards, 60 times as fast as they are. Each of the gateway's connections,
/// which it keeps, falls to an API server of its own; with as few servers as vLLM has by default, a
/// run's draws of connections would decide the arm without affinity (8 points of hits either way).
fn four_cards() -> EngineProcess {
    EngineProcess::start(&[
        "--data-parallel-size=4",
        "--api-server-count=64",
        "--speed=60",
        "--profile=rtx-a4000-qwen3-4b",
    ])
}

/// The published workload at four sessions, once in real time over HTTP and once in the simulator,
/// caches, prompts and connections treated alike.
#[test]
fn what_is_measured_is_what_is_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let engine = four_cards();
    let attached = format!(
        "[[models]]\nname = \"demo\"\n[models.engine]\nkind = \"attached\"\nmax_num_seqs = 32\n\
         data_parallel_size = 4\nurl = \"{}\"\n",
        engine.url.0
    );
    let warden = Warden::with(directory.path(), &attached).ready();
    let [json, html, simulated] =
        ["b.json", "r.html", "s.json"].map(|name| directory.path().join(name));
    let path = |file: &Path| file.to_str().unwrap().to_owned();
    let output = bench(&[
        "ab",
        "--url",
        &warden.url.0,
        "--model=demo",
        "--sessions=4",
        "--stage=8s",
        // One run's hits without affinity vary by 1.5 points.
        "--repeat=3",
        "--same-seed",
        "--json",
        &path(&json),
        "--html",
        &path(&html),
        "--no-simulation",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("balanced → affinity"));
    let output = run(&[
        "simulate",
        "run",
        "--workload=published",
        "--policies=balanced,affinity",
        "--sessions=4",
        "--stage=480s",
        "--api-servers=64",
        "--keep-connections",
        "--seeds=5",
        "--json",
        &path(&simulated),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let (measured, simulated) = (results(&json), results(&simulated));
    let both = |policy, name| {
        [&measured, &simulated].map(|results| figure(results, policy, name).unwrap())
    };
    for (policy, name) in [
        ("balanced", "prefix_hit_percent"),
        ("affinity", "prefix_hit_percent"),
        ("affinity", "prefix_hit_percent_vllm"),
        ("affinity", "own_hit_percent"),
        ("affinity", "stayed_percent"),
    ] {
        let [real, virtual_time] = both(policy, name);
        let text = format!("{policy}, {name}: measured {real}, simulated {virtual_time}");
        println!("{text}");
        assert!((real - virtual_time).abs() <= 3.0, "{text}");
    }
    for policy in ["balanced", "affinity"] {
        let count = |name| figure(&measured, policy, name).unwrap();
        assert!(count("requests_client") > 20.0);
        assert!((count("requests_client") - count("requests_warden")).abs() < 0.5);
        assert!(count("failed") + count("censored") < 0.5);
    }
    assert!(
        measured["settings"]["warnings"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert!(
        std::fs::read_to_string(html)
            .unwrap()
            .contains("\"published\"")
    );
}

/// `make bench-leases`, small: more conversations than the cache holds, in three arms. How fast each arm
/// is, is no matter here, but nothing may be lost, doubled or cut, whoever waits.
#[test]
fn an_overload_is_served_whole_in_three_arms() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(16.0).replace("data_parallel_size = 4", "data_parallel_size = 1");
    let warden = Warden::with(directory.path(), &config).ready();
    let leases = || warden.url.get("/api/v1/models")["models"][0]["routing"]["leases"].clone();
    let json = directory.path().join("b.json");
    let output = bench(&[
        "ab",
        "--url",
        &warden.url.0,
        "--model=demo",
        "--order=off,on,leases",
        "--sessions=12",
        "--stage=3s",
        "--no-simulation",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let results = results(&json);
    for policy in ["balanced", "affinity", "leases"] {
        let count = |name| figure(&results, policy, name).unwrap();
        assert!(count("requests_client") >= 12.0, "{policy}: {results}");
        assert!((count("requests_client") - count("requests_warden")).abs() < 0.5);
        assert!(
            count("failed") + count("censored") < 0.5,
            "{policy}: {results}"
        );
    }
    // Put back as it was, and nobody is left waiting.
    let leases = leases();
    assert_eq!(
        (&leases["mode"], &leases["waiting"]),
        (&"auto".into(), &0.into())
    );
    // The engine has told its cache's size and what it read from it, so thrashing would be noticed.
    let state = leases["state"].as_str().unwrap();
    assert!(["sticky", "contended"].contains(&state), "{leases}");
}

#[test]
fn the_routing_is_put_back_after_ctrl_c_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let json = directory.path().join("b.json");
    let affinity = || warden.url.get("/api/v1/models")["models"][0]["routing"]["affinity"].clone();
    assert_eq!(affinity(), true);
    let mut child = binary()
        .args(["bench", "ab", "--url", &warden.url.0, "--model=demo"])
        .args(["--sessions=1", "--stage=10m", "--json"])
        .arg(&json)
        .args(SMALL)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("affinity off", || (affinity() == false).then_some(()));
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let status = until("its end", || child.try_wait().unwrap());
    let mut told = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("interrupted; nothing was written"), "{told}");
    assert_eq!(affinity(), true);
    assert!(!json.exists());
}

/// More arms than two, each of them repeated: figures are means with their spread, each stage is told
/// when it is done, and the routing is put back.
#[test]
fn arms_in_any_order_are_repeated_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let json = directory.path().join("b.json");
    let output = bench(
        &[
            &["ab", "--url", &warden.url.0, "--model=demo"][..],
            &["--sessions=2", "--stage=1s", "--order=off,on,on,off"],
            &["--repeat=2", "--json", json.to_str().unwrap()],
            &SMALL,
        ]
        .concat(),
    );
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for stage in [
        "[1 of 8] balanced, 2 sessions: ",
        "[2 of 8] affinity, 2 sessions: ",
        "[3 of 8] affinity, 2 sessions: ",
        "[4 of 8] balanced, 2 sessions: ",
        "[8 of 8] balanced, 2 sessions: ",
    ] {
        assert!(told.contains(stage), "{stage}: {told}");
    }
    // Where nobody looks at a terminal, the live line is told now and then.
    assert!(told.contains("TTFB"), "{told}");
    let results = results(&json);
    assert_eq!(results["cells"].as_array().unwrap().len(), 2);
    for cell in results["cells"].as_array().unwrap() {
        assert_eq!(cell["runs"], 4, "{cell}");
        assert!(cell["turns_per_s_sd"].as_f64().unwrap() > 0.0, "{cell}");
    }
    let seeds = &results["settings"];
    assert_eq!(seeds["repeat"], 2, "{seeds}");
    let routing = warden.url.get("/api/v1/models")["models"][0]["routing"].clone();
    assert_eq!(routing["affinity"], true);
}

#[test]
fn sessions_arrive_on_their_own_and_traces_are_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let (json, trace) = (
        directory.path().join("b.json"),
        directory.path().join("t.csv"),
    );
    let heading = "trace,req,t,in,out,cached_ideal,think_time,api_time\n";
    let rows = "a,0,0,300,9,0,0,1\na,1,5,420,9,300,50,1\na,2,9,200,9,100,50,1\nb,0,0,64,9,0,0,1\n";
    std::fs::write(&trace, [heading, rows].concat()).unwrap();
    let trace = format!("--trace={}", trace.display());
    let replay = ["--sessions=2", "--time-scale=0.001", &trace];
    let arrivals = [&["--rate=36000"][..], &SMALL].concat();
    for (workload, options) in [("rate", &arrivals[..]), ("trace", &replay)] {
        let common = ["ab", "--url", &warden.url.0, "--model=demo", "--order=on"];
        let output = ["--stage=2s", "--json", json.to_str().unwrap()];
        let output = bench(&[&common, options, &output].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let results = results(&json);
        assert_eq!(results["cells"][0]["workload"], workload);
        let figure = |name| figure(&results, "affinity", name).unwrap();
        assert!(figure("requests_client") > 3.0, "{workload}");
        assert!(figure("failed") < 0.5, "{results}");
        assert!((figure("stayed_percent") - 100.0).abs() < 0.1, "{workload}");
    }
}

#[test]
fn one_arm_runs_against_a_server_that_is_no_warden() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let engine = warden.engine();
    let json = directory.path().join("b.json");
    for api in ["messages", "chat"] {
        let options = ["run", "--url", &engine.0, "--model=demo", "--api", api];
        let output = [
            "--sessions=2",
            "--stage=1s",
            "--json",
            json.to_str().unwrap(),
        ];
        let output = bench(&[&options[..], &SMALL, &output].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let results = results(&json);
        let figure = |name| figure(&results, "direct", name);
        assert!(figure("turns_per_s").unwrap() > 1.0);
        assert!(figure("prefix_hit_percent").unwrap() > 10.0);
        assert_eq!(
            (figure("stayed_percent"), figure("replicas_busy")),
            (None, None)
        );
    }
    let output = bench(&["ab", "--url", &engine.0, "--model=demo"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("is no warden"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_a_stage_cuts_is_told_and_is_no_turn() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::with(directory.path(), &config(0.01)).ready();
    let json = directory.path().join("b.json");
    let options = ["ab", "--url", &warden.url.0, "--model=demo", "--order=on"];
    let output = ["--sessions=2", "--stage=1s", "--drain=1s", "--json"];
    let output = bench(&[&options[..], &output, &[json.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let results = results(&json);
    let figure = |name| figure(&results, "affinity", name);
    assert_eq!(
        (figure("censored"), figure("failed")),
        (Some(2.0), Some(0.0))
    );
    assert_eq!(
        (figure("turns_per_s"), figure("ttfb_s_p50")),
        (Some(0.0), None)
    );
    assert!(
        stdout(&output).contains("2.0 were cut"),
        "{}",
        stdout(&output)
    );
}
