//! Ctrl-C: at a terminal it means "end all of it", from elsewhere what SIGTERM means.

use std::process::Stdio;

use nix::{pty::openpty, sys::signal::Signal};

use super::{RANKS, warden::Place};

#[test]
fn an_interrupt_at_a_terminal_stops_the_engines_and_one_from_elsewhere_does_not() {
    let place = Place::new(RANKS);
    let warden = place.serve(&[]);
    warden.until("ready");
    let pid = place.pid(0);
    assert_eq!(warden.end(Signal::SIGINT), Some(0));
    assert!(place.pid(0).is_some() && place.pid(0) == pid);

    let terminal = openpty(None, None).unwrap();
    let warden = place.serve_at(Stdio::from(terminal.slave), &[]);
    warden.until("ready");
    assert_eq!(place.pid(0), pid);
    assert_eq!(warden.end(Signal::SIGINT), Some(0));
    assert_eq!(place.pid(0), None);
    assert!(place.processes().is_empty(), "no orphans");
}
