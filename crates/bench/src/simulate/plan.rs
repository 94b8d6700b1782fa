//! `lm-warden simulate plan`: how many sessions of a given context a box holds.
//!
//! Two answers stand side by side: the rule of thumb (sessions times context stay below the cache
//! of the whole box) and what the simulation finds around it. Where the wanted sessions do not fit, it
//! says what leases and host memory would make of them.

use super::columns;
use super::relief::{Relief, host_gib};
use super::request::{RunRequest, tokens};
use super::run::run_seeds;
use super::{SimulateError, figures};
use crate::option::OptionError;
use crate::results::ResultCell;
use sim::experiment::{Experiment, Level};
use sim::policy::PolicyKind;
use std::io::Write;

/// Arguments of `simulate plan`.
#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// Name of a profile.
    pub profile: String,
    /// Number of replicas.
    pub replicas: u16,
    /// Context of a session, e.g. `58k`.
    pub context: String,
    /// How many sessions are wanted.
    pub sessions: u32,
    /// Another size of KV cache, tokens per replica.
    pub kv_tokens: Option<u64>,
    /// Runs per count of sessions, at least 1.
    pub seeds: u32,
    /// JSON to `out` instead of text.
    pub as_json: bool,
}

/// Share of the own tokens found again below which a cache is taken not to hold its sessions.
const HOLDS_OWN_HIT_PERCENT: f64 = 90.0;

/// Simulates around the rule of thumb and around what is wanted, and prints what fits.
pub fn plan(
    request: &PlanRequest,
    out: &mut impl Write,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), SimulateError> {
    if !(1..=10_000).contains(&request.sessions) || !(1..=1000).contains(&request.seeds) {
        let value = format!("{} / {}", request.sessions, request.seeds);
        let mend = "give 1 to 10000 sessions and 1 to 1000 seeds";
        return Err(OptionError::new("--sessions / --seeds", value, mend).into());
    }
    let context_tokens = tokens(&request.context)?;
    let run = RunRequest {
        workload: "farm".to_owned(),
        profile: Some(request.profile.clone()),
        replicas: Some(request.replicas),
        context: Some(request.context.clone()),
        kv_tokens: request.kv_tokens,
        policies: vec![PolicyKind::Affinity.as_str().to_owned()],
        ..RunRequest::default()
    };
    let mut experiment = run.experiment()?;
    let cache_tokens = experiment.profile.kv_tokens * u64::from(request.replicas);
    let by_rule = (cache_tokens / u64::from(context_tokens)) as u32;
    experiment.levels = levels(by_rule, request.sessions)
        .into_iter()
        .map(Level::closed)
        .collect();
    let cells = cells(&experiment, request.seeds, progress)?;
    let by_simulation = cells
        .iter()
        .take_while(|cell| cell.mean("own_hit_percent").unwrap_or(0.0) >= HOLDS_OWN_HIT_PERCENT)
        .last()
        .map(|cell| cell.sessions);
    let relief = if request.sessions > by_rule {
        let bytes = experiment.profile.kv_bytes_per_token;
        let gib = host_gib(bytes, context_tokens, request.sessions, request.replicas);
        let wanted = (request.sessions, gib);
        Some(Relief::of(&experiment, wanted, request.seeds, progress)?)
    } else {
        None
    };
    let answer = Answer {
        request,
        context_tokens,
        cache_tokens,
        by_rule,
        by_simulation,
        cells,
        relief,
    };
    if request.as_json {
        writeln!(out, "{:#}", answer.json())?;
    } else {
        answer.print(out)?;
    }
    Ok(())
}

/// Counts of sessions to simulate, rising: around the rule's answer, and the wanted one.
fn levels(by_rule: u32, wanted: u32) -> Vec<u32> {
    let mut levels: Vec<u32> = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0]
        .map(|part| (f64::from(by_rule) * part) as u32)
        .to_vec();
    levels.push(wanted);
    levels.retain(|count| *count > 0);
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// One cell per count; each on empty caches, since a plan is not a sequence of stages.
fn cells(
    experiment: &Experiment,
    seeds: u32,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ResultCell>, SimulateError> {
    let mut cells = Vec::new();
    for level in &experiment.levels {
        let one = Experiment {
            levels: vec![*level],
            ..experiment.clone()
        };
        let runs = run_seeds(&one, 1, seeds, progress)?;
        let runs: Vec<_> = runs.iter().map(|cells| &cells[0]).collect();
        cells.push(figures::result_cell("farm", None, &runs));
    }
    Ok(cells)
}

struct Answer<'a> {
    request: &'a PlanRequest,
    context_tokens: u32,
    cache_tokens: u64,
    by_rule: u32,
    by_simulation: Option<u32>,
    cells: Vec<ResultCell>,
    /// What helps, where the wanted sessions do not fit.
    relief: Option<Relief>,
}

impl Answer<'_> {
    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "profile": self.request.profile,
            "replicas": self.request.replicas,
            "context_tokens": self.context_tokens,
            "cache_tokens": self.cache_tokens,
            "sessions_wanted": self.request.sessions,
            "sessions_by_rule": self.by_rule,
            "sessions_by_simulation": self.by_simulation,
            "fits_by_rule": self.request.sessions <= self.by_rule,
            "cells": self.cells,
            "host_gib_per_replica": self.relief.as_ref().map(|relief| relief.host_gib),
            "relief": self.relief.as_ref().map(Relief::json),
        })
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let Self {
            request,
            context_tokens,
            cache_tokens,
            by_rule,
            ..
        } = self;
        let PlanRequest {
            profile,
            replicas,
            sessions,
            ..
        } = request;
        writeln!(
            out,
            "{replicas} x {profile}: {cache_tokens} tokens of KV cache in all"
        )?;
        let verdict = if sessions <= by_rule {
            "fit"
        } else {
            "do not fit"
        };
        writeln!(
            out,
            "By the rule (sessions x context below the cache): {by_rule} sessions of"
        )?;
        writeln!(out, "{context_tokens} tokens; {sessions} {verdict}.")?;
        match self.by_simulation {
            Some(count) => writeln!(
                out,
                "By simulation (at least {HOLDS_OWN_HIT_PERCENT:.0} % of own tokens found again): {count} sessions.\n"
            )?,
            None => writeln!(
                out,
                "By simulation, none of the counts below keeps its cache.\n"
            )?,
        }
        writeln!(out, "{:>9}{}", "sessions", columns::heading())?;
        for cell in &self.cells {
            let mark = if cell.sessions == *sessions {
                "  <- wanted"
            } else {
                ""
            };
            writeln!(out, "{:>9}{}{mark}", cell.sessions, columns::of(cell))?;
        }
        match &self.relief {
            Some(relief) => relief.print(*replicas, out),
            None => Ok(()),
        }
    }
}
