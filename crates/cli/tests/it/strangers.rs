//! Many strangers at a time, each as slow as can be, before the real process: what they hold is
//! bounded, others are served meanwhile, and nothing of them is left.

use std::{io::Write as _, net::TcpStream};

use crate::support::{Url, Warden, messages, until};

const STRANGERS: usize = 300;
/// Bytes that each sends, one at a time.
const BYTES: usize = 24;
/// What one may cost: a read buffer, a task, and what the allocator rounds up to.
const BYTES_EACH_MAX: u64 = 64 << 10;
/// Connections that the warden has to itself come and go.
const FILES_SLACK: usize = 16;

fn connect(url: &Url) -> TcpStream {
    let stream = TcpStream::connect(url.0.strip_prefix("http://").unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Each sends so much at once, and then byte by byte; what comes of them all is looked at before they
/// leave.
fn trickle(begun: &str, rest: &str) {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::start(directory.path());
    warden.url.turn("demo", "honest", "hello").went();
    let (files, memory) = (warden.open_files(), warden.memory_bytes());
    let mut strangers: Vec<TcpStream> = (0..STRANGERS).map(|_| connect(&warden.url)).collect();
    for stranger in &mut strangers {
        stranger.write_all(begun.as_bytes()).unwrap();
    }
    for byte in rest.as_bytes().chunks(1).take(BYTES) {
        for stranger in &mut strangers {
            stranger.write_all(byte).unwrap();
        }
        let (route, _) = warden.url.turn("demo", "honest", "hello").went();
        assert_eq!(route, "sticky");
    }
    let held = warden.open_files();
    assert!(held <= files + STRANGERS + FILES_SLACK, "{files}, {held}");
    let grown = warden.memory_bytes().saturating_sub(memory);
    assert!(grown <= STRANGERS as u64 * BYTES_EACH_MAX, "{grown} bytes");

    drop(strangers);
    until("their descriptors to be closed", || {
        (warden.open_files() <= files + FILES_SLACK).then_some(())
    });
    until("nothing to be in flight", || {
        (warden.counted("lm_warden_in_flight") == 0).then_some(())
    });
}

#[test]
fn heads_that_come_byte_by_byte_keep_nobody_out() {
    trickle("", "POST /v1/messages HTTP/1.1\r\nhost: w\r\n");
}

#[test]
fn bodies_that_come_byte_by_byte_keep_nobody_out() {
    let body = messages("demo", "hello", true);
    let length = body.len();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n\r\n"
    );
    trickle(&head, &body);
}
