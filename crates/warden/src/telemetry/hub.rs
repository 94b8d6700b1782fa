//! Where events go: joins a request's steps and passes the joined record on to counters, history,
//! log and whoever watches.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use routing::{ConversationKey, Time};

use super::{
    RequestEvent, RequestId,
    changes::Changes,
    cold::{LastTurns, RecalledTurn},
    counters::{RouteCounters, Totals},
    log,
    record::Record,
};
use crate::{
    clock,
    history::{History, Noted as _},
};

/// Finished requests that are kept here: what the history has not written yet, and the list's end
/// where there is no history.
const FINISHED_MAX: usize = 2_000;

/// What became of requests, since the start of this process.
#[derive(Debug)]
pub struct Telemetry {
    started: Time,
    changes: Changes,
    /// Where what has ended goes; only tests do without.
    history: Option<Arc<History>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// In flight; the gateway bounds how many there are.
    open: HashMap<RequestId, Record>,
    /// Oldest end first, each with its number in the history.
    finished: VecDeque<(u64, Arc<Record>)>,
    models: BTreeMap<Arc<str>, PerModel>,
    /// By what the next turns are judged.
    last_turns: LastTurns,
    /// Requests that named no model served here.
    unknown: Totals,
}

#[derive(Debug)]
struct PerModel {
    routes: RouteCounters,
    totals: Totals,
}

/// Which requests to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this model only.
    pub model: Option<String>,
    /// Whose session's or conversation's shown id begins so.
    pub session: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl Telemetry {
    /// Counts from now on, for these models with so many replicas each.
    pub fn new<'a>(models: impl IntoIterator<Item = (&'a str, usize)>, started: Time) -> Self {
        let models: BTreeMap<Arc<str>, PerModel> = models
            .into_iter()
            .map(|(name, replicas)| {
                let per_model = PerModel {
                    routes: RouteCounters::new(replicas),
                    totals: Totals::default(),
                };
                (Arc::from(name), per_model)
            })
            .collect();
        Self {
            started,
            changes: Changes::new(models.keys().cloned()),
            history: None,
            state: Mutex::new(State {
                open: HashMap::new(),
                finished: VecDeque::new(),
                models,
                last_turns: LastTurns::default(),
                unknown: Totals::default(),
            }),
        }
    }

    /// Hands what has ended over to the history, too.
    #[must_use]
    pub fn keeping(mut self, history: Arc<History>) -> Self {
        self.history = Some(history);
        self
    }

    /// Takes note of how an earlier process served conversations last, before the first request.
    pub fn recall(&self, turns: impl IntoIterator<Item = (ConversationKey, RecalledTurn)>) {
        self.lock().last_turns.recall(turns);
    }

    /// Notes what will explain a break in the figures; `None` as the model for the warden's own.
    pub fn mark(&self, kind: api::MarkKind, model: Option<&str>, text: impl Into<String>) {
        if let Some(history) = &self.history {
            history.mark(api::Mark {
                t: clock::epoch_s(clock::now()),
                kind,
                model: model.map(str::to_owned),
                text: text.into(),
            });
        }
    }

    /// When this process began to count.
    pub fn started(&self) -> Time {
        self.started
    }

    /// What changed, for whoever watches.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Takes note of a step. Cheap: a short critical section, no I/O but the log line at the end.
    /// Steps of a request that did not arrive are ignored.
    pub fn record(&self, event: RequestEvent) {
        let mut state = self.lock();
        let (model, ended) = match event {
            RequestEvent::Arrived(info) => {
                let model = info.model.clone();
                state.open.insert(info.id, Record::new(info));
                (model, None)
            }
            RequestEvent::Waits(id, at, wait) => {
                let Some(record) = state.open.get_mut(&id) else {
                    return;
                };
                record.waits(at, wait);
                (record.info.model.clone(), None)
            }
            RequestEvent::Routed(id, at, decision) => {
                let Some(mut record) = state.open.remove(&id) else {
                    return;
                };
                let before = record.route();
                record.routed(at, decision);
                let model = record.info.model.clone();
                if let Some(per_model) = state.per_model(model.as_ref()) {
                    per_model.routes.replace(before, record.route());
                }
                state.open.insert(id, record);
                (model, None)
            }
            RequestEvent::FirstByte(id, at) => {
                let Some(record) = state.open.get_mut(&id) else {
                    return;
                };
                record.first_byte(at);
                (record.info.model.clone(), None)
            }
            RequestEvent::Ended {
                id,
                at,
                end,
                status,
                usage,
            } => {
                let Some(mut record) = state.open.remove(&id) else {
                    return;
                };
                record.ended(at, end, status, usage);
                record.judge(&mut state.last_turns);
                let model = record.info.model.clone();
                let record = Arc::new(record);
                // Within the lock, so that the history's order is that of the ring.
                let number = self.history.as_ref().map_or(0, |history| {
                    history.push(Arc::clone(&record) as _, record.info.owner.clone())
                });
                state.finish(number, Arc::clone(&record));
                (model, Some(record))
            }
        };
        drop(state);
        if let Some(record) = ended {
            log::request(&record);
        }
        if let Some(model) = model {
            self.changes.request(&model);
        }
    }

    /// Requests, newest arrival first.
    pub fn requests(&self, filter: &Filter) -> Vec<api::Request> {
        let state = self.lock();
        let mut found: Vec<&Record> = state
            .open
            .values()
            .chain(state.finished.iter().map(|(_, record)| &**record))
            .filter(|record| record.matches(filter))
            .collect();
        // By id too, so that requests of one microsecond keep their order.
        found.sort_unstable_by_key(|record| {
            std::cmp::Reverse((record.info.arrived, record.info.id))
        });
        found.truncate(filter.limit);
        found.into_iter().map(Record::to_api).collect()
    }

    /// Requests by rule and replica, of one model.
    pub fn routes(&self, model: &str) -> RouteCounters {
        let state = self.lock();
        let per_model = state.models.get(model);
        per_model.map_or_else(RouteCounters::default, |model| model.routes.clone())
    }

    /// Totals since the start by model; those of requests without a known model under "".
    pub fn totals(&self) -> Vec<(Arc<str>, Totals)> {
        let state = self.lock();
        let unknown = (Arc::from(""), state.unknown.clone());
        let known = state
            .models
            .iter()
            .map(|(name, model)| (Arc::clone(name), model.totals.clone()));
        known.chain([unknown]).collect()
    }

    /// What an operator should know of one conversation's prompts.
    pub fn alarm(&self, conversation: ConversationKey) -> Option<api::Alarm> {
        self.lock().last_turns.alarm(conversation)
    }

    /// What an operator should know of a model's prompts.
    pub fn alarm_of_model(&self, model: &str) -> Option<api::Alarm> {
        self.lock().last_turns.alarm_of_model(model)
    }

    /// Requests that the history does not have in its file: in flight, or past `committed`.
    pub fn unwritten(&self, committed: u64) -> Vec<api::Request> {
        let state = self.lock();
        let finished = state.finished.iter().rev();
        let waiting = finished
            .take_while(|(number, _)| *number > committed)
            .map(|(_, record)| &**record);
        state
            .open
            .values()
            .chain(waiting)
            .map(Record::to_api)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each step leaves the state whole, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn per_model(&mut self, model: Option<&Arc<str>>) -> Option<&mut PerModel> {
        self.models.get_mut(model?)
    }

    fn finish(&mut self, number: u64, record: Arc<Record>) {
        match self.per_model(record.info.model.as_ref()) {
            Some(model) => model.totals.add(&record),
            None => self.unknown.add(&record),
        }
        if self.finished.len() == FINISHED_MAX {
            self.finished.pop_front();
        }
        self.finished.push_back((number, record));
    }
}
