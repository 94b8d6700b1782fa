//! Fairness between owners.

use std::time::Duration;

use super::hall::*;
use crate::{Event, LeaseSettings, Request};

#[test]
fn an_owner_with_one_conversation_does_not_wait_behind_anothers_thirty() {
    let (mut hall, holders) = Hall::full();
    for session in 200..230 {
        hall.waits(&by(1, session));
    }
    let single = hall.waits(&by(2, 300)).ticket;
    // Places become free one at a time, and each is used for a while.
    for holder in &holders[..2] {
        hall.observe(Event::Aborted(holder.ticket));
        hall.pass_ms(2000);
    }
    assert!(hall.granted[&single].is_ok());
    assert_eq!(hall.granted.len(), 2);
}

/// Owners take turns, so a request is told the wait that its own owner's line means.
#[test]
fn an_owner_with_one_request_is_not_sent_away_for_anothers_hundreds() {
    let (mut hall, _) = Hall::full_with(LeaseSettings {
        queue_wait_max: Duration::from_secs(60),
        ..LeaseSettings::default()
    });
    let refused = (200..1200).find(|session| {
        let request = Request {
            streams: false,
            ..by(1, *session)
        };
        matches!(hall.ask(&request), Came::Refused(_))
    });
    assert!(refused.is_some(), "the first owner's queue grows too long");
    let single = Request {
        streams: false,
        ..by(2, 5000)
    };
    let wait = hall.waits(&single);
    let behind_all = hall.leases().predicted_wait;
    assert!(wait.predicted * 10 < behind_all, "{wait:?}, {behind_all:?}");
    let view = hall.leases();
    let waiter = view.waiters.iter().find(|one| one.ticket == wait.ticket);
    assert!(waiter.unwrap().remaining <= wait.predicted);
}

#[test]
fn within_an_owner_it_is_first_come_first_served() {
    let (mut hall, holders) = Hall::full();
    let mut tickets = Vec::new();
    for session in 200..204 {
        tickets.push(hall.waits(&by(1, session)).ticket);
        hall.pass_ms(10);
    }
    for (holder, ticket) in holders.iter().zip(&tickets) {
        assert!(!hall.granted.contains_key(ticket));
        hall.observe(Event::Aborted(holder.ticket));
        hall.pass_ms(2000);
        assert!(hall.granted.contains_key(ticket));
    }
    assert_eq!(hall.fleet.in_flight(), [4, 4]);
}
