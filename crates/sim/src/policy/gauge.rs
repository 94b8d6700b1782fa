//! The affinity that was published: a new conversation goes where the last scrape saw the fewest
//! running requests, ties at random, and stays there unless its home is over the spill threshold.
//!
//! A gauge is up to a second old and counts no waiting request, so conversations that start together
//! pile up. That is what makes this policy place worse than the router does.

use super::{Ask, Choice};
use crate::fleet::Fleet;
use crate::random::Random;
use std::collections::HashMap;

#[derive(Debug)]
pub(super) struct Gauge {
    homes: HashMap<u64, usize>,
    running: Vec<usize>,
    in_flight: Vec<u32>,
    spill_threshold: u32,
}

impl Gauge {
    pub(super) fn new(fleet: &Fleet, spill_threshold: Option<u32>) -> Self {
        let replicas = fleet.replicas.len();
        Self {
            homes: HashMap::new(),
            running: vec![0; replicas],
            in_flight: vec![0; replicas],
            spill_threshold: spill_threshold.unwrap_or((fleet.profile.max_num_seqs / 4).max(1)),
        }
    }

    pub(super) fn choose(&mut self, ask: &Ask, random: &mut Random) -> Choice {
        let (replica, stayed) = match self.homes.get(&ask.session) {
            None => {
                let replica = self.least_running(random);
                self.homes.insert(ask.session, replica);
                (replica, None)
            }
            Some(&home) if self.in_flight[home] > self.spill_threshold => {
                let replica = self.least_running(random);
                (replica, Some(replica == home))
            }
            Some(&home) => (home, Some(true)),
        };
        self.in_flight[replica] += 1;
        Choice {
            replica: Some(replica),
            stayed,
            ticket: None,
        }
    }

    pub(super) fn finished(&mut self, choice: &Choice) {
        if let Some(replica) = choice.replica {
            self.in_flight[replica] -= 1;
        }
    }

    pub(super) fn scraped(&mut self, fleet: &Fleet) {
        for (running, replica) in self.running.iter_mut().zip(&fleet.replicas) {
            *running = replica.scheduler.running();
        }
    }

    fn least_running(&self, random: &mut Random) -> usize {
        let least = self.running.iter().min().copied().unwrap_or(0);
        let ties: Vec<usize> = (0..self.running.len())
            .filter(|replica| self.running[*replica] == least)
            .collect();
        ties[random.below(ties.len() as u64) as usize]
    }
}
