//! `lm-warden serve` from its start to its end.

use std::{io::Read as _, net::TcpListener};

use nix::sys::signal::Signal;

use crate::support::{CONFIG, REFUSED_BY_THE_ENGINE, Warden, messages, run, stderr, until};

#[test]
fn without_a_configuration_claude_codes_models_are_served_by_four_replicas() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::spawn(directory.path(), &[]).ready();
    let model = &warden.url.get("/api/v1/models")["models"][0];
    assert_eq!(model["routing"]["replicas"].as_array().unwrap().len(), 4);
    let first = warden.url.turn("claude-sonnet-5", "s", "hello");
    assert_eq!(first.went().0, "new");
    let second = warden.url.turn("claude-haiku-5", "s", "hello");
    assert_eq!(second.went(), ("sticky".to_owned(), first.went().1));

    let banner = warden.log().join("\n");
    assert!(banner.contains("4 simulated replicas"), "{banner}");
    assert!(banner.contains(&format!(
        "eval \"$({} claude demo --url {})\" && claude",
        env!("CARGO_BIN_EXE_lm-warden"),
        warden.url.0
    )));

    let engine = warden.engine();
    assert!(engine.is_open());
    assert_eq!(warden.terminate().code(), Some(0));
    until("the engine to end with the warden", || {
        (!engine.is_open()).then_some(())
    });
}

#[test]
fn a_running_stream_is_drained_before_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("speed = 1000.0", "speed = 5.0");
    let mut warden = Warden::with(directory.path(), &config).ready();
    let body = messages("demo", "tell me", true).replace("\"max_tokens\":8", "\"max_tokens\":64");
    let mut stream = warden.url.send("POST /v1/messages", "", &body);
    let mut begun = [0; 1];
    stream.read_exact(&mut begun).unwrap();
    warden.signal(Signal::SIGTERM);
    warden.logged("draining requests=");
    until("the port to close", || {
        (!warden.url.is_open()).then_some(())
    });
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: message_stop"), "{rest}");
    assert_eq!(warden.ended().code(), Some(0));
}

/// As Ctrl-C at a terminal does: the signal goes to the warden and to everything it started.
#[test]
fn an_interrupt_of_the_whole_group_is_drained_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("speed = 1000.0", "speed = 5.0");
    let mut warden = Warden::with(directory.path(), &config).ready();
    let body = messages("demo", "tell me", true).replace("\"max_tokens\":8", "\"max_tokens\":64");
    let mut stream = warden.url.send("POST /v1/messages", "", &body);
    let mut begun = [0; 1];
    stream.read_exact(&mut begun).unwrap();
    warden.signal_group(Signal::SIGINT);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: message_stop"), "{rest}");
    assert_eq!(warden.ended().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once_and_the_cut_stream_shows_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let fault = warden.engine().ask("POST /sim/fault", "", "stall:events=3");
    assert_eq!(fault.status, 204);
    let body = messages("demo", "tell me", true);
    let mut stream = warden.url.send("POST /v1/messages", "", &body);
    let mut begun = [0; 1];
    stream.read_exact(&mut begun).unwrap();
    warden.signal(Signal::SIGINT);
    warden.logged("draining requests=1");
    warden.signal(Signal::SIGTERM);
    assert_eq!(warden.ended().code(), Some(0));
    let mut rest = Vec::new();
    // A reset shows it as well as a missing last chunk does.
    if stream.read_to_end(&mut rest).is_ok() {
        let rest = String::from_utf8_lossy(&rest);
        assert!(!rest.ends_with("0\r\n\r\n"), "it looks complete: {rest}");
    }
}

#[test]
fn an_engine_that_died_is_started_again_and_conversations_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let home = warden.url.turn("demo", "s", "hello").went().1;
    let engine = warden.engine();
    assert_eq!(engine.ask("POST /sim/fault", "", "die").status, 204);
    until("another engine", || {
        (warden.engine() != engine).then_some(())
    });
    warden.await_state("ready");
    let again = until("an answer", || {
        let reply = warden.url.turn("demo", "s", "hello");
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(again.went(), ("sticky".to_owned(), home));
    assert_eq!(warden.terminate().code(), Some(0));
}

#[test]
fn a_simulated_engine_is_stopped_started_and_restarted_by_an_operator() {
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let home = warden.url.turn("demo", "s", "hello").went().1;
    let first = warden.engine();
    let tell = |what: &str| {
        let reply = warden
            .url
            .ask(&format!("POST /api/v1/models/demo/{what}"), "", "");
        assert_eq!(reply.status, 200, "{what}: {}", reply.body);
    };
    tell("stop");
    warden.await_state("stopped");
    assert!(!first.is_open());
    assert_eq!(warden.url.ask("GET /ready", "", "").status, 503);
    let refused = warden.url.turn("demo", "s", "hello");
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("stopped"), "{}", refused.body);
    tell("start");
    warden.await_state("ready");
    assert_eq!(
        warden.url.turn("demo", "s", "hello").went(),
        ("sticky".to_owned(), home)
    );
    let second = warden.engine();
    tell("restart");
    until("another engine", || {
        let is_other = warden.last_logged("the simulated engine serves").is_some()
            && warden.engine() != second;
        is_other.then_some(())
    });
    warden.await_state("ready");
    assert_eq!(warden.url.turn("demo", "t", "hello").status, 200);
    assert_eq!(warden.terminate().code(), Some(0));
}

#[test]
fn an_engine_that_refuses_its_settings_is_not_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::limited(directory.path(), REFUSED_BY_THE_ENGINE);
    let reason = warden.await_state("failed");
    assert!(
        reason.contains("refuses its settings") && reason.contains("UTF-8"),
        "{reason}"
    );
    let reply = warden.url.turn("demo", "s", "hello");
    assert_eq!(reply.status, 503);
    assert!(reply.body.contains("UTF-8"), "{}", reply.body);
}

#[test]
fn a_taken_port_and_a_used_data_directory_are_told_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let state = directory.path().join("other");
    let state = state.to_str().unwrap();
    let output = run(&["serve", "--listen", &address, "--data-dir", state]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(
        told.contains(&address) && told.contains("choose another port"),
        "{told}"
    );

    let _first = Warden::start(directory.path());
    let used = directory.path().join("lm-warden");
    let used = used.to_str().unwrap();
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", used]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(
        told.contains("another lm-warden uses") && told.contains(used),
        "{told}"
    );
}

#[test]
fn pages_events_and_the_guard_stand_behind_the_same_port() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    let page = warden.url.ask("GET /models/demo", "", "");
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-security-policy")
            .contains("connect-src 'self'")
    );
    let foreign = "origin: http://evil.example\r\n";
    let reply = warden.url.ask(
        "PATCH /api/v1/models/demo/routing",
        foreign,
        "{\"affinity\":false}",
    );
    assert_eq!(reply.status, 403);
    assert_eq!(
        warden.url.get("/api/v1/models/demo")["routing"]["affinity"],
        true
    );

    let mut events = warden.url.send("GET /api/v1/events", "", "");
    let mut seen = String::new();
    let mut buffer = [0; 1024];
    while !seen.contains("event: hello") {
        let read = events.read(&mut buffer).unwrap();
        assert!(read > 0, "the stream ended: {seen}");
        seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
}
