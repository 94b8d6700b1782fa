//! The request made into stages, or into an error that says what is possible.

use crate::option::OptionError;
use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sim::{
    random::Random,
    workload::{Published, Recorded, Workload},
};

use super::{Arm, BenchError, BenchRequest, Shape, stage::Stage};
use crate::simulate::{duration_s, tokens};

/// Sessions at once, or an hour.
const LEVEL_MAX: u32 = 100_000;
const REPEAT_MAX: u32 = 1000;
/// Context of a replayed session where the model does not tell its own.
const REPLAY_CONTEXT_TOKENS: u32 = 120_000;

/// What will be run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) request: BenchRequest,
    pub(super) workload: Arc<Workload>,
    /// Its name in results.
    pub(super) workload_name: String,
    pub(super) levels: Vec<u32>,
    pub(super) order: Vec<Arm>,
    pub(super) seed: u64,
    window: Duration,
    drain: Duration,
    chance: u64,
}

/// One pass over all levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) arm: Arm,
    /// Its number, from 0.
    number: u32,
    repeat: u32,
}

impl Plan {
    /// `epoch_us` makes this run's sessions new to the server.
    pub(super) fn of(
        request: &BenchRequest,
        max_model_len: Option<u64>,
        epoch_us: u64,
    ) -> Result<Self, BenchError> {
        let (option, levels) = match request.rate.as_slice() {
            [] => ("--sessions", request.sessions.clone()),
            rate => ("--rate", rate.to_vec()),
        };
        if let Some(level) = levels
            .iter()
            .find(|level| !(1..=LEVEL_MAX).contains(*level))
        {
            let mend = format!("give numbers from 1 to {LEVEL_MAX}");
            return Err(OptionError::new(option, level.to_string(), mend).into());
        }
        if levels.is_empty() {
            return Err(OptionError::new(option, "", "name at least one").into());
        }
        if !(1..=REPEAT_MAX).contains(&request.repeat) {
            let mend = format!("give a number from 1 to {REPEAT_MAX}");
            return Err(OptionError::new("--repeat", request.repeat.to_string(), mend).into());
        }
        let (workload, name) = workload(request, max_model_len)?;
        Ok(Self {
            workload: Arc::new(workload),
            workload_name: name.to_owned(),
            levels,
            order: order(&request.order)?,
            seed: request
                .seed
                .unwrap_or_else(|| Random::new(epoch_us).bits() >> 11),
            window: Duration::from_secs_f64(duration_s("--stage", &request.stage)?),
            drain: Duration::from_secs_f64(duration_s("--drain", &request.drain)?),
            chance: epoch_us,
            request: request.clone(),
        })
    }

    /// All passes, in their order.
    pub(super) fn passes(&self) -> Vec<Pass> {
        let repeats = (0..self.request.repeat)
            .flat_map(|repeat| self.order.iter().map(move |arm| (repeat, *arm)));
        repeats
            .zip(0..)
            .map(|((repeat, arm), number)| Pass {
                arm,
                number,
                repeat,
            })
            .collect()
    }

    /// The stage of a pass at a level. Fresh prompts differ between all passes; the published way
    /// differs only between repeats.
    pub(super) fn stage(&self, pass: Pass, level: u32, model: &str) -> Stage {
        let prompts = if self.request.same_seed {
            [u64::from(pass.repeat), 0]
        } else {
            [u64::from(pass.repeat), 1 + u64::from(pass.number)]
        };
        let chance = [u64::from(pass.number), u64::from(level)];
        Stage {
            workload: Arc::clone(&self.workload),
            level,
            is_open: !self.request.rate.is_empty(),
            window: self.window,
            drain: self.drain,
            prompt_seed: Random::at(self.seed, &prompts).bits(),
            chance_seed: Random::at(self.chance, &chance).bits(),
            api: self.request.api,
            model: model.to_owned(),
        }
    }

    /// What the results depend on, as far as the client decides.
    pub(super) fn settings(&self) -> Value {
        let request = &self.request;
        let shape = request.shape;
        let order: Vec<_> = self.order.iter().map(|arm| arm.policy()).collect();
        let levels = if request.rate.is_empty() {
            "sessions"
        } else {
            "sessions_per_hour"
        };
        let mut settings = json!({
            "url": request.url,
            "api": request.api.path(),
            "workload": self.workload_name,
            "stage_s": self.window.as_secs_f64(),
            "drain_s": self.drain.as_secs_f64(),
            "order": order,
            "repeat": request.repeat,
            "same_seed": request.same_seed,
            "seed": self.seed,
        });
        settings[levels] = json!(self.levels);
        if let Some(trace) = &request.trace {
            settings["trace"] = json!(trace.display().to_string());
            settings["time_scale"] = json!(request.time_scale.unwrap_or(1.0));
            settings["context"] = json!(request.context);
        } else {
            settings["shape"] = json!({
                "shared_tokens": shape.shared_tokens,
                "first_tokens": shape.first_tokens,
                "further_turns": shape.further_turns,
                "further_tokens": shape.further_tokens,
                "output_tokens": shape.output_tokens,
            });
        }
        settings
    }
}

fn order(names: &[String]) -> Result<Vec<Arm>, BenchError> {
    let arm = |name: &String| {
        Arm::named(name)
            .ok_or_else(|| OptionError::new("--order", name, "known are off, on and leases"))
    };
    let order = names.iter().map(arm).collect::<Result<Vec<_>, _>>()?;
    if order.is_empty() {
        return Err(OptionError::new("--order", "", "name at least one arm").into());
    }
    Ok(order)
}

fn workload(
    request: &BenchRequest,
    max_model_len: Option<u64>,
) -> Result<(Workload, &'static str), BenchError> {
    if let Some(trace) = &request.trace {
        return Ok((replay(request, trace, max_model_len)?, "trace"));
    }
    let shape = request.shape;
    let longest = u64::from(shape.shared_tokens)
        + u64::from(shape.first_tokens)
        + u64::from(shape.further_turns) * u64::from(shape.further_tokens)
        + (1 + u64::from(shape.further_turns)) * u64::from(shape.output_tokens);
    if let Some(most) = max_model_len.filter(|most| longest > *most) {
        let mend = format!(
            "a session grows to {longest} tokens and the model takes {most}; shorten it with \
             --first-tokens, --turns or --max-tokens"
        );
        return Err(OptionError::new("--model", &request.model, mend).into());
    }
    if shape.output_tokens == 0 {
        return Err(OptionError::new("--max-tokens", "0", "give at least 1").into());
    }
    let published = Published::default();
    let spread = (published.first_tokens_max - published.first_tokens_min) / 2;
    let workload = Workload::Published(Published {
        shared_tokens: shape.shared_tokens,
        first_tokens_min: shape.first_tokens.saturating_sub(spread).max(1),
        first_tokens_max: shape.first_tokens + spread,
        further_turns: shape.further_turns,
        further_tokens: shape.further_tokens,
        output_tokens: shape.output_tokens,
        think_s: published.think_s,
    });
    let name = match (request.rate.is_empty(), shape == Shape::default()) {
        (false, _) => "rate",
        (true, true) => "published",
        (true, false) => "synthetic",
    };
    Ok((workload, name))
}

fn replay(
    request: &BenchRequest,
    path: &Path,
    max_model_len: Option<u64>,
) -> Result<Workload, BenchError> {
    let cap = match &request.context {
        Some(text) => tokens(text)?,
        None => max_model_len.map_or(REPLAY_CONTEXT_TOKENS, |most| {
            (most as u32).min(REPLAY_CONTEXT_TOKENS)
        }),
    };
    let time_scale = request.time_scale.unwrap_or(1.0);
    if !(0.0..=1000.0).contains(&time_scale) {
        let mend = "give a factor from 0 to 1000";
        return Err(OptionError::new("--time-scale", time_scale.to_string(), mend).into());
    }
    let text = std::fs::read_to_string(path).map_err(|cause| BenchError::Read {
        path: path.to_owned(),
        cause,
    })?;
    let recorded =
        Recorded::from_csv(&text, time_scale, cap).map_err(|cause| BenchError::Shapes {
            path: path.to_owned(),
            cause,
        })?;
    Ok(Workload::Recorded(recorded))
}
