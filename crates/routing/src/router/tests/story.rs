//! Stories: one step per line, with what the router says to it, so that a rule reads as its case.
//!
//! ```text
//! ask a = new 0            a turn of conversation `a`, which ends at once
//! hold a = sticky 0        one that stays in flight
//! ask a pin 2 = pinned 2   with a client's rank; `unsteerable`, `side` and `nameless` likewise
//! load 0 9                 nine more requests in flight on replica 0; `unload 0` ends them
//! down 0 · fail 0 · good 0 · drain 0 · undrain 0 · wait 5 · affinity off · threshold 4
//! ```

use std::collections::BTreeMap;

use super::fleet::{Fleet, r, request};
use crate::{Decision, Event, RequestClass, Ticket};

/// Runs a story to its end; the first line that comes out otherwise fails, with its number.
pub(super) fn check(fleet: &mut Fleet, story: &str) {
    let mut loads: BTreeMap<u16, Vec<Ticket>> = BTreeMap::new();
    let lines = story.lines().map(str::trim).enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let (step, expected) = match line.split_once('=') {
            Some((step, expected)) => (step.trim(), Some(expected.trim())),
            None => (line, None),
        };
        let words: Vec<&str> = step.split_whitespace().collect();
        let said = match words[0] {
            "ask" | "hold" => Some(speak(fleet, &words)),
            _ => {
                act(fleet, &mut loads, &words);
                None
            }
        };
        assert_eq!(said.as_deref(), expected, "line {number}: {line}");
    }
}

fn speak(fleet: &mut Fleet, words: &[&str]) -> String {
    let mut sent = request(words[1].bytes().map(u32::from).sum());
    let mut rest = words[2..].iter();
    while let Some(word) = rest.next() {
        match *word {
            "pin" => sent.pin = rest.next().and_then(|pin| pin.parse().ok()),
            "unsteerable" => sent.steerable = false,
            "side" => sent.class = RequestClass::Side,
            "nameless" => sent.identity = None,
            other => panic!("no such word: {other}"),
        }
    }
    match fleet.try_route(&sent) {
        Ok(decision) => {
            if words[0] == "ask" {
                fleet.finish(&decision);
            }
            said(&decision)
        }
        Err(refusal) => refusal.to_string(),
    }
}

fn said(decision: &Decision) -> String {
    let replica = decision.replica.map(|replica| replica.0.to_string());
    format!(
        "{} {}",
        decision.route.as_str(),
        replica.as_deref().unwrap_or("-")
    )
}

fn act(fleet: &mut Fleet, loads: &mut BTreeMap<u16, Vec<Ticket>>, words: &[&str]) {
    let number = words[1].parse::<u16>().ok();
    match (words[0], number) {
        ("load", Some(replica)) => {
            let requests = words[2].parse().expect("a number of requests");
            let begun = fleet.load(replica, requests);
            let tickets = begun.iter().map(|decision| decision.ticket);
            loads.entry(replica).or_default().extend(tickets);
        }
        ("unload", Some(replica)) => {
            for ticket in loads.remove(&replica).unwrap_or_default() {
                fleet.observe(Event::Aborted(ticket));
            }
        }
        ("down", Some(replica)) => fleet.observe(Event::ConnectFailed(r(replica))),
        ("fail", Some(replica)) => fleet.observe(Event::ProbeFailed(r(replica))),
        ("good", Some(replica)) => fleet.observe(Event::ProbeSucceeded(r(replica))),
        ("drain", Some(replica)) => fleet.observe(Event::Drain(r(replica))),
        ("undrain", Some(replica)) => fleet.observe(Event::Undrain(r(replica))),
        ("wait", Some(seconds)) => fleet.pass(u64::from(seconds)),
        ("threshold", value) => fleet.configure(|s| s.spill_threshold = value.map(u32::from)),
        ("affinity", None) => fleet.configure(|s| s.affinity = words[1] == "on"),
        _ => panic!("no such step: {words:?}"),
    }
}
