//! One served model: its router, its replicas' addresses and its state. Shared by the gateway
//! (which asks and observes), the prober (which observes) and the operators' API (which reads).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use routing::{
    Event, LeaseMode, LeaseSettings, ReplicaIndex, ReplicaSpec, Router, Settings, Steering, Time,
};
use tokio::sync::Notify;

use super::{
    demand::Demand,
    figures::Figures,
    health::{Health, Process},
    logs::Logs,
    router_cell::RouterCell,
    switch::Switch,
};
use crate::config;

/// Conversations in one model's table, at most.
const CONVERSATIONS_MAX: usize = 100_000;

/// Where a replica is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaTarget {
    /// `http://host:port`, without a trailing slash.
    pub url: String,
    /// The data-parallel rank to name in `X-data-parallel-rank`; `None` where the URL is the replica.
    pub rank: Option<u32>,
}

/// State of a model as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelState {
    /// All replicas serve.
    Ready,
    /// None serves yet (or again); the text says what it is doing.
    Loading(String),
    /// All serve what they have, and take nothing new: an operator drained them.
    Drained,
    /// Some replicas are out.
    Degraded(String),
    /// It will not come back by itself.
    Failed(String),
    /// An operator stopped it.
    Stopped,
    /// On demand: it starts with the next request.
    Asleep,
}

/// One served model.
#[derive(Debug)]
pub struct Model {
    /// What clients ask for.
    pub name: String,
    /// Other names it answers to; a `*` in an alias stands for any text.
    pub aliases: Vec<String>,
    /// Its router.
    pub router: RouterCell,
    /// Replicas by index; empty while a simulated engine has no port yet. Replaced when it gets a
    /// new one.
    pub targets: RwLock<Arc<[ReplicaTarget]>>,
    /// The engine's own name for the model, sent upstream; learned from `/v1/models`, empty before.
    pub engine_model: RwLock<String>,
    /// `max_model_len` from `/v1/models`, once known.
    pub max_model_len: RwLock<Option<u64>>,
    /// The engine's version, once known.
    pub engine_version: RwLock<Option<String>>,
    /// Whether `/v1/responses` honours the rank header (vLLM 0.33 on, or URLs per replica).
    pub responses_steerable: AtomicBool,
    /// Whether the engine takes a `cache_salt`.
    pub takes_cache_salt: AtomicBool,
    /// Key for the engine's API (`Authorization: Bearer`), never the client's.
    pub engine_key: Option<String>,
    /// State for people and for 503 messages.
    pub state: RwLock<ModelState>,
    /// Who runs the engine.
    pub kind: api::EngineKind,
    /// Stable names of the replicas, by index: homes are kept under them.
    pub replica_ids: Vec<String>,
    /// What the engine's metrics say, by replica.
    pub figures: Mutex<Vec<Figures>>,
    /// What the prober and the supervisor last saw.
    pub(super) health: Mutex<Health>,
    /// What its engine printed last.
    pub logs: Logs,
    /// When it was last asked for, for engines on demand.
    pub demand: Demand,
    pub(super) state_changed: Notify,
    /// Microseconds of the time at which it came into its state.
    pub(super) state_since: AtomicU64,
    /// Whether a simulated engine is to run.
    pub(crate) switch: Switch,
}

/// All models.
#[derive(Debug)]
pub struct Fleet {
    /// In the order of the configuration.
    pub models: Vec<Arc<Model>>,
}

impl Fleet {
    /// The models of a configuration, none of them reached yet.
    pub fn new(config: &config::Config, now: Time) -> Self {
        let models = config.models.iter();
        Self {
            models: models
                .map(|model| Arc::new(Model::new(model, now)))
                .collect(),
        }
    }

    /// The model that is configured under exactly this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.iter().find(|model| model.name == name)
    }
}

impl Model {
    /// A model as configured, before anything is known of its engine.
    pub fn new(config: &config::Model, now: Time) -> Self {
        let Layout {
            targets,
            ids,
            steering,
            max_num_seqs,
            key,
        } = Layout::of(&config.engine);
        let settings = Settings {
            affinity: config.routing.affinity,
            spill_threshold: threshold(config.routing.spill_threshold),
            max_num_seqs,
            steering,
            session_idle: config.routing.session_idle,
            conversations_max: CONVERSATIONS_MAX,
            leases: LeaseSettings {
                mode: lease_mode(config.routing.leases),
                turns: lease_turns(config.routing.lease_turns),
                queue_wait_max: config.routing.queue_wait_max,
                ..LeaseSettings::default()
            },
        };
        let specs = ids.iter().map(|id| ReplicaSpec {
            id: id.clone(),
            kv_tokens: None,
            host: None,
        });
        let mut router = Router::new(settings, specs.collect(), now);
        let (kind, process) = beginning(&config.engine);
        if process != Process::Running {
            // Out until its process serves.
            for replica in (0..ids.len()).map(|replica| ReplicaIndex(replica as u16)) {
                router.observe(now, Event::ConnectFailed(replica));
            }
        }
        Self {
            name: config.name.clone(),
            aliases: config.aliases.clone(),
            router: RouterCell::new(router),
            targets: RwLock::new(targets.into()),
            engine_model: RwLock::default(),
            max_model_len: RwLock::default(),
            engine_version: RwLock::default(),
            takes_cache_salt: AtomicBool::new(false),
            responses_steerable: AtomicBool::new(steering == Steering::Urls),
            engine_key: key,
            state: RwLock::new(ModelState::Loading("waiting for the engine".to_owned())),
            kind,
            figures: Mutex::new(vec![Figures::default(); ids.len()]),
            health: Mutex::new(Health::new(ids.len(), &process)),
            replica_ids: ids,
            logs: Logs::default(),
            demand: Demand::new(is_on_demand(&config.engine)),
            state_changed: Notify::new(),
            state_since: AtomicU64::new(now.0),
            switch: Switch::new(),
        }
    }

    /// Where the replicas are reached, by index.
    pub fn targets(&self) -> Arc<[ReplicaTarget]> {
        Arc::clone(&self.targets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// All replicas, by index.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaIndex> + use<> {
        (0..self.replica_ids.len()).map(|replica| ReplicaIndex(replica as u16))
    }

    /// Tells the router the same of several replicas.
    pub(crate) fn observe_all(
        &self,
        now: Time,
        replicas: impl IntoIterator<Item = ReplicaIndex>,
        event: impl Fn(ReplicaIndex) -> Event,
    ) {
        let mut router = self.router.lock();
        for replica in replicas {
            router.observe(now, event(replica));
        }
    }

    /// State as last seen.
    pub fn state(&self) -> ModelState {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.clone()
    }

    /// Since when it is in that state, whatever its words.
    pub fn state_since(&self) -> Time {
        Time(self.state_since.load(Ordering::Relaxed))
    }

    /// Returns once the state is none in which `waits`.
    pub async fn left_state(&self, waits: fn(&ModelState) -> bool) {
        loop {
            // Asked for before the look, so that a change in between is not missed.
            let changed = self.state_changed.notified();
            if !waits(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// What the engine's metrics say, by replica.
    pub fn figures(&self) -> MutexGuard<'_, Vec<Figures>> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of the engine's version, which decides whether `/v1/responses` can be steered.
    pub(super) fn set_version(&self, version: String, steering: Steering) {
        let steerable = steering == Steering::Urls || vllm::responses_steerable(&version);
        self.responses_steerable.store(steerable, Ordering::Relaxed);
        let salted = vllm::takes_cache_salt(&version);
        self.takes_cache_salt.store(salted, Ordering::Relaxed);
        *self
            .engine_version
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    /// Takes note of the engine's name for the model and of its longest context.
    pub(super) fn set_served(&self, name: String, max_model_len: Option<u64>) {
        let mut router = self.router.lock();
        let mut settings = router.settings().clone();
        settings.leases.model_tokens_max =
            max_model_len.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
        if settings != *router.settings() {
            router.configure(settings);
        }
        drop(router);
        *self
            .max_model_len
            .write()
            .unwrap_or_else(PoisonError::into_inner) = max_model_len;
        *self
            .engine_model
            .write()
            .unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// New addresses of all replicas.
    pub(crate) fn set_targets(&self, targets: Vec<ReplicaTarget>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets.into();
    }
}

/// Who runs the engine, and what its processes do before anything is known of them.
fn beginning(engine: &config::Engine) -> (api::EngineKind, Process) {
    match engine {
        config::Engine::Vllm(_) => (
            api::EngineKind::Vllm,
            Process::Starting("waiting for its turn to start".to_owned()),
        ),
        config::Engine::Attached(_) => (api::EngineKind::Attached, Process::Running),
        config::Engine::Simulated(_) => (
            api::EngineKind::Simulated,
            Process::Starting("starting the simulated engine".to_owned()),
        ),
    }
}

fn is_on_demand(engine: &config::Engine) -> bool {
    matches!(engine, config::Engine::Vllm(engine) if engine.start == config::Start::OnDemand)
}

/// What the router calls a threshold.
pub(crate) fn threshold(set: api::SetThreshold) -> Option<u32> {
    match set {
        api::SetThreshold::Requests(requests) => Some(requests),
        api::SetThreshold::Word(api::AutoWord::Auto) => None,
    }
}

/// What the router calls the mode of leases.
pub(crate) fn lease_mode(set: api::LeasesMode) -> LeaseMode {
    match set {
        api::LeasesMode::Auto => LeaseMode::Auto,
        api::LeasesMode::Off => LeaseMode::Off,
    }
}

/// What the router calls a number of turns.
pub(crate) fn lease_turns(set: api::SetTurns) -> Option<u32> {
    match set {
        api::SetTurns::Turns(turns) => Some(turns),
        api::SetTurns::Word(api::AutoWord::Auto) => None,
    }
}

/// How an engine's replicas are addressed.
struct Layout {
    targets: Vec<ReplicaTarget>,
    ids: Vec<String>,
    steering: Steering,
    max_num_seqs: u32,
    key: Option<String>,
}

impl Layout {
    fn of(engine: &config::Engine) -> Self {
        match engine {
            config::Engine::Vllm(engine) => {
                let (name, steering) = match engine.layout {
                    config::Layout::Ranks => ("rank", Steering::Ranks),
                    config::Layout::Servers => ("server", Steering::Urls),
                };
                Self {
                    targets: Vec::new(),
                    // Not by port: that may be another after a restart.
                    ids: (0..engine.data_parallel_size)
                        .map(|replica| format!("{name}:{replica}"))
                        .collect(),
                    steering,
                    max_num_seqs: engine.max_num_seqs,
                    key: engine.api_key.as_ref().map(|key| key.0.clone()),
                }
            }
            config::Engine::Simulated(engine) => Self {
                targets: Vec::new(),
                ids: (0..engine.data_parallel_size)
                    .map(|rank| format!("rank:{rank}"))
                    .collect(),
                steering: Steering::Ranks,
                max_num_seqs: engine.max_num_seqs,
                key: None,
            },
            config::Engine::Attached(engine) => {
                let (targets, ids, steering) = match &engine.replicas {
                    config::Replicas::Ranks {
                        url,
                        data_parallel_size,
                    } => (
                        rank_targets(url, usize::from(*data_parallel_size)),
                        (0..*data_parallel_size)
                            .map(|rank| format!("{url} rank:{rank}"))
                            .collect(),
                        Steering::Ranks,
                    ),
                    config::Replicas::Urls { urls } => {
                        let target = |url: &String| ReplicaTarget {
                            url: url.clone(),
                            rank: None,
                        };
                        (
                            urls.iter().map(target).collect(),
                            urls.clone(),
                            Steering::Urls,
                        )
                    }
                };
                Self {
                    targets,
                    ids,
                    steering,
                    max_num_seqs: engine.max_num_seqs,
                    key: engine.api_key.as_ref().map(|key| key.0.clone()),
                }
            }
        }
    }
}

/// Ranks behind one server.
pub(crate) fn rank_targets(url: &str, ranks: usize) -> Vec<ReplicaTarget> {
    let target = |rank| ReplicaTarget {
        url: url.to_owned(),
        rank: Some(rank as u32),
    };
    (0..ranks).map(target).collect()
}
