//! Scenarios worth a name, and the laws of the pool under any order of events. Equality with vLLM
//! is `check_trace`'s to prove.

use super::*;
use proptest::prelude::*;

const BLOCK: u32 = 4;

fn scheduler(num_blocks: u32, max_num_batched_tokens: u32, max_num_seqs: u32) -> Scheduler {
    Scheduler::new(SchedulerConfig {
        num_blocks,
        block_size: BLOCK,
        max_num_batched_tokens,
        max_num_seqs,
        max_model_len: 64,
        host_blocks: 0,
    })
}

/// `count` tokens that no other `stream` has.
fn tokens(stream: u32, count: u32) -> Vec<u32> {
    (0..count)
        .map(|position| stream * 1000 + position)
        .collect()
}

fn scheduled(step: &Step) -> Vec<(u64, u32, u32)> {
    step.scheduled
        .iter()
        .map(|s| (s.id.0, s.tokens, s.context))
        .collect()
}

/// Completes a step with arbitrary outputs, none of which stops.
fn complete(scheduler: &mut Scheduler, step: &Step) -> Vec<u64> {
    let outputs: Vec<_> = step
        .scheduled
        .iter()
        .filter(|s| s.samples)
        .map(|s| (s.id, 900_000, false))
        .collect();
    scheduler
        .complete(step, &outputs)
        .into_iter()
        .map(|id| id.0)
        .collect()
}

/// Runs until nothing is left to do.
fn drain(scheduler: &mut Scheduler) {
    while let Some(step) = scheduler.step() {
        complete(scheduler, &step);
    }
}

#[test]
fn a_long_prompt_is_computed_in_chunks_of_the_budget() {
    let mut s = scheduler(20, 8, 4);
    s.add(RequestId(1), tokens(1, 20), 1);
    for (tokens, context) in [(8, 0), (8, 8), (4, 16)] {
        let step = s.step().unwrap();
        assert_eq!(scheduled(&step), [(1, tokens, context)]);
        assert_eq!(step.scheduled[0].samples, context == 16);
        complete(&mut s, &step);
    }
    assert_eq!((s.running(), s.free_blocks()), (0, 19));
}

#[test]
fn an_evicted_prefix_comes_back_from_host_memory() {
    let run = |host_blocks| {
        let config = SchedulerConfig {
            host_blocks,
            ..scheduler(8, 32, 4).config().clone()
        };
        let mut s = Scheduler::new(config);
        for stream in [1, 2] {
            // Each takes six of the seven blocks.
            s.add(RequestId(stream), tokens(stream as u32, 23), 1);
            drain(&mut s);
        }
        s.add(RequestId(3), tokens(1, 23), 1);
        let step = s.step().unwrap();
        let counters = s.counters();
        (
            scheduled(&step),
            step.loaded_tokens,
            counters.prompt_tokens_cached,
            counters.prompt_tokens_loaded,
        )
    };
    // The cache itself keeps the head of the first prompt's chain in its seventh block.
    assert_eq!(run(0), (vec![(3, 19, 4)], 0, 4, 0));
    assert_eq!(run(100), (vec![(3, 3, 20)], 16, 20, 16));
    // A tier that holds less than both prompts drops the first one's head, and nothing is found
    // behind a gap.
    let (scheduled, loaded, ..) = run(7);
    assert_eq!((scheduled, loaded), (vec![(3, 19, 4)], 0));
}

#[test]
fn a_request_hits_what_an_earlier_one_of_the_same_step_registers() {
    let mut s = scheduler(20, 32, 4);
    s.add(RequestId(1), tokens(1, 9), 1);
    s.add(RequestId(2), [tokens(1, 8), tokens(2, 3)].concat(), 1);
    assert_eq!(scheduled(&s.step().unwrap()), [(1, 9, 0), (2, 3, 8)]);
}

#[test]
fn a_fully_cached_prompt_computes_its_last_block_again() {
    let mut s = scheduler(20, 32, 4);
    s.add(RequestId(1), tokens(1, 8), 1);
    drain(&mut s);
    s.add(RequestId(2), tokens(1, 8), 1);
    assert_eq!(scheduled(&s.step().unwrap()), [(2, 4, 4)]);
    assert_eq!(s.cached_tokens(RequestId(2)), Some(4));
}

#[test]
fn freed_blocks_return_tail_first_unhashed_ones_to_the_front() {
    let mut s = scheduler(8, 32, 4);
    s.add(RequestId(1), tokens(1, 10), 1);
    let step = s.step().unwrap();
    assert_eq!(s.free_order(), [4, 5, 6, 7]);
    complete(&mut s, &step);
    assert_eq!(s.free_order(), [3, 4, 5, 6, 7, 2, 1]);
}

#[test]
fn of_equal_blocks_the_first_registered_is_found_until_it_is_evicted() {
    let mut s = scheduler(7, 32, 4);
    // Both compute the only full block of the same prompt: blocks 1 and 2.
    s.add(RequestId(1), tokens(1, 4), 8);
    s.add(RequestId(2), tokens(1, 4), 8);
    s.step().unwrap();
    s.abort(RequestId(1));
    s.abort(RequestId(2));
    assert_eq!(s.free_order(), [3, 4, 5, 6, 1, 2]);
    // A third finds the first of them.
    s.add(RequestId(3), [tokens(1, 4), tokens(3, 1)].concat(), 8);
    s.step().unwrap();
    assert_eq!(s.free_order(), [4, 5, 6, 2]);
    s.abort(RequestId(3));
    assert_eq!(s.free_order(), [3, 4, 5, 6, 2, 1]);
    // Once block 2 is taken for something else, block 1 still serves.
    s.add(RequestId(4), tokens(4, 18), 8);
    s.step().unwrap();
    s.add(RequestId(5), [tokens(1, 4), tokens(5, 1)].concat(), 8);
    assert!(
        s.step()
            .is_none_or(|step| step.scheduled.iter().all(|s| s.id != RequestId(5)))
    );
    s.abort(RequestId(4));
    s.step().unwrap();
    assert_eq!(s.cached_tokens(RequestId(5)), Some(4));
}

#[test]
fn where_a_block_is_lacking_the_last_admitted_gives_way_and_nobody_is_admitted() {
    let mut s = scheduler(6, 32, 4);
    s.add(RequestId(1), tokens(1, 8), 16);
    s.add(RequestId(2), tokens(2, 8), 16);
    let step = s.step().unwrap();
    complete(&mut s, &step);
    s.add(RequestId(3), tokens(3, 2), 16);
    // One free block for two requests that both need one.
    let step = s.step().unwrap();
    assert_eq!(scheduled(&step), [(1, 1, 8)]);
    assert_eq!(step.preempted, [RequestId(2)]);
    assert_eq!((s.running(), s.waiting()), (1, 2));
    // It waits at the front of the queue, ahead of those that came later.
    complete(&mut s, &step);
    s.abort(RequestId(1));
    let step = s.step().unwrap();
    assert_eq!(scheduled(&step)[0].0, 2);
    assert_eq!(s.counters().preemptions, 1);
}

#[test]
fn a_blocked_head_holds_up_what_would_fit_and_counts_at_every_look_up() {
    let mut s = scheduler(6, 32, 4);
    s.add(RequestId(1), tokens(1, 16), 3);
    let step = s.step().unwrap();
    complete(&mut s, &step);
    s.add(RequestId(2), tokens(2, 12), 1);
    s.add(RequestId(3), tokens(3, 1), 1);
    let step = s.step().unwrap();
    assert_eq!(scheduled(&step), [(1, 1, 16)]);
    assert_eq!(s.waiting(), 2);
    assert_eq!(s.counters().prefix_cache_queries, 16 + 12);
    complete(&mut s, &step);
    let step = s.step().unwrap();
    assert_eq!(s.counters().prefix_cache_queries, 16 + 12 + 12);
    assert_eq!(s.counters().prompt_tokens, 16);
    complete(&mut s, &step);
    assert_eq!(scheduled(&s.step().unwrap()), [(2, 12, 0), (3, 1, 0)]);
}

#[test]
fn with_two_steps_in_flight_a_stop_is_seen_one_step_late_and_a_length_limit_is_not() {
    let mut s = scheduler(20, 32, 4);
    s.add(RequestId(1), tokens(1, 3), 9);
    s.add(RequestId(2), tokens(2, 3), 1);
    let first = s.step().unwrap();
    let second = s.step().unwrap();
    assert_eq!(scheduled(&second), [(1, 1, 3)]);
    let outputs = [(RequestId(1), 7, true), (RequestId(2), 7, false)];
    assert_eq!(s.complete(&first, &outputs), [RequestId(1), RequestId(2)]);
    assert!(complete(&mut s, &second).is_empty());
    assert_eq!((s.running(), s.free_blocks()), (0, 19));
}

#[test]
fn what_can_never_fit_is_told_beforehand() {
    let s = scheduler(5, 32, 4);
    assert!(s.can_ever_fit(16));
    assert!(!s.can_ever_fit(17));
    assert!(!scheduler(100, 32, 4).can_ever_fit(64));
}

/// What may happen to a scheduler.
#[derive(Debug, Clone)]
enum Action {
    Add {
        root: u32,
        shared: u32,
        own: u32,
        output_max: u32,
    },
    Step,
    Complete {
        stops: bool,
    },
    Abort(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (0..3u32, 0..20u32, 1..20u32, 1..12u32).prop_map(|(root, shared, own, output_max)| {
            Action::Add { root, shared, own, output_max }
        }),
        4 => Just(Action::Step),
        4 => prop::bool::weighted(0.1).prop_map(|stops| Action::Complete { stops }),
        1 => (0..40u64).prop_map(Action::Abort),
    ]
}

impl Scheduler {
    /// Every block but the null block is either free or held, and is held as often as it is named.
    fn assert_blocks_are_conserved(&self) {
        let mut held = vec![0; self.config.num_blocks as usize];
        for slot in self.running.iter().chain(&self.waiting) {
            for block in &self.requests.get(*slot).blocks {
                held[*block as usize] += 1;
            }
        }
        let free = self.pool.free_order();
        assert_eq!(free.len(), self.pool.free_count());
        for block in &free {
            assert_eq!(held[*block as usize], 0, "block {block} is free and held");
        }
        let in_use = held.iter().filter(|count| **count > 0).count();
        assert_eq!(free.len() + in_use, self.config.num_blocks as usize - 1);
        assert_eq!(held[0], 0);
        for block in 1..self.config.num_blocks {
            assert_eq!(self.pool.is_unreferenced(block), held[block as usize] == 0);
        }
    }
}

proptest! {
    /// With up to two steps in flight, as engines run it.
    #[test]
    fn no_block_is_lost_or_held_and_free_under_any_order_of_events(
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let mut s = scheduler(16, 12, 3);
        let mut next_id = 0;
        let mut in_flight = VecDeque::new();
        for action in actions {
            match action {
                Action::Add { root, shared, own, output_max } => {
                    let prompt = [tokens(root, shared), tokens(100 + next_id, own)].concat();
                    if s.can_ever_fit(prompt.len() as u32) {
                        s.add(RequestId(u64::from(next_id)), prompt, output_max);
                        next_id += 1;
                    }
                }
                Action::Step if in_flight.len() < 2 => in_flight.extend(s.step()),
                Action::Step => {}
                Action::Complete { stops } => {
                    if let Some(step) = in_flight.pop_front() {
                        let outputs: Vec<_> = step.scheduled.iter().filter(|r| r.samples)
                            .map(|r| (r.id, 5, stops)).collect();
                        s.complete(&step, &outputs);
                    }
                }
                Action::Abort(id) => s.abort(RequestId(id)),
            }
            s.assert_blocks_are_conserved();
            prop_assert!(s.running() <= 3);
        }
    }
}
