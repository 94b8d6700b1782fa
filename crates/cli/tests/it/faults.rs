//! What a machine does to the service: kills it at any moment, has no room on its disk, no file to
//! open. What is drawn comes from a seed, which a failure names; `LM_WARDEN_SEED` runs another one.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Stdio,
    time::Duration,
};

use crate::support::{CONFIG, Warden, binary, drawn, homes_bytes, messages, until};

const SESSIONS: u64 = 6;
/// Least bytes of one home on disk.
const RECORD_BYTES: u64 = 60;
const KILLS: u64 = 5;

fn seed() -> u64 {
    std::env::var("LM_WARDEN_SEED").map_or(1, |seed| seed.parse().expect("a number"))
}

fn went(warden: &Warden, session: u64) -> (String, String) {
    let session = format!("session-{session}");
    warden.url.turn("demo", &session, "hello").went()
}

fn homes(warden: &Warden) -> Vec<String> {
    (0..SESSIONS)
        .map(|session| went(warden, session).1)
        .collect()
}

/// Starts it and kills it so many milliseconds later, whatever it is doing by then.
fn start_and_kill(directory: &Path, after_ms: u64) {
    let file = directory.join("warden.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let mut child = binary()
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(file)
        .env("XDG_STATE_HOME", directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(after_ms));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_at_any_moment_of_its_start_it_starts_again_with_all_homes() {
    let seed = seed();
    let directory = tempfile::tempdir().unwrap();
    let mut warden = Warden::start(directory.path());
    let before = homes(&warden);
    until("the homes to be written", || {
        (homes_bytes(directory.path()) >= SESSIONS * RECORD_BYTES).then_some(())
    });
    warden.kill();
    for n in 0..KILLS {
        start_and_kill(directory.path(), drawn(seed, n, 300));
    }
    let warden = Warden::start(directory.path());
    for (session, home) in (0..).zip(&before) {
        let again = went(&warden, session);
        assert_eq!(again, ("sticky".to_owned(), home.clone()), "seed {seed}");
    }
}

/// `EFBIG` at the first byte past the limit, which is a full disk to whoever writes.
#[test]
fn a_full_disk_stops_nothing_and_is_told() {
    let directory = tempfile::tempdir().unwrap();
    // First with room, so that the seed is there.
    Warden::start(directory.path()).terminate();
    let mut warden = Warden::limited(directory.path(), "trap '' XFSZ; ulimit -f 0").ready();
    let before = homes(&warden);
    warden.logged("homes cannot be written");
    for (session, home) in (0..).zip(&before) {
        assert_eq!(went(&warden, session), ("sticky".to_owned(), home.clone()));
    }
    assert_eq!(warden.terminate().code(), Some(0));
}

/// A file system that fills up under the running warden, and has room again later.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_costs_no_request_and_no_row() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("lm-warden");
    std::fs::create_dir(&data_dir).unwrap();
    let words = format!("mount -t tmpfs -o size=4m none {}", data_dir.display());
    let Some(warden) = Warden::secluded(directory.path(), &words) else {
        return;
    };
    let mut warden = warden.ready();
    let before = homes(&warden);
    let mut sent = SESSIONS;
    let filler = warden.inside(&data_dir.join("filler"));
    let full = std::fs::write(&filler, vec![1; 8 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let writable = || warden.counted("lm_warden_history_writable");
    // What is left of the last pages takes a few.
    until("the full disk to be told", || {
        for (session, home) in (0..).zip(&before) {
            assert_eq!(went(&warden, session), ("sticky".to_owned(), home.clone()));
        }
        sent += SESSIONS;
        (writable() == 0).then_some(())
    });
    let history = warden.url.get("/api/v1/history");
    assert!(history["failure"].is_string(), "{history}");
    for session in 0..SESSIONS {
        went(&warden, session);
    }
    sent += SESSIONS;

    std::fs::remove_file(filler).unwrap();
    until("every row to be written", || {
        let written = warden.counted("lm_warden_history_written_total");
        (writable() == 1 && written == sent).then_some(())
    });
    assert_eq!(warden.counted("lm_warden_history_dropped_total"), 0);
    assert_eq!(warden.terminate().code(), Some(0));
}

#[test]
fn a_flood_past_the_open_files_leaves_replicas_in_and_is_answered_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let warden = Warden::limited(directory.path(), "ulimit -n 72").ready();
    let home = went(&warden, 1).1;
    let body = messages("demo", "hello", false);
    let flood: Vec<TcpStream> = (0..100)
        .map(|_| {
            let address = warden.url.0.strip_prefix("http://").unwrap();
            let mut stream = TcpStream::connect(address).unwrap();
            let length = body.len();
            // No reply is read yet, and the connections stay.
            let _ = write!(
                stream,
                "POST /v1/messages HTTP/1.1\r\nhost: w\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    drop(flood);
    // While the flood's connections are still being closed, a new one may be reset at the door.
    let body = messages("demo", "hello", false);
    until("an answer after the flood", || {
        let headers = "x-claude-code-session-id: session-1\r\n";
        let mut stream = warden
            .url
            .try_send("POST /v1/messages", headers, &body)
            .ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        reply.starts_with("HTTP/1.1 200 ").then_some(())
    });
    assert_eq!(went(&warden, 1), ("sticky".to_owned(), home));
    let model = &warden.url.get("/api/v1/models")["models"][0];
    assert_eq!(model["state"], "ready", "{model}");
}
