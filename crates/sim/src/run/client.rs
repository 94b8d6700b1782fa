//! One client: which session it runs, which turn of it, and what became of the request in flight.

use super::record::TurnRecord;
use crate::policy::Choice;
use crate::scheduler::RequestId;
use crate::workload::{Conversation, Session, Turn};

#[derive(Debug)]
pub(super) struct Client {
    pub(super) session: Session,
    pub(super) conversation: Conversation,
    /// Number of the session among this client's.
    pub(super) number: u32,
    /// Index of the turn that is next or in flight.
    pub(super) turn: usize,
    /// Replica of the last turn.
    pub(super) last_replica: Option<usize>,
    /// Since when it has been thinking.
    pub(super) idle_since_us: u64,
    pub(super) sent_us: u64,
    pub(super) asked: Option<Asked>,
    pub(super) request: Option<InFlight>,
}

/// A turn that asks the policy where to go.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) at_us: u64,
    pub(super) prompt: Vec<u32>,
    pub(super) own_known_tokens: u32,
}

/// A request in the engine.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) id: RequestId,
    pub(super) choice: Choice,
    /// The API server and rank, where vLLM's balancer chose.
    pub(super) balanced: Option<(usize, usize)>,
    pub(super) replica: usize,
    pub(super) stayed: Option<bool>,
    pub(super) prompt_tokens: u32,
    pub(super) own_known_tokens: u32,
    pub(super) queued_us: u64,
    pub(super) cached_tokens: u32,
    pub(super) sampled: u32,
    pub(super) first_byte_us: u64,
}

impl Client {
    pub(super) fn new(session: Session, now_us: u64) -> Self {
        Self {
            conversation: Conversation::new(&session),
            session,
            number: 0,
            turn: 0,
            last_replica: None,
            idle_since_us: now_us,
            sent_us: 0,
            asked: None,
            request: None,
        }
    }

    /// Takes up another session.
    pub(super) fn begin(&mut self, session: Session) {
        self.conversation = Conversation::new(&session);
        self.session = session;
        self.number += 1;
        self.turn = 0;
        self.last_replica = None;
    }

    /// The turn that is next or in flight.
    pub(super) fn turn(&self) -> Turn {
        self.session.turns[self.turn]
    }

    /// After how many tokens the answer in flight stops; `None` where it ends by length.
    pub(super) fn turn_outputs(&self) -> Option<u32> {
        self.session
            .turns
            .get(self.turn)
            .filter(|turn| turn.stops)
            .map(|turn| turn.output_tokens)
    }

    /// Whether its session has no further turn.
    pub(super) fn is_over(&self) -> bool {
        self.turn >= self.session.turns.len()
    }

    /// The record of the turn that ended, and on to the next one.
    pub(super) fn end_turn(&mut self, client: u32, request: &InFlight, end_us: u64) -> TurnRecord {
        let record = TurnRecord {
            client,
            owner: self.session.owner,
            session: self.number,
            turn: self.turn as u32,
            is_last: self.turn + 1 == self.session.turns.len(),
            replica: request.replica,
            stayed: request.stayed,
            sent_us: self.sent_us,
            first_byte_us: request.first_byte_us,
            end_us,
            queued_us: request.queued_us,
            prompt_tokens: request.prompt_tokens,
            cached_tokens: request.cached_tokens,
            shared_tokens: self.session.shared_tokens,
            own_known_tokens: request.own_known_tokens,
            output_tokens: request.sampled,
        };
        self.turn += 1;
        self.last_replica = Some(request.replica);
        self.idle_since_us = end_us;
        record
    }
}
