//! Asks every server once a second how it is (`/health`) and what it counts (`/metrics`), and tells
//! the router.
//!
//! A refused connection is told as a failed connect, which may take the last replica out; a slow or
//! bad answer only as a failed probe, since a busy server answers slowly too. What the engine tells
//! of itself (version, model) is asked when it was not reached before or is another process now.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use routing::{Event, ReplicaIndex, Steering};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};
use vllm::Scrape;

use super::{Model, versions};
use crate::{
    clock::{self, epoch_s},
    fetch::{Fetch, FetchError},
    telemetry::Telemetry,
};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer may take. vLLM answers from its API server's event loop, which tokenises
/// long prompts in between.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest answer: 256 ranks' metrics are about 10 MB.
const BODY_BYTES_MAX: usize = 16 << 20;

/// One server and the replicas behind it.
#[derive(Debug)]
struct Server {
    model: Arc<Model>,
    telemetry: Arc<Telemetry>,
    fetch: Fetch,
    replicas: Vec<ReplicaIndex>,
    steering: Steering,
    /// Whether version and model were told by this process.
    introduced: bool,
    /// Whether it has told its figures before.
    seen: bool,
}

/// Watches all servers of a model.
#[derive(Debug)]
pub struct Watch(Vec<Server>);

impl Watch {
    /// Nothing is asked yet.
    pub fn new(model: &Arc<Model>, telemetry: &Arc<Telemetry>) -> Self {
        let steering = model.router.lock().settings().steering;
        let groups: Vec<Vec<ReplicaIndex>> = match steering {
            Steering::Ranks => vec![model.replicas().collect()],
            Steering::Urls => model.replicas().map(|replica| vec![replica]).collect(),
        };
        let server = |replicas| Server {
            model: Arc::clone(model),
            telemetry: Arc::clone(telemetry),
            fetch: Fetch::new(TIMEOUT, BODY_BYTES_MAX, model.engine_key.as_deref()),
            replicas,
            steering,
            introduced: false,
            seen: false,
        };
        Self(groups.into_iter().map(server).collect())
    }

    /// One look at all servers: bounded, since every question is. Done before the first request is
    /// let in, so that aliases can be replaced by the engine's name from the start.
    pub async fn look(self) -> Self {
        let mut looks = JoinSet::new();
        for mut server in self.0 {
            looks.spawn(async move {
                server.look().await;
                server
            });
        }
        Self(looks.join_all().await)
    }

    /// Looks again and again, until this is dropped.
    pub async fn run(self) {
        let mut servers = JoinSet::new();
        for server in self.0 {
            servers.spawn(server.run());
        }
        servers.join_all().await;
    }
}

impl Server {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval_at(Instant::now(), INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let targets = self.model.targets();
        let Some(target) = self
            .replicas
            .first()
            .and_then(|replica| targets.get(usize::from(replica.0)))
        else {
            return; // a simulated engine that has no port yet
        };
        // A port that the engine has left may be another program's by now.
        if !self.runs() {
            return;
        }
        let url = target.url.as_str();
        let (health, metrics) = tokio::join!(
            self.fetch.get(url, "/health"),
            self.fetch.get(url, "/metrics")
        );
        if !self.runs() {
            return; // it was taken out meanwhile: what was asked of it is stale
        }
        self.probed(health.map(|_| ()));
        let mut changed = match metrics {
            Ok(body) => self.scraped(&vllm::parse_metrics(&body)),
            Err(_) => false,
        };
        if !self.introduced {
            let (version, models) = tokio::join!(
                self.fetch.get(url, "/version"),
                self.fetch.get(url, "/v1/models")
            );
            changed |= self.introduce(version.ok(), models.ok());
        }
        changed |= self.model.refresh_state(clock::now());
        if changed {
            self.telemetry.changes().model(&self.model.name);
        }
    }

    fn runs(&self) -> bool {
        self.replicas
            .iter()
            .all(|replica| self.model.runs(*replica))
    }

    fn probed(&mut self, answer: Result<(), FetchError>) {
        let event = match &answer {
            Ok(()) => Event::ProbeSucceeded,
            Err(FetchError::Connect { .. }) => Event::ConnectFailed,
            Err(error @ FetchError::Scarcity { .. }) => {
                tracing::warn!(model = %self.model.name, %error, "a probe could not be made");
                return; // nothing was learnt of the replicas
            }
            Err(_) => Event::ProbeFailed,
        };
        let answer = answer.map_err(|error| error.to_string());
        self.model
            .observe_all(clock::now(), self.replicas.iter().copied(), event);
        for replica in &self.replicas {
            let answer = answer.as_ref().copied().map_err(String::as_str);
            self.model.answered(usize::from(replica.0), answer);
        }
        if answer.is_err() {
            self.introduced = false;
        }
    }

    /// True where the figures differ from those before.
    fn scraped(&mut self, scrape: &Scrape) -> bool {
        let now = clock::now();
        let (mut restarted, mut differs) = (false, false);
        // An engine younger than this process was started under its eyes.
        let started_s = scrape.process_start_time_s;
        let is_young = started_s.is_some_and(|at| at > epoch_s(self.telemetry.started()));
        let first = !std::mem::replace(&mut self.seen, true) && is_young;
        let mut events = Vec::new();
        let mut figures = self.model.figures();
        for replica in &self.replicas {
            let Some(metrics) = engine_of(scrape, self.steering, *replica) else {
                continue;
            };
            let figures = &mut figures[usize::from(replica.0)];
            differs |= figures.latest != metrics;
            if metrics.kv_tokens != figures.latest.kv_tokens
                && let Some(kv_tokens) = metrics.kv_tokens
            {
                events.push(Event::KvTokens(*replica, kv_tokens));
            }
            restarted |= figures.scraped(now, scrape.process_start_time_s, metrics);
            events.extend(
                figures
                    .gauges()
                    .map(|gauges| Event::Scraped(*replica, gauges)),
            );
        }
        drop(figures);
        if restarted || first {
            let text = format!("engine started: {}", said(&self.replicas));
            let model = Some(self.model.name.as_str());
            (self.telemetry).mark(api::MarkKind::EngineStarted, model, text);
        }
        if restarted {
            tracing::warn!(
                model = %self.model.name,
                replicas = ?self.replicas,
                "another engine process answers: its cache is cold"
            );
            self.introduced = false;
            let replicas = self.replicas.iter().copied();
            self.model
                .observe_all(now, replicas, Event::EngineRestarted);
        }
        let mut router = self.model.router.lock();
        for event in events {
            router.observe(now, event);
        }
        differs
    }

    fn introduce(&mut self, version: Option<Bytes>, models: Option<Bytes>) -> bool {
        let version = version.and_then(|body| versions::version(&body));
        let served = models.and_then(|body| versions::served(&body, &self.model.name));
        self.introduced = served.is_some();
        let changed = version.is_some() || served.is_some();
        if let Some(version) = version {
            self.model.set_version(version, self.steering);
        }
        if let Some(served) = served {
            self.model.set_served(served.id, served.max_model_len);
        }
        changed
    }
}

/// "replicas 0, 1".
fn said(replicas: &[ReplicaIndex]) -> String {
    let numbers: Vec<String> = replicas.iter().map(|one| one.0.to_string()).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("replica{plural} {}", numbers.join(", "))
}

/// One replica's part of a scrape: its rank's, or where the URL is the replica, its only one.
fn engine_of(
    scrape: &Scrape,
    steering: Steering,
    replica: ReplicaIndex,
) -> Option<vllm::EngineMetrics> {
    match steering {
        Steering::Ranks => scrape.engines.get(&u32::from(replica.0)).copied(),
        Steering::Urls => scrape.engines.values().next().copied(),
    }
}
