//! New conversations, and those that stay.

use super::fleet::*;
use crate::Route;

#[test]
fn a_conversation_stays_on_the_replica_of_its_first_turn() {
    let mut fleet = Fleet::ranks(4);
    let first = fleet.turn(1);
    assert_eq!(first.route, Route::New);
    for _ in 0..5 {
        fleet.turn(2);
        let next = fleet.turn(1);
        assert_eq!(next.route, Route::Sticky);
        assert_eq!(next.replica, first.replica);
    }
}
