//! Fairness between owners.

use super::hall::*;
use crate::Event;

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
