//! `lm-warden engine` as a process: what it prints, and how it ends.

// Clippy takes only the test functions themselves for tests.
#![allow(clippy::unwrap_used)]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::support::{EngineProcess, binary};

fn start() -> EngineProcess {
    EngineProcess::start(&["--speed=0"])
}

fn address(engine: &EngineProcess) -> &str {
    engine.url.0.strip_prefix("http://").unwrap()
}

/// The status line of an answer.
fn request(engine: &EngineProcess, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address(engine)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn it_says_where_it_listens_and_ends_with_its_parent() {
    let mut engine = start();
    assert_eq!(request(&engine, "GET /health", ""), "HTTP/1.1 200 OK");
    drop(engine.child.stdin.take());
    assert_eq!(engine.child.wait().unwrap().code(), Some(0));
}

#[test]
fn when_it_dies_by_a_fault_its_exit_code_is_vllms() {
    let mut engine = start();
    let answer = request(&engine, "POST /sim/fault", "die:seconds=0.1");
    assert_eq!(answer, "HTTP/1.1 204 No Content");
    assert_eq!(engine.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(address(&engine)).is_err());
}

#[test]
fn wrong_settings_are_told_and_exit_with_2() {
    for (arguments, word) in [
        (["--data-parallel-size", "0"], "data_parallel_size"),
        (["--fault", "explode"], "no fault"),
        (["--profile", "abacus"], "unknown profile"),
        (["--vllm-version", "new"], "not a vLLM version"),
    ] {
        let output = binary().arg("engine").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(word), "{told}");
    }
}
