//! Replicas that fail and come back.

use super::fleet::*;
use super::story::check;

#[test]
fn a_failed_connect_takes_a_replica_out_at_once_even_the_last() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        down 0
        ask a = moved 1
        down 1
        ask a = no replica is available
        ask b nameless = no replica is available
        affinity off
        ask a = no replica is available
        ",
    );
}

#[test]
fn ranks_share_their_server_and_fail_and_return_together() {
    check(
        &mut Fleet::ranks(4),
        "
        ask a = new 0
        down 3
        ask a = no replica is available
        ask a unsteerable = no replica is available
        good 1
        ask a = sticky 0
        ",
    );
}

#[test]
fn failed_probes_take_a_replica_out_from_the_second_in_a_row() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        fail 0
        ask a = sticky 0
        good 0
        fail 0
        ask a = sticky 0
        fail 0
        ask a = moved 1
        ",
    );
}

#[test]
fn probes_alone_never_empty_the_set() {
    check(
        &mut Fleet::urls(2),
        "
        fail 0
        fail 0
        fail 1
        fail 1
        fail 1
        ask a = new 1
        good 0
        fail 1
        ask a = moved 0
        ",
    );
    check(
        &mut Fleet::ranks(2),
        "
        fail 0
        fail 0
        fail 1
        fail 1
        ask a = new 0
        ",
    );
}

#[test]
fn a_drained_replica_does_not_count_among_those_that_a_probe_leaves() {
    check(
        &mut Fleet::urls(2),
        "
        drain 0
        fail 1
        fail 1
        ask a = new 1
        ",
    );
}

#[test]
fn one_good_probe_brings_a_replica_back_and_conversations_stay_where_they_spoke() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        ask b = new 1
        down 0
        ask a = moved 1
        good 0
        ask a = sticky 1
        ask b = sticky 1
        ",
    );
}

#[test]
fn a_silent_conversation_finds_its_home_again_after_a_short_outage() {
    check(
        &mut Fleet::urls(2),
        "
        ask a = new 0
        down 0
        wait 2
        good 0
        ask a = sticky 0
        ",
    );
}

#[test]
fn a_replica_that_came_back_takes_every_other_new_conversation_for_ten_seconds() {
    check(
        &mut Fleet::urls(2),
        "
        load 1 5
        down 0
        good 0
        ask a nameless = new 0
        ask a nameless = new 1
        ask a nameless = new 0
        ask a nameless = new 1
        wait 10
        ask a nameless = new 0
        ask a nameless = new 0
        ",
    );
}

#[test]
fn a_ramping_replica_that_is_alone_takes_everything() {
    check(
        &mut Fleet::urls(2),
        "
        down 0
        down 1
        good 0
        ask a nameless = new 0
        ask a nameless = new 0
        ask a nameless = new 0
        ",
    );
}
