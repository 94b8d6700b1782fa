//! A stage's figures, by the simulator's own arithmetic, and what the warden counted beside them.
//!
//! A figure that nobody measured is left out: a server that is no warden shows no replicas, and an
//! engine that does not tell cached tokens has no hit rate.

use std::{sync::Arc, time::Instant};

use sim::run::{Figures, Outcome, percent};

use super::{
    BenchError,
    http::Http,
    stage::{Running, Stage},
    warden::{Reading, Warden},
    watch::{Position, Progress, watch},
};
use crate::simulate::FIGURES;

/// One stage, measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// By name, as in results.
    pub(super) figures: Vec<(&'static str, Option<f64>)>,
    /// Requests that the client sent in the stage.
    pub(super) sent: u64,
    /// Requests that the warden placed in that time; `None` where it cannot tell.
    pub(super) counted: Option<u64>,
    pub(super) failed: u32,
    pub(super) censored: u32,
    pub(super) last_failure: Option<String>,
}

/// Runs a stage. Nothing else should use the model meanwhile; if something does, the counts tell.
pub(super) async fn measure(
    stage: Stage,
    (http, warden): (&Http, Option<&Warden>),
    position: Position,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Measured, BenchError> {
    let before = read(warden, Instant::now()).await?;
    let running = Running::new(stage, http.clone());
    let mut polls = Vec::new();
    let watching = watch(
        Arc::clone(&running),
        warden.cloned(),
        position,
        (&mut polls, progress),
    );
    let censored = tokio::select! {
        censored = running.run() => censored?,
        () = watching => unreachable!("it polls until it is dropped"),
    };
    let after = read(warden, Instant::now()).await?;
    let readings = before.zip(after);
    let engine = readings.and_then(|(before, after)| after.engine_since(&before));
    Ok(running.tally(|tally| {
        let outcome = Outcome::measured(
            running.stage.window.as_micros() as u64,
            std::mem::take(&mut tally.turns),
            polls,
            engine.unwrap_or_default(),
        );
        let knows = Knows {
            cached: tally.cached_is_told,
            polls: !outcome.polls.is_empty(),
            engine: engine.is_some(),
        };
        let mut figures = knows.figures(&Figures::of(&outcome));
        if let Some(stayed) = figures
            .iter_mut()
            .find(|(name, _)| *name == "stayed_percent")
        {
            stayed.1 = readings.and_then(|(before, after)| after.stayed_percent_since(&before));
        }
        let of_prompts = engine.and_then(|e| percent(e.prompt_tokens_cached, e.prompt_tokens));
        figures.push(("prefix_hit_percent_engine", of_prompts));
        Measured {
            figures,
            sent: tally.sent,
            counted: readings.and_then(|(before, after)| counted(&before, &after)),
            failed: tally.failed,
            censored,
            last_failure: tally.last_failure.clone(),
        }
    }))
}

async fn read(warden: Option<&Warden>, since: Instant) -> Result<Option<Reading>, BenchError> {
    match warden {
        Some(warden) => warden.read_after(since).await.map(Some),
        None => Ok(None),
    }
}

fn counted(before: &Reading, after: &Reading) -> Option<u64> {
    let same = (before.counters_since - after.counters_since).abs() < 0.001;
    same.then(|| after.requests.saturating_sub(before.requests))
}

/// What could be measured.
#[derive(Debug, Clone, Copy)]
struct Knows {
    cached: bool,
    polls: bool,
    engine: bool,
}

impl Knows {
    fn figures(self, figures: &Figures) -> Vec<(&'static str, Option<f64>)> {
        let known = |name: &str| match name {
            "prefix_hit_percent" | "own_hit_percent" => self.cached,
            "replicas_busy" => self.polls,
            "prefix_hit_percent_vllm" | "preemptions" => self.engine,
            _ => true,
        };
        let read = |(name, figure): &(&'static str, fn(&Figures) -> Option<f64>)| {
            (*name, figure(figures).filter(|_| known(name)))
        };
        FIGURES.iter().map(read).collect()
    }
}
