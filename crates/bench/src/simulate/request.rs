//! What the user asked for, made into an experiment or into an error that says what is possible.

use super::SimulateError;
use crate::option::OptionError;
use sim::experiment::{Experiment, Level};
use sim::fleet::{BalancerVersion, Balancing};
use sim::policy::PolicyKind;
use sim::profile::Profile;
use sim::workload::{Farm, Published, Recorded, Workload};
use std::path::{Path, PathBuf};

/// Arguments of `simulate run`, as they were typed. `None` and an empty list mean the workload's
/// own.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// `published`, `farm`, `rate` or `trace:FILE`.
    pub workload: String,
    /// Name of a profile.
    pub profile: Option<String>,
    /// Names of policies.
    pub policies: Vec<String>,
    /// Sessions in parallel; for `rate`, sessions an hour.
    pub sessions: Vec<u32>,
    /// Length of a stage, e.g. `3m`.
    pub stage: Option<String>,
    /// Runs, each with another seed; at least 1.
    pub seeds: u32,
    /// Where results go.
    pub json: Option<PathBuf>,
    /// Upper bounds too.
    pub bounds: bool,
    /// `vllm-0.26` or `vllm-0.27`.
    pub balancer: Option<String>,
    /// API servers of that vLLM.
    pub api_servers: Option<u16>,
    /// Connections to them are kept, as the gateway does.
    pub keep_connections: bool,
    /// Number of replicas.
    pub replicas: Option<u16>,
    /// Spill thresholds, one run each.
    pub spill_thresholds: Vec<u32>,
    /// Another size of KV cache, tokens per replica.
    pub kv_tokens: Option<u64>,
    /// Another round trip, milliseconds.
    pub round_trip_ms: Option<f64>,
    /// Every policy starts on empty caches.
    pub cold: bool,
    /// Tokens of context: of the farm's sessions (mean), or where a replayed session ends.
    pub context: Option<String>,
    /// Factor on the pauses of a replay.
    pub time_scale: Option<f64>,
}

/// From a client on the far side of the Internet to the engine and back: fitted to the published
/// run together with the profile `rtx-a4000-qwen3-4b`, see its file.
pub(super) const PUBLISHED_ROUND_TRIP_MS: f64 = 60.0;
/// The published clients begin within so many seconds of each other; fitted likewise.
pub(super) const PUBLISHED_START_SPREAD_S: f64 = 8.5;
/// Within one network.
const LOCAL_ROUND_TRIP_MS: f64 = 2.0;
/// Context at which a replayed session ends, unless told otherwise: Claude Code's own limit is near.
const REPLAY_CONTEXT_TOKENS: u32 = 120_000;

/// What a workload runs with unless told otherwise.
struct Defaults {
    profile: &'static str,
    replicas: u16,
    policies: &'static [PolicyKind],
    sessions: &'static [u32],
    stage_s: f64,
    round_trip_ms: f64,
    start_spread_s: f64,
    warm: bool,
}

const PUBLISHED: Defaults = Defaults {
    profile: "rtx-a4000-qwen3-4b",
    replicas: 4,
    policies: &[
        PolicyKind::Balanced,
        PolicyKind::AffinityGauge,
        PolicyKind::Affinity,
    ],
    sessions: &[4, 8, 16, 24, 32],
    stage_s: 180.0,
    round_trip_ms: PUBLISHED_ROUND_TRIP_MS,
    start_spread_s: PUBLISHED_START_SPREAD_S,
    warm: true,
};
const RATE: Defaults = Defaults {
    sessions: &[120, 240, 360],
    stage_s: 1200.0,
    ..PUBLISHED
};
const FARM: Defaults = Defaults {
    profile: "rtx-5090-27b",
    replicas: 7,
    policies: &[PolicyKind::Hash, PolicyKind::Affinity],
    sessions: &[26, 16],
    stage_s: 3600.0,
    round_trip_ms: LOCAL_ROUND_TRIP_MS,
    start_spread_s: 10.0,
    warm: false,
};
const TRACE: Defaults = Defaults {
    profile: "h100-32b",
    policies: &[PolicyKind::Balanced, PolicyKind::Affinity],
    sessions: &[4, 8, 16],
    stage_s: 1800.0,
    round_trip_ms: LOCAL_ROUND_TRIP_MS,
    start_spread_s: 10.0,
    warm: false,
    ..PUBLISHED
};

impl RunRequest {
    /// The experiment that was asked for; the spill threshold is left to the caller.
    pub(super) fn experiment(&self) -> Result<Experiment, SimulateError> {
        let (workload, defaults) = self.workload()?;
        let mut profile = Profile::named(self.profile.as_deref().unwrap_or(defaults.profile))?;
        if let Some(kv_tokens) = self.kv_tokens {
            profile = profile.with_kv_tokens(kv_tokens)?;
        }
        let window_s = match &self.stage {
            Some(stage) => duration_s("--stage", stage)?,
            None => defaults.stage_s,
        };
        let sessions = or_default(&self.sessions, defaults.sessions);
        if let Some(zero) = sessions
            .iter()
            .find(|count| **count == 0 || **count > 100_000)
        {
            return Err(OptionError::new(
                "--sessions",
                zero.to_string(),
                "give counts from 1 to 100000",
            )
            .into());
        }
        let level = if self.workload == "rate" {
            Level::rate
        } else {
            Level::closed
        };
        Ok(Experiment {
            profile,
            replicas: self.replicas(defaults.replicas)?,
            balancer: self.balancer()?,
            workload,
            levels: sessions.into_iter().map(level).collect(),
            policies: self.policies(defaults.policies)?,
            window_s,
            round_trip_ms: self.round_trip_ms(defaults.round_trip_ms)?,
            start_spread_s: defaults.start_spread_s,
            spill_threshold: None,
            leases: sim::policy::LeaseSettings::default(),
            kv_tokens_believed: 1.0,
            second_arm_is_warm: defaults.warm && !self.cold,
            bounds: self.bounds,
        })
    }

    fn workload(&self) -> Result<(Workload, &'static Defaults), SimulateError> {
        let context = self.context.as_deref().map(tokens).transpose()?;
        match self
            .workload
            .split_once(':')
            .unwrap_or((&self.workload, ""))
        {
            ("published", "") => Ok((Workload::Published(Published::default()), &PUBLISHED)),
            ("rate", "") => Ok((Workload::Published(Published::default()), &RATE)),
            ("farm", "") => Ok((
                Workload::Farm(Farm::of_context(context.unwrap_or(58_000))),
                &FARM,
            )),
            ("trace", file) if !file.is_empty() => {
                let cap = context.unwrap_or(REPLAY_CONTEXT_TOKENS);
                Ok((
                    Workload::Recorded(self.shapes(Path::new(file), cap)?),
                    &TRACE,
                ))
            }
            _ => Err(OptionError::new(
                "--workload",
                &self.workload,
                "known are published, farm, rate and trace:FILE",
            )
            .into()),
        }
    }

    fn shapes(&self, path: &Path, context_tokens_max: u32) -> Result<Recorded, SimulateError> {
        let time_scale = self.time_scale.unwrap_or(1.0);
        if !(0.0..=1000.0).contains(&time_scale) {
            let mend = "give a factor from 0 to 1000";
            return Err(OptionError::new("--time-scale", time_scale.to_string(), mend).into());
        }
        let text = std::fs::read_to_string(path).map_err(|cause| SimulateError::Read {
            path: path.to_owned(),
            cause,
        })?;
        Recorded::from_csv(&text, time_scale, context_tokens_max).map_err(|cause| {
            SimulateError::Shapes {
                path: path.to_owned(),
                cause,
            }
        })
    }

    fn policies(&self, default: &[PolicyKind]) -> Result<Vec<PolicyKind>, SimulateError> {
        let named = |name: &String| {
            PolicyKind::named(name).ok_or_else(|| {
                let known = PolicyKind::ALL.map(PolicyKind::as_str).join(", ");
                OptionError::new("--policies", name, format!("known are {known}"))
            })
        };
        let mut policies = self
            .policies
            .iter()
            .map(named)
            .collect::<Result<Vec<_>, _>>()?;
        if policies.is_empty() {
            policies = default.to_vec();
        }
        Ok(policies)
    }

    fn balancer(&self) -> Result<Balancing, SimulateError> {
        let name = self.balancer.as_deref().unwrap_or("vllm-0.26");
        let version = BalancerVersion::named(name).ok_or_else(|| {
            OptionError::new("--balancer", name, "known are vllm-0.26 and vllm-0.27")
        })?;
        if self.api_servers == Some(0) {
            let mend = "at least one serves";
            return Err(OptionError::new("--api-servers", "0", mend).into());
        }
        Ok(Balancing {
            version,
            api_servers: self.api_servers,
            keeps_connections: self.keep_connections,
        })
    }

    fn replicas(&self, default: u16) -> Result<u16, SimulateError> {
        match self.replicas.unwrap_or(default) {
            0 => Err(OptionError::new("--replicas", "0", "at least one serves").into()),
            replicas => Ok(replicas),
        }
    }

    fn round_trip_ms(&self, default: f64) -> Result<f64, SimulateError> {
        let round_trip_ms = self.round_trip_ms.unwrap_or(default);
        if (0.0..=60_000.0).contains(&round_trip_ms) {
            return Ok(round_trip_ms);
        }
        let mend = "give milliseconds from 0 to 60000";
        Err(OptionError::new("--round-trip-ms", round_trip_ms.to_string(), mend).into())
    }
}

fn or_default<T: Copy>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() {
        default.to_vec()
    } else {
        given.to_vec()
    }
}

/// Seconds of a duration such as `90s`, `3m` or `1h`, from a second to a week.
pub fn duration_s(option: &'static str, text: &str) -> Result<f64, SimulateError> {
    let error = || {
        OptionError::new(
            option,
            text,
            "give a duration such as 90s, 3m or 1h, up to 168h",
        )
    };
    let unit_s = match text.chars().last() {
        Some('s') => 1.0,
        Some('m') => 60.0,
        Some('h') => 3600.0,
        _ => return Err(error().into()),
    };
    let number: f64 = text[..text.len() - 1].parse().map_err(|_| error())?;
    let seconds = number * unit_s;
    if (1.0..=604_800.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(error().into())
    }
}

/// Tokens of a size such as `58k` or `58000`.
pub(crate) fn tokens(text: &str) -> Result<u32, SimulateError> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000.0),
        None => (text, 1.0),
    };
    let tokens = digits.parse().map_or(f64::NAN, |number: f64| number * unit);
    if (100.0..=10e6).contains(&tokens) {
        return Ok(tokens as u32);
    }
    Err(OptionError::new(
        "--context",
        text,
        "give tokens, such as 58k, from 100 to 10000k",
    )
    .into())
}
