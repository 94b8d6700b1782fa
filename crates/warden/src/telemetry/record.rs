//! One request's steps, joined.

use std::time::Duration;

use routing::{Decision, ReplicaIndex, Route, ServedTurn, Time, Wait};
use vllm::Usage;

use super::{
    End, Filter, RequestInfo,
    cold::{ColdTurn, LastTurns, Note},
    words,
};
use crate::{clock::epoch_s, history::Noted};

/// A request from its arrival on.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) info: RequestInfo,
    /// Since when it waits for room, and what it was told then; `None` where it does not wait.
    waiting: Option<(Time, Wait)>,
    /// When it was first routed, and the last decision.
    routing: Option<(Time, Decision)>,
    first_byte: Option<Time>,
    ended: Option<Ended>,
    note: Option<Note>,
}

#[derive(Debug, Clone)]
struct Ended {
    at: Time,
    end: End,
    status: u16,
    usage: Option<Usage>,
}

impl Record {
    pub(super) fn new(info: RequestInfo) -> Self {
        Self {
            info,
            waiting: None,
            routing: None,
            first_byte: None,
            ended: None,
            note: None,
        }
    }

    /// It waits for room.
    pub(super) fn waits(&mut self, at: Time, wait: Wait) {
        self.waiting = Some((at, wait));
    }

    /// A second decision (after a failed attempt) replaces the first, but not its time.
    pub(super) fn routed(&mut self, at: Time, decision: Decision) {
        let first = self.routing.as_ref().map_or(at, |(first, _)| *first);
        self.routing = Some((first, decision));
        self.waiting = None;
    }

    pub(super) fn first_byte(&mut self, at: Time) {
        self.first_byte.get_or_insert(at);
    }

    pub(super) fn ended(&mut self, at: Time, end: End, status: u16, usage: Option<Usage>) {
        self.ended = Some(Ended {
            at,
            end,
            status,
            usage,
        });
    }

    /// Once it has ended: holds it against its conversation's turn before. What it is compared by
    /// then belongs to the table.
    pub(super) fn judge(&mut self, last_turns: &mut LastTurns) {
        let Some(prompt) = self.info.prompt.take() else {
            return;
        };
        let is_served = self.end() == Some(End::Complete);
        let Some((decision, model, ended)) = self
            .routing
            .as_ref()
            .zip(self.info.model.as_ref())
            .zip(self.ended_at())
            .map(|(((_, decision), model), ended)| (decision, model, ended))
            .filter(|_| is_served)
        else {
            return;
        };
        let usage = self.usage().unwrap_or_default();
        let served = ServedTurn {
            replica: decision.replica,
            route: decision.route,
            arrived: self.info.arrived,
            ended,
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
        };
        self.note = last_turns.note(model, *prompt, served, decision.cache_since);
    }

    /// Why it was cold.
    pub(super) fn cold(&self) -> Option<api::Cold> {
        match self.note? {
            Note::Turn(finding) => finding.cold.map(ColdTurn::to_api),
            Note::First | Note::Side => None,
        }
    }

    /// The silence before it.
    fn gap(&self) -> Option<Duration> {
        match self.note? {
            Note::Turn(finding) => Some(finding.gap),
            Note::First | Note::Side => None,
        }
    }

    pub(super) fn route(&self) -> Option<(Route, Option<ReplicaIndex>)> {
        let (_, decision) = self.routing.as_ref()?;
        Some((decision.route, decision.replica))
    }

    pub(super) fn ended_at(&self) -> Option<Time> {
        Some(self.ended.as_ref()?.at)
    }

    pub(super) fn end(&self) -> Option<End> {
        Some(self.ended.as_ref()?.end)
    }

    pub(super) fn status(&self) -> Option<u16> {
        Some(self.ended.as_ref()?.status)
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.ended.as_ref()?.usage
    }

    /// Arrival to the first decision.
    pub(super) fn queue(&self) -> Option<Duration> {
        Some(self.routing.as_ref()?.0.since(self.info.arrived))
    }

    /// Arrival to the first byte.
    pub(super) fn ttfb(&self) -> Option<Duration> {
        Some(self.first_byte?.since(self.info.arrived))
    }

    /// Arrival to the end.
    pub(super) fn total(&self) -> Option<Duration> {
        Some(self.ended_at()?.since(self.info.arrived))
    }

    pub(super) fn conversation(&self) -> Option<String> {
        let identity = self.info.identity?;
        Some(words::conversation(identity.conversation))
    }

    fn session(&self) -> Option<String> {
        Some(words::hash(self.info.identity?.session))
    }

    pub(super) fn matches(&self, filter: &Filter) -> bool {
        let model = filter.model.as_deref();
        let begins = |id: Option<String>, wanted: &str| id.is_some_and(|id| id.starts_with(wanted));
        model.is_none_or(|model| self.info.model.as_deref() == Some(model))
            && filter.session.as_deref().is_none_or(|wanted| {
                begins(self.session(), wanted) || begins(self.conversation(), wanted)
            })
    }
}

impl Noted for Record {
    fn to_api(&self) -> api::Request {
        let decision = self.routing.as_ref().map(|(_, decision)| decision);
        let usage = self.usage();
        api::Request {
            id: self.info.id.to_string(),
            t: epoch_s(self.info.arrived),
            model: self.info.model.as_deref().map(str::to_owned),
            conversation: self.conversation(),
            session: self.session(),
            agent: self.info.identity.and_then(|id| id.agent).map(words::hash),
            api: self.info.dialect.as_str().to_owned(),
            route: decision.map(|decision| words::route(decision.route)),
            reason: match self.waiting {
                Some((_, wait)) => Some(words::waits(wait, self.end())),
                None => decision.map(words::reason),
            },
            scores: decision.map_or_else(Vec::new, |decision| {
                decision.scores.iter().map(words::score).collect()
            }),
            replica: decision.and_then(|decision| Some(decision.replica?.0)),
            side: self.note == Some(Note::Side),
            gap_ms: self.gap().map(as_ms),
            cold: self.cold(),
            turn: decision
                .map(|decision| decision.turn)
                .filter(|turn| *turn > 0),
            queue_ms: self.queue().map(as_ms),
            ttfb_ms: self.ttfb().map(as_ms),
            total_ms: self.total().map(as_ms),
            prompt_tokens: usage.map(|usage| usage.prompt_tokens),
            cached_tokens: usage.and_then(|usage| usage.cached_tokens),
            computed_tokens: usage.map(|usage| usage.split().1),
            completion_tokens: usage.map(|usage| usage.completion_tokens),
            status: self.status(),
            end: self.end().map(words::end),
        }
    }
}

/// Milliseconds, to the microsecond.
pub(super) fn as_ms(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}
