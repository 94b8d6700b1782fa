//! Turns of a conversation, and side requests that share its id.

use super::fleet::*;
use super::story::check;
use crate::{Event, HomeRecord, Request, RequestClass, Route};

/// The lineage of titles and page summaries.
const OTHER: u64 = 2;

fn sized(lineage: u64, prompt_bytes: u64) -> Request {
    Request {
        lineage,
        prompt_bytes,
        shared_bytes: prompt_bytes / 4,
        ..request(1)
    }
}

fn serve(fleet: &mut Fleet, request: &Request) -> (Route, u32) {
    let decision = fleet.route(request);
    fleet.finish(&decision);
    (decision.route, decision.turn)
}

fn record(fleet: &Fleet) -> HomeRecord {
    let key = identity(1).conversation;
    let view = fleet.router.conversation(fleet.now, key);
    view.expect("the conversation is known").record
}

#[test]
fn a_side_request_goes_home_and_touches_neither_turns_nor_size_nor_lineage() {
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 40_000));
    let before = record(&fleet);
    let side = fleet.route(&sized(OTHER, 20_000));
    fleet.observe(Event::Finished(side.ticket, Some(usage(5_000, 20))));
    assert_eq!((side.route, side.turn), (Route::Sticky, 1));
    assert_eq!(record(&fleet), before);
}

#[test]
fn the_clients_word_decides_over_the_lineage() {
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 40_000));
    let of_class = |class, lineage| Request {
        class,
        ..sized(lineage, 50_000)
    };
    let side = serve(&mut fleet, &of_class(RequestClass::Side, MAIN));
    assert_eq!(side, (Route::Sticky, 1));
    let turn = serve(&mut fleet, &of_class(RequestClass::Turn, OTHER));
    assert_eq!(turn, (Route::Sticky, 2));
    assert_eq!(record(&fleet).lineage, OTHER);
}

#[test]
fn a_conversation_that_begins_with_its_title_gets_its_main_lineage_from_the_longer_prompt() {
    let mut fleet = Fleet::ranks(4);
    assert_eq!(serve(&mut fleet, &sized(OTHER, 2_000)), (Route::New, 1));
    assert_eq!(serve(&mut fleet, &sized(MAIN, 30_000)), (Route::Sticky, 1));
    assert_eq!(record(&fleet).lineage, MAIN);
    assert_eq!(serve(&mut fleet, &sized(OTHER, 2_000)), (Route::Sticky, 1));
    assert_eq!(serve(&mut fleet, &sized(MAIN, 31_000)), (Route::Sticky, 2));
}

#[test]
fn one_longer_summary_does_not_take_an_established_conversation_over() {
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 30_000));
    serve(&mut fleet, &sized(MAIN, 31_000));
    assert_eq!(serve(&mut fleet, &sized(OTHER, 100_000)).1, 2);
    assert_eq!(serve(&mut fleet, &sized(MAIN, 32_000)).1, 3);
    assert_eq!(serve(&mut fleet, &sized(OTHER, 100_000)).1, 3);
    assert_eq!(record(&fleet).lineage, MAIN);
}

#[test]
fn summaries_of_long_pages_right_after_the_first_turn_take_nothing_over() {
    let page = |prompt_bytes| Request {
        shared_bytes: 200,
        ..sized(OTHER, prompt_bytes)
    };
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 30_000));
    for prompt_bytes in [100_000, 90_000, 110_000] {
        assert_eq!(serve(&mut fleet, &page(prompt_bytes)).1, 1);
    }
    assert_eq!(serve(&mut fleet, &sized(MAIN, 31_000)).1, 2);
    for prompt_bytes in [100_000, 90_000, 110_000] {
        assert_eq!(serve(&mut fleet, &page(prompt_bytes)).1, 2);
    }
    assert_eq!(serve(&mut fleet, &sized(MAIN, 32_000)).1, 3);
    assert_eq!(record(&fleet).lineage, MAIN);
}

#[test]
fn a_shorter_system_prompt_takes_over_with_its_second_request_that_goes_on() {
    let shorter = |prompt_bytes, front| Request {
        shared_bytes: 200,
        front,
        ..sized(OTHER, prompt_bytes)
    };
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 30_000));
    assert_eq!(serve(&mut fleet, &shorter(31_000, 7)).1, 1);
    serve(&mut fleet, &shorter(32_000, 7));
    assert_eq!(record(&fleet).lineage, OTHER);
}

#[test]
fn a_longer_lineage_that_keeps_speaking_becomes_the_main_one() {
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 30_000));
    serve(&mut fleet, &sized(MAIN, 31_000));
    serve(&mut fleet, &sized(OTHER, 40_000));
    assert_eq!(serve(&mut fleet, &sized(OTHER, 41_000)).1, 3);
    assert_eq!(record(&fleet).lineage, OTHER);
}

#[test]
fn a_compacted_conversation_stays_the_main_lineage_and_shrinks() {
    let mut fleet = Fleet::ranks(4);
    serve(&mut fleet, &sized(MAIN, 400_000));
    serve(&mut fleet, &sized(MAIN, 40_000));
    assert_eq!(record(&fleet).turns, 2);
    assert_eq!(record(&fleet).context_tokens, 10_000);
}

#[test]
fn a_side_request_that_spills_is_no_spill_of_the_conversation() {
    check(
        &mut Fleet::ranks(2),
        "
        threshold 1
        ask a = new 0
        load 0 3
        ask a side = spilled 1
        ask a = spilled 1
        ask a side = spilled 1
        unload 0
        ask a = sticky 0
        ",
    );
}

#[test]
fn subagents_are_placed_by_load_apart_from_their_parent() {
    let mut fleet = Fleet::ranks(4);
    let parent = fleet.begin(1);
    let mut replicas: Vec<_> = (2..5).map(|agent| fleet.begin(agent).replica).collect();
    replicas.push(parent.replica);
    replicas.sort_unstable();
    assert_eq!(replicas, [0, 1, 2, 3].map(|index| Some(r(index))));
}
