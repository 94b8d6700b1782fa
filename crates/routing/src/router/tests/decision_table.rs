//! The decision table, row by row.

use super::fleet::Fleet;
use super::story::check;

#[test]
fn an_integer_pin_goes_to_its_replica_and_the_conversations_home_stays() {
    check(
        &mut Fleet::ranks(4),
        "
        ask a = new 0
        ask a pin 2 = pinned 2
        ask a = sticky 0
        ",
    );
}

#[test]
fn a_pin_gives_an_unknown_conversation_no_home() {
    check(
        &mut Fleet::ranks(4),
        "
        ask a pin 2 = pinned 2
        ask a = new 0
        ",
    );
}

#[test]
fn a_pin_out_of_range_is_refused() {
    check(
        &mut Fleet::ranks(4),
        "
        ask a pin 4 = replica 4 does not exist: this model has replicas 0 to 3
        ask a pin -1 = replica -1 does not exist: this model has replicas 0 to 3
        ask a pin 9223372036854775807 = replica 9223372036854775807 does not exist: this model has replicas 0 to 3
        ask a pin 4 unsteerable = replica 4 does not exist: this model has replicas 0 to 3
        ",
    );
}

#[test]
fn a_pin_to_a_replica_that_is_out_or_drained_goes_nowhere_else() {
    check(
        &mut Fleet::urls(3),
        "
        down 1
        ask a pin 1 = replica 1 is not available
        drain 2
        ask a pin 2 = replica 2 is not available
        ask a pin 0 = pinned 0
        ",
    );
}

#[test]
fn a_pin_that_the_engine_would_ignore_is_balanced() {
    check(&mut Fleet::ranks(4), "ask a pin 1 unsteerable = balanced -");
    check(&mut Fleet::urls(4), "ask a pin 1 unsteerable = pinned 1");
}

#[test]
fn without_affinity_ranks_are_left_to_the_engines_balancer() {
    check(
        &mut Fleet::ranks(4),
        "
        affinity off
        ask a = balanced -
        ask a nameless = balanced -
        ask a pin 3 = pinned 3
        ",
    );
}

#[test]
fn without_affinity_urls_are_taken_in_turn_over_what_is_available() {
    check(
        &mut Fleet::urls(3),
        "
        affinity off
        ask a = balanced 0
        ask a = balanced 1
        ask b = balanced 2
        down 0
        ask a = balanced 1
        ask a = balanced 2
        ask a = balanced 1
        ",
    );
}

#[test]
fn an_api_that_cannot_be_steered_is_balanced() {
    check(
        &mut Fleet::ranks(4),
        "
        ask a = new 0
        ask a unsteerable = balanced -
        ask a = sticky 0
        ",
    );
    check(
        &mut Fleet::urls(2),
        "
        ask a unsteerable = balanced 0
        ask a unsteerable = balanced 1
        ",
    );
}

#[test]
fn affinity_and_threshold_change_with_the_next_request() {
    check(
        &mut Fleet::ranks(2),
        "
        ask a = new 0
        affinity off
        ask a = balanced -
        affinity on
        ask a = sticky 0
        load 0 4
        ask a = sticky 0
        threshold 3
        ask a = spilled 1
        threshold auto
        ask a = sticky 0
        ",
    );
}

#[test]
fn a_new_conversation_goes_to_the_replica_with_the_fewest_requests() {
    check(
        &mut Fleet::ranks(3),
        "
        load 0 2
        load 1 1
        hold a = new 2
        hold b = new 1
        hold c = new 2
        ",
    );
}

#[test]
fn equally_loaded_replicas_take_turns() {
    check(
        &mut Fleet::ranks(3),
        "
        ask a nameless = new 0
        ask a nameless = new 1
        ask a nameless = new 2
        ask a nameless = new 0
        ",
    );
}

#[test]
fn the_fewest_conversations_decide_where_requests_and_fill_are_equal() {
    let mut fleet = Fleet::ranks(2);
    check(
        &mut fleet,
        "
        ask a = new 0
        ask b = new 1
        ask c = new 0
        ask d = new 1
        ",
    );
    // It would be the turn of 0.
    for name in [b'b', b'd'] {
        let key = super::fleet::identity(u32::from(name)).conversation;
        assert!(fleet.router.forget(key));
    }
    check(&mut fleet, "ask e = new 1");
}

#[test]
fn a_known_conversation_at_or_below_the_threshold_goes_home() {
    check(
        &mut Fleet::ranks(2),
        "
        ask a = new 0
        load 0 8
        ask a = sticky 0
        load 0 1
        ask a = spilled 1
        ",
    );
}

#[test]
fn a_conversation_spills_only_to_a_replica_at_or_below_the_threshold_with_2_fewer_in_flight() {
    check(
        &mut Fleet::ranks(2),
        "
        threshold 2
        ask a = new 0
        load 0 3
        load 1 2
        ask a = sticky 0
        unload 1
        load 1 1
        ask a = spilled 1
        load 0 9
        load 1 2
        ask a = sticky 0
        ",
    );
}

#[test]
fn a_spill_goes_to_the_replica_that_served_the_last_one() {
    check(
        &mut Fleet::ranks(4),
        "
        threshold 2
        ask a = new 0
        load 0 3
        load 1 1
        load 3 1
        ask a = spilled 2
        unload 0
        ask a = sticky 0
        load 0 4
        load 2 2
        ask a = spilled 2
        ",
    );
}

#[test]
fn a_spilled_conversation_returns_home_and_moves_only_after_two_spills_in_a_row() {
    check(
        &mut Fleet::ranks(2),
        "
        threshold 1
        ask a = new 0
        load 0 3
        ask a = spilled 1
        unload 0
        ask a = sticky 0
        load 0 3
        ask a = spilled 1
        ask a = spilled 1
        unload 0
        ask a = sticky 1
        ",
    );
}

#[test]
fn a_conversation_whose_home_is_gone_moves_to_the_least_loaded_and_lives_there() {
    check(
        &mut Fleet::urls(3),
        "
        ask a = new 0
        down 0
        load 1 1
        ask a = moved 2
        good 0
        ask a = sticky 2
        ",
    );
}

#[test]
fn a_conversation_whose_home_drains_moves_when_it_speaks() {
    check(
        &mut Fleet::ranks(2),
        "
        ask a = new 0
        ask b = new 1
        drain 0
        ask b = sticky 1
        ask a = moved 1
        undrain 0
        ask a = sticky 1
        ",
    );
}

#[test]
fn a_request_without_a_name_is_placed_by_load_each_time() {
    let mut fleet = Fleet::ranks(2);
    check(
        &mut fleet,
        "
        load 0 1
        ask a nameless = new 1
        ask a nameless = new 1
        ",
    );
    assert_eq!(fleet.router.snapshot(fleet.now).conversations, 0);
}
