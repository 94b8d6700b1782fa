//! What holds around the rule: other kinds of requests, and what is off while leases are on.

use super::hall::*;
use crate::{Event, LeaseSettings, Reason, Request, Route, Settings, Steering};

#[test]
fn spill_is_off_while_conversations_hold_leases() {
    let (mut hall, holders) = Hall::full();
    hall.fleet
        .configure(|settings| settings.spill_threshold = Some(0));
    let home = holders[0].replica;
    for _ in 0..3 {
        let turn = hall.goes(&turn_of(100));
        assert_eq!((turn.route, turn.replica), (Route::Sticky, home));
        assert_eq!(turn.reason, Reason::LeaseHeld);
    }
}

/// Nobody knows where vLLM will put it, so each replica keeps room for a part of it.
#[test]
fn a_request_that_cannot_be_steered_goes_at_once_and_takes_a_part_of_every_replica() {
    let mut hall = Hall::contended_of(Settings {
        steering: Steering::Ranks,
        ..crowded(LeaseSettings::default())
    });
    let unsteered = Request {
        steerable: false,
        identity: None,
        ..turn_of(300)
    };
    // Each takes half of its footprint of both replicas; three leave room for three conversations.
    let mut balanced = Vec::new();
    for _ in 0..3 {
        let decision = hall.goes(&unsteered);
        assert_eq!((decision.route, decision.replica), (Route::Balanced, None));
        balanced.push(decision.ticket);
    }
    let mut let_in = 0;
    while let Came::Went(_) = hall.ask(&turn_of(200 + let_in)) {
        let_in += 1;
    }
    assert_eq!(let_in, 4, "of 8 that fit an empty machine");
    for ticket in balanced {
        hall.observe(Event::Aborted(ticket));
    }
    hall.pass_ms(1);
    assert!(hall.granted.len() == 1, "their room is free again");
}

#[test]
fn a_predicted_wait_is_doubled_where_sizes_differ() {
    let predicted = |large: u64| {
        let (mut hall, holders) = Hall::full();
        hall.pass_ms(4000);
        hall.finish_now(holders[0].ticket, SHARED_TOKENS);
        hall.goes(&turn_of(100));
        for session in 0..60 {
            let scale = if session % 2 == 0 { 1 } else { large };
            hall.ask(&Request {
                prompt_bytes: turn_of(0).prompt_bytes / scale,
                shared_bytes: turn_of(0).shared_bytes / scale,
                ..turn_of(300 + session)
            });
        }
        let view = hall.leases();
        // (a + 1) w T + 2 T, so this is T.
        let w = view.waiting as f64 / f64::from(view.holding);
        view.predicted_wait.as_secs_f64() / (4.0 * w + 2.0)
    };
    let (alike, mixed) = (predicted(1), predicted(12));
    let ratio = mixed / alike;
    assert!((1.9..2.1).contains(&ratio), "{mixed} against {alike}");
}
