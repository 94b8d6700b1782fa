//! The rules: which replica serves a request, given everything that is known, and by which rule.
//!
//! Choosing changes nothing; what a choice means for counts, homes and rounds is applied by the
//! router afterwards. So every row of the decision table reads as one function here.

use crate::placement::least_loaded;
use crate::replica::Replicas;
use crate::table::Conversation;
use crate::{Reason, Refusal, ReplicaIndex, Request, Route, Score, Settings, Steering, Time};

/// How many fewer requests in flight another replica needs before a conversation spills to it: the
/// cache that is left behind costs more than one place in a queue.
const SPILL_MARGIN: u32 = 2;

/// Spilled turns in a row with which the home moves.
const SPILLS_THAT_MOVE: u8 = 2;

/// Where ties and the round-robin go on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rounds {
    pub(crate) placed: usize,
    pub(crate) balanced: usize,
}

/// A chosen replica and the rule that chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) route: Route,
    /// `None` where the engine's balancer chooses.
    pub(crate) replica: Option<ReplicaIndex>,
    pub(crate) reason: Reason,
    /// A ramping replica that would have been it, but that it was not its turn.
    pub(crate) held_back: Option<ReplicaIndex>,
}

/// Everything a choice depends on.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) now: Time,
    pub(crate) settings: &'a Settings,
    pub(crate) replicas: &'a Replicas,
    pub(crate) scores: &'a [Score],
    pub(crate) rounds: Rounds,
    pub(crate) conversation: Option<&'a Conversation>,
}

impl Situation<'_> {
    /// The decision table, for a request's first attempt.
    pub(crate) fn choose(&self, request: &Request) -> Result<Choice, Refusal> {
        if let Some(pinned) = self.pinned(request)? {
            return Ok(pinned);
        }
        if !self.replicas.is_any_open() {
            return Err(Refusal::NoReplica);
        }
        if !self.settings.affinity {
            return self.balanced(Reason::AffinityOff, None);
        }
        if !request.steerable {
            return self.balanced(Reason::NotSteerable, None);
        }
        match self.conversation {
            Some(conversation) => self.at_home(conversation, conversation.main.takes_turn(request)),
            None => self.placed(Route::New, Reason::LeastLoaded, None),
        }
    }

    /// A second attempt, anywhere but where the first one failed.
    pub(crate) fn choose_again(
        &self,
        first: Route,
        failed: ReplicaIndex,
    ) -> Result<Choice, Refusal> {
        if !self.replicas.is_any_open() {
            return Err(Refusal::NoReplica);
        }
        let reason = Reason::Retry { failed };
        if first == Route::Balanced {
            return self.balanced(reason, Some(failed));
        }
        let Some(home) = self.conversation.map(|conversation| conversation.home) else {
            return self.placed(Route::New, reason, Some(failed));
        };
        if home != failed && self.is_available(home) {
            return Ok(choice(Route::Sticky, home, reason));
        }
        let route = match first {
            // It never spoke where it was sent, so that is no home to keep.
            Route::New | Route::Moved => first,
            _ if self.replicas.is_open(home) => Route::Spilled,
            _ => Route::Moved,
        };
        self.placed(route, reason, Some(failed))
    }

    /// The client's word, where it gave one that the engine will heed.
    pub(crate) fn pinned(&self, request: &Request) -> Result<Option<Choice>, Refusal> {
        let Some(pin) = request.pin else {
            return Ok(None);
        };
        let replica = u16::try_from(pin)
            .ok()
            .filter(|index| usize::from(*index) < self.replicas.len())
            .map(ReplicaIndex)
            .ok_or(Refusal::PinOutOfRange {
                pin,
                replicas: self.replicas.len() as u16,
            })?;
        if !request.steerable && self.replicas.steering() == Steering::Ranks {
            return Ok(None);
        }
        if !self.replicas.is_open(replica) {
            return Err(Refusal::PinnedReplicaOut { replica });
        }
        Ok(Some(choice(Route::Pinned, replica, Reason::ClientPin)))
    }

    /// The engine's balancer, or round-robin over what is available.
    pub(crate) fn balanced(
        &self,
        reason: Reason,
        not: Option<ReplicaIndex>,
    ) -> Result<Choice, Refusal> {
        if self.replicas.steering() == Steering::Ranks {
            return Ok(Choice {
                route: Route::Balanced,
                replica: None,
                reason,
                held_back: None,
            });
        }
        let (before, after) = self
            .scores
            .split_at(self.rounds.balanced.min(self.scores.len()));
        let next = after
            .iter()
            .chain(before)
            .find(|score| score.available && Some(score.replica) != not)
            .ok_or(Refusal::RetriesSpent)?;
        Ok(choice(Route::Balanced, next.replica, reason))
    }

    /// Least loaded; a replica that is ramping up gets every other placement, unless it is alone.
    fn placed(
        &self,
        route: Route,
        reason: Reason,
        not: Option<ReplicaIndex>,
    ) -> Result<Choice, Refusal> {
        let is_candidate = |score: &Score| score.available && Some(score.replica) != not;
        let best = least_loaded(self.scores, self.rounds.placed, is_candidate)
            .ok_or(Refusal::RetriesSpent)?;
        let is_held_back = |replica| self.replicas.holds_back(self.now, replica);
        if is_held_back(best)
            && let Some(other) = least_loaded(self.scores, self.rounds.placed, |score| {
                is_candidate(score) && !is_held_back(score.replica)
            })
        {
            return Ok(Choice {
                held_back: Some(best),
                ..choice(route, other, reason)
            });
        }
        Ok(choice(route, best, reason))
    }

    /// A known conversation: its home, unless that is gone, wedged or over its threshold.
    fn at_home(&self, conversation: &Conversation, is_turn: bool) -> Result<Choice, Refusal> {
        let home = conversation.home;
        if !self.replicas.is_open(home) {
            return self.placed(Route::Moved, Reason::HomeOut { home }, None);
        }
        let score = self.scores[usize::from(home.0)];
        let threshold = self.settings.spill_threshold_effective();
        let (spill, stays) = if !score.available {
            let other = self.spill_target(conversation, |other| other.replica != home);
            (
                other.map(|to| (to, Reason::HomeWedged { home })),
                Reason::Home,
            )
        } else if score.in_flight > threshold {
            let in_flight = score.in_flight;
            let other = self.spill_target(conversation, |other| {
                other.in_flight <= threshold && other.in_flight + SPILL_MARGIN <= in_flight
            });
            let reason = Reason::HomeOverThreshold {
                home,
                in_flight,
                threshold,
            };
            (other.map(|to| (to, reason)), Reason::HomeNoBetter)
        } else {
            (None, Reason::Home)
        };
        Ok(match spill {
            Some((to, _)) if is_turn && conversation.spills + 1 >= SPILLS_THAT_MOVE => {
                choice(Route::Spilled, to, Reason::SpilledTwice { home })
            }
            Some((to, reason)) => choice(Route::Spilled, to, reason),
            None if conversation.moved_by_operator => {
                choice(Route::Moved, home, Reason::MovedByOperator)
            }
            None => choice(Route::Sticky, home, stays),
        })
    }

    /// The replica that served the last spill and has some of the cache, else the least loaded.
    fn spill_target(
        &self,
        conversation: &Conversation,
        is_better: impl Fn(&Score) -> bool,
    ) -> Option<ReplicaIndex> {
        let is_candidate = |score: &Score| score.available && is_better(score);
        conversation
            .last_spill
            .filter(|last| {
                self.scores
                    .get(usize::from(last.0))
                    .is_some_and(is_candidate)
            })
            .or_else(|| least_loaded(self.scores, self.rounds.placed, is_candidate))
    }

    fn is_available(&self, replica: ReplicaIndex) -> bool {
        let score = self.scores.get(usize::from(replica.0));
        score.is_some_and(|score| score.available)
    }
}

impl Choice {
    /// Whether the conversation lives at the chosen replica from now on.
    pub(crate) fn moves_home(&self) -> bool {
        matches!(self.route, Route::New | Route::Moved)
            || matches!(self.reason, Reason::SpilledTwice { .. })
    }

    /// Whether the replica was found by load, so that the round of ties goes on after it.
    pub(crate) fn is_placement(&self) -> bool {
        self.moves_home() || self.route == Route::Spilled
    }
}

pub(crate) fn choice(route: Route, replica: ReplicaIndex, reason: Reason) -> Choice {
    Choice {
        route,
        replica: Some(replica),
        reason,
        held_back: None,
    }
}
