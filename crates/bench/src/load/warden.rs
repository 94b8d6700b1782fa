//! The warden over its operators' API: what it counted, and the switch of affinity.
//!
//! Only its public HTTP: a bench sees what any operator sees.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use sim::scheduler::Counters;

use super::{
    Arm, BenchError,
    http::{Answer, Http, first_words},
};

/// How long the engine's counters may take to be scraped.
const SCRAPE_PATIENCE: Duration = Duration::from_secs(5);
const SCRAPE_PAUSE: Duration = Duration::from_millis(100);
/// Attempts to put the settings back; one failed call must not leave a machine changed.
const RESTORE_ATTEMPTS: u32 = 5;

/// One model of a warden.
#[derive(Debug, Clone)]
pub(super) struct Warden {
    http: Http,
    model: String,
}

/// What a model's counters stood at.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Reading {
    pub(super) counters_since: f64,
    pub(super) requests: u64,
    pub(super) sticky: u64,
    pub(super) left_home: u64,
    /// `None` where a replica's engine does not tell.
    pub(super) engine: Option<Counters>,
}

/// What a bench changes, as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) affinity: bool,
    pub(super) leases: api::LeasesMode,
}

impl Warden {
    /// Makes sure that a warden answers there and serves the model.
    pub(super) async fn find(http: Http, model: &str) -> Result<(Self, api::Model), BenchError> {
        let answer = http
            .ask(Method::GET, "/api/v1/models", Bytes::new())
            .await?;
        let models: api::Models = parse(&http, "/api/v1/models", &answer)?;
        let found = models.models.iter().find(|known| {
            known.name == model
                || known
                    .aliases
                    .iter()
                    .any(|alias| vllm::alias_matches(alias, model))
        });
        let Some(found) = found.cloned() else {
            let known: Vec<_> = models.models.into_iter().map(|known| known.name).collect();
            return Err(BenchError::UnknownModel {
                asked: model.to_owned(),
                known: known.join(", "),
            });
        };
        if !matches!(
            found.state,
            api::ModelState::Ready | api::ModelState::Degraded
        ) {
            return Err(BenchError::NotReady {
                model: found.name,
                reason: found
                    .state_reason
                    .unwrap_or_else(|| format!("{:?}", found.state).to_lowercase()),
            });
        }
        let warden = Self {
            http,
            model: found.name.clone(),
        };
        Ok((warden, found))
    }

    pub(super) fn http(&self) -> &Http {
        &self.http
    }

    pub(super) async fn routing(&self) -> Result<api::Routing, BenchError> {
        let path = self.path("");
        let answer = self.http.ask(Method::GET, &path, Bytes::new()).await?;
        let model: api::Model = parse(&self.http, &path, &answer)?;
        Ok(model.routing)
    }

    /// The counters, once the engine's have been scraped after `since`.
    pub(super) async fn read_after(&self, since: Instant) -> Result<Reading, BenchError> {
        loop {
            let routing = self.routing().await?;
            let age_ms = since.elapsed().as_millis() as u64;
            let fresh = |replica: &api::Replica| {
                replica.state == api::ReplicaState::Down
                    || replica.scrape_age_ms.is_some_and(|scrape| scrape < age_ms)
            };
            if routing.replicas.iter().all(fresh) || since.elapsed() > SCRAPE_PATIENCE {
                return Ok(Reading::of(&routing));
            }
            tokio::time::sleep(SCRAPE_PAUSE).await;
        }
    }

    /// Switches to an arm. The engine hears nothing of it.
    pub(super) async fn switch(&self, arm: Arm, now: Settings) -> Result<(), BenchError> {
        let leases = match arm {
            Arm::Off | Arm::On => api::LeasesMode::Off,
            Arm::Leases => api::LeasesMode::Auto,
        };
        let affinity = arm != Arm::Off;
        self.change(patch(Settings { affinity, leases }, now)).await
    }

    /// Puts the settings back, with patience.
    pub(super) async fn restore(&self, settings: Settings) -> Result<(), BenchError> {
        let mut attempt = 1;
        loop {
            let done = match self.routing().await {
                Ok(now) => self.change(patch(settings, Settings::of(&now))).await,
                Err(error) => Err(error),
            };
            if done.is_ok() || attempt == RESTORE_ATTEMPTS {
                return done;
            }
            attempt += 1;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn change(&self, change: Value) -> Result<(), BenchError> {
        let path = self.path("/routing");
        let body = Bytes::from(change.to_string());
        let answer = self.http.ask(Method::PATCH, &path, body).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(BenchError::Refused {
            change: change.to_string(),
            status: answer.status.as_u16(),
            reason: first_words(&answer.body),
        })
    }

    fn path(&self, rest: &str) -> String {
        let mut name = String::new();
        for byte in self.model.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                name.push(char::from(byte));
            } else {
                write!(name, "%{byte:02X}").expect("a string takes all that fits in memory");
            }
        }
        format!("/api/v1/models/{name}{rest}")
    }
}

/// What has to change; leases are named only where they do, since a warden may not have them.
fn patch(to: Settings, now: Settings) -> Value {
    let mut patch = json!({ "affinity": to.affinity });
    if to.leases != now.leases {
        patch["leases"] = json!(to.leases);
    }
    patch
}

fn parse<T: serde::de::DeserializeOwned>(
    http: &Http,
    path: &str,
    answer: &Answer,
) -> Result<T, BenchError> {
    let no_warden = |reason: String| BenchError::NoWarden {
        url: http.url(path),
        reason,
    };
    if !answer.status.is_success() {
        return Err(no_warden(format!(
            "it answers {} {}",
            answer.status.as_u16(),
            first_words(&answer.body)
        )));
    }
    serde_json::from_slice(&answer.body)
        .map_err(|error| no_warden(format!("its answer is not a warden's: {error}")))
}

impl Settings {
    pub(super) fn of(routing: &api::Routing) -> Self {
        Self {
            affinity: routing.affinity,
            leases: routing.leases.mode,
        }
    }
}

impl Reading {
    fn of(routing: &api::Routing) -> Self {
        let sum = |counter: fn(&api::Replica) -> u64| routing.replicas.iter().map(counter).sum();
        let placed: u64 = sum(|r| r.new + r.sticky + r.spilled_in + r.moved_in + r.client_pinned);
        Self {
            counters_since: routing.counters_since,
            requests: routing.balanced + placed,
            sticky: sum(|replica| replica.sticky),
            left_home: sum(|replica| replica.spilled_in + replica.moved_in),
            engine: engine(&routing.replicas),
        }
    }

    /// Percent of the turns after the first that stayed since an earlier reading; `None` where
    /// there were none.
    pub(super) fn stayed_percent_since(&self, earlier: &Self) -> Option<f64> {
        let stayed = self.sticky.saturating_sub(earlier.sticky);
        let left = self.left_home.saturating_sub(earlier.left_home);
        sim::run::percent(stayed, stayed + left)
    }

    /// What the engines counted since an earlier reading; `None` where they do not tell or began
    /// anew.
    pub(super) fn engine_since(&self, earlier: &Self) -> Option<Counters> {
        let (now, before) = self.engine.zip(earlier.engine)?;
        let fell = now.prompt_tokens < before.prompt_tokens
            || now.prefix_cache_queries < before.prefix_cache_queries
            || now.preemptions < before.preemptions;
        (!fell).then(|| now.since(&before))
    }
}

fn engine(replicas: &[api::Replica]) -> Option<Counters> {
    let mut sum = Counters::default();
    for replica in replicas {
        let counters = replica.engine_counters?;
        sum.prefix_cache_queries += counters.prefix_cache_queries?;
        sum.prefix_cache_hits += counters.prefix_cache_hits?;
        sum.prompt_tokens += counters.prompt_tokens?;
        sum.prompt_tokens_cached += counters.prompt_tokens_cached.unwrap_or(0);
        sum.generation_tokens += counters.generation_tokens.unwrap_or(0);
        sum.preemptions += counters.preemptions.unwrap_or(0);
    }
    (!replicas.is_empty()).then_some(sum)
}
