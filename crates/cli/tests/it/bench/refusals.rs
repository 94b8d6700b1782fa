//! What ends a bench before it has figures: an engine that fails, and wrong input.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
};

use super::bench;
use crate::support::{Url, Warden, stderr, until};

/// A server that lists its model and fails every turn.
fn failing_server() -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url(format!("http://{}", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut line, mut first, mut length) = (String::new(), String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                first = if first.is_empty() { lower } else { first };
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let (status, body) = if first.starts_with("get /v1/models ") {
                ("200 OK", r#"{"data":[{"id":"demo"}]}"#)
            } else if first.starts_with("post") {
                (
                    "500 Internal Server Error",
                    r#"{"error":"the card fell out"}"#,
                )
            } else {
                ("404 Not Found", "{}")
            };
            let length = body.len();
            // The client may have left.
            let _ = write!(
                reader.get_mut(),
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    url
}

#[test]
fn a_failing_engine_ends_the_bench() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("b.json");
    let options = ["run", "--url", &failing_server().0, "--model=demo"];
    let output = [
        "--sessions=8",
        "--stage=2m",
        "--json",
        json.to_str().unwrap(),
    ];
    let output = bench(&[&options[..], &output].concat());
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(
        told.contains("the engine fails: 8 turns in a row"),
        "{told}"
    );
    assert!(told.contains("the card fell out"), "{told}");
    assert!(!json.exists());
}

#[test]
fn wrong_input_is_one_line_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    // The engine tells it only when it is asked.
    until("the longest prompt", || {
        warden.url.get("/api/v1/models")["models"][0]["engine"]["max_model_len"].as_u64()
    });
    let trace = directory.path().join("bad.csv");
    std::fs::write(&trace, "trace,in,out,cached_ideal,think_time\na,1x,2,0,0\n").unwrap();
    let trace = format!("--trace={}", trace.display());
    let url = ["--url", &warden.url.0];
    let nobody = ["--url", "http://127.0.0.1:1"];
    for (target, options, exit, words) in [
        (
            url,
            &["--model=none"][..],
            2,
            "no model \"none\" is served; there are: demo",
        ),
        (
            url,
            &["--model=demo", "--order=off,up"],
            2,
            "--order \"up\": known are off, on",
        ),
        (
            url,
            &["--model=demo", "--sessions=0"],
            2,
            "--sessions \"0\"",
        ),
        (url, &["--model=demo", "--stage=3x"], 2, "--stage \"3x\""),
        (url, &["--model=demo", "--repeat=0"], 2, "--repeat \"0\""),
        (
            url,
            &["--model=demo", "--first-tokens=900000"],
            2,
            "the model takes",
        ),
        (
            url,
            &["--model=demo", "--html=/no/such/r.html"],
            2,
            "--html",
        ),
        (
            url,
            &["--model=demo", &trace],
            2,
            "line 2, column \"in\": \"1x\"",
        ),
        (
            url,
            &["--model=demo", "--trace=/no/such.csv"],
            2,
            "cannot read /no/such.csv",
        ),
        (
            nobody,
            &["--model=demo"],
            3,
            "http://127.0.0.1:1/api/v1/models cannot be reached",
        ),
        (
            ["--url", "ftp://x"],
            &["--model=demo"],
            2,
            "--url \"ftp://x\"",
        ),
    ] {
        let output = bench(&[&["ab"], &target[..], options].concat());
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{options:?}: {told}");
        assert!(
            told.starts_with("error: ") && told.contains(words),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    let output = bench(&["report", "/no/such.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot read /no/such.json"));
}
