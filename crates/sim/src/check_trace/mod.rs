//! Replays recorded runs of vLLM's scheduler and names every step that differs.
//!
//! This is the proof behind every figure of the simulator: all fields of all steps are compared, and
//! at the end the hits at admission and the order of the free list. A recording that cannot be read
//! is an error of the file, not a difference.

mod recording;
#[cfg(test)]
mod tests;

use crate::scheduler::{RequestId, Scheduler, Step};
use recording::{RecordedStep, Recording, Streams};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file's fault: not JSON, or not of this format. Says line and column.
    #[error("not a recording of a scheduler: {0}")]
    Format(serde_json::Error),
    /// The file's fault: an id that no `add` named before.
    #[error("step {step}: request \"{id}\" was never added")]
    UnknownRequest {
        /// Index of the step, from 0.
        step: usize,
        /// The id.
        id: String,
    },
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Steps compared.
    pub steps: usize,
    /// Steps of which at least one field differs.
    pub differing_steps: usize,
    /// The first difference, be it in a step or at the end.
    pub first: Option<Difference>,
}

impl Report {
    /// Whether the model did exactly what vLLM did.
    pub fn is_equal(&self) -> bool {
        self.first.is_none()
    }
}

/// Fields that differ at one point of the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Index of the step, from 0; `None` after the last one.
    pub step: Option<usize>,
    /// The differing fields.
    pub fields: Vec<FieldDifference>,
}

/// One field, as recorded and as replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDifference {
    /// Its name in the recording.
    pub field: &'static str,
    /// What vLLM did.
    pub recorded: String,
    /// What the model did.
    pub replayed: String,
}

/// Replays one recording.
pub fn check(json: &str) -> Result<Report, RecordingError> {
    let recording: Recording = serde_json::from_str(json).map_err(RecordingError::Format)?;
    let mut replay = Replay::new(&recording);
    let mut report = Report {
        steps: recording.steps.len(),
        ..Report::default()
    };
    for (index, recorded) in recording.steps.iter().enumerate() {
        let fields = replay.step(index, recorded)?;
        if !fields.is_empty() {
            report.differing_steps += 1;
            report.first.get_or_insert(Difference {
                step: Some(index),
                fields,
            });
        }
    }
    let fields = replay.end(&recording);
    if !fields.is_empty() {
        report
            .first
            .get_or_insert(Difference { step: None, fields });
    }
    Ok(report)
}

/// Collects the fields that are not equal.
#[derive(Default)]
struct Comparison(Vec<FieldDifference>);

impl Comparison {
    fn field<T: PartialEq + Debug>(&mut self, field: &'static str, recorded: &T, replayed: &T) {
        if recorded != replayed {
            self.0.push(FieldDifference {
                field,
                recorded: format!("{recorded:?}"),
                replayed: format!("{replayed:?}"),
            });
        }
    }
}

/// The model in the state after some steps of a recording.
struct Replay {
    scheduler: Scheduler,
    streams: Streams,
    ids: HashMap<String, RequestId>,
    names: Vec<String>,
    outputs: Vec<u32>,
    cached_at_admission: BTreeMap<String, u32>,
}

impl Replay {
    fn new(recording: &Recording) -> Self {
        Self {
            scheduler: Scheduler::new(recording.config()),
            streams: Streams::default(),
            ids: HashMap::new(),
            names: Vec::new(),
            outputs: Vec::new(),
            cached_at_admission: BTreeMap::new(),
        }
    }

    fn step(
        &mut self,
        index: usize,
        recorded: &RecordedStep,
    ) -> Result<Vec<FieldDifference>, RecordingError> {
        for arrival in &recorded.add {
            let id = RequestId(self.names.len() as u64);
            let prompt = self.streams.prompt(&arrival.prompt);
            self.scheduler.add(id, prompt, arrival.max_tokens);
            self.ids.insert(arrival.id.clone(), id);
            self.names.push(arrival.id.clone());
            self.outputs.push(0);
        }
        let step = self.scheduler.step().unwrap_or_default();
        self.note_admissions(&step);

        let mut fields = Comparison::default();
        let scheduled = step
            .scheduled
            .iter()
            .map(|s| (self.name(s.id), s.tokens))
            .collect();
        fields.field("scheduled", &recorded.scheduled, &scheduled);
        let running = self
            .scheduler
            .running_ids()
            .map(|id| self.name(id))
            .collect();
        fields.field("running", &recorded.running, &running);
        fields.field("waiting", &recorded.waiting, &self.scheduler.waiting());
        fields.field(
            "preempted",
            &recorded.preempted,
            &self.names(&step.preempted),
        );
        fields.field(
            "free_blocks",
            &recorded.free_blocks,
            &self.scheduler.free_blocks(),
        );
        let sampled = step
            .scheduled
            .iter()
            .filter(|s| s.samples)
            .map(|s| self.name(s.id))
            .collect();
        fields.field("sampled", &recorded.sampled, &sampled);

        let tokens = self.outputs_of(index, recorded)?;
        let finished = self.scheduler.complete(&step, &tokens);
        fields.field("finished", &recorded.finished, &self.names(&finished));
        Ok(fields.0)
    }

    fn end(&self, recording: &Recording) -> Vec<FieldDifference> {
        let mut fields = Comparison::default();
        let recorded = &recording.cached_tokens_at_admission;
        fields.field(
            "cached_tokens_at_admission",
            recorded,
            &self.cached_at_admission,
        );
        let replayed = self.scheduler.free_order();
        fields.field("final_free_order", &recording.final_free_order, &replayed);
        fields.0
    }

    fn note_admissions(&mut self, step: &Step) {
        for scheduled in &step.scheduled {
            if let Some(cached) = self.scheduler.cached_tokens(scheduled.id) {
                self.cached_at_admission
                    .entry(self.name(scheduled.id))
                    .or_insert(cached);
            }
        }
    }

    /// The tokens that the recorded model sampled, as (request, token, stops).
    fn outputs_of(
        &mut self,
        index: usize,
        recorded: &RecordedStep,
    ) -> Result<Vec<(RequestId, u32, bool)>, RecordingError> {
        let mut tokens = Vec::with_capacity(recorded.sampled.len());
        for name in &recorded.sampled {
            let Some(&id) = self.ids.get(name) else {
                return Err(RecordingError::UnknownRequest {
                    step: index,
                    id: name.clone(),
                });
            };
            let position = &mut self.outputs[id.0 as usize];
            let token = self.streams.token(&format!("o:{name}"), *position);
            *position += 1;
            tokens.push((id, token, recorded.stopped.contains(name)));
        }
        Ok(tokens)
    }

    fn name(&self, id: RequestId) -> String {
        self.names[id.0 as usize].clone()
    }

    fn names(&self, ids: &[RequestId]) -> Vec<String> {
        ids.iter().map(|id| self.name(*id)).collect()
    }
}
