//! One served model: its router, its replicas' addresses and its state. Shared by the gateway
//! (which asks and observes), the prober (which observes) and the operators' API (which reads).

use std::sync::{Arc, Mutex, MutexGuard, RwLock, atomic::AtomicBool};

use routing::Router;

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
    /// Some replicas are out.
    Degraded(String),
    /// It will not come back by itself.
    Failed(String),
    /// An operator stopped it.
    Stopped,
}

/// The one owner of a model's router. Every critical section is a pure in-memory decision of about
/// a microsecond, so a mutex beats a channel to a task; it is never held across an await.
#[derive(Debug)]
pub struct RouterCell(Mutex<Router>);

impl RouterCell {
    /// Wraps a router.
    pub fn new(router: Router) -> Self {
        Self(Mutex::new(router))
    }

    /// Locks it for one decision or observation.
    pub fn lock(&self) -> MutexGuard<'_, Router> {
        // A panic inside the router leaves a state that every later call can still work on.
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One served model.
#[derive(Debug)]
pub struct Model {
    /// What clients ask for.
    pub name: String,
    /// The served names and aliases; an alias ending in `*` is a glob.
    pub aliases: Vec<String>,
    /// Its router.
    pub router: RouterCell,
    /// Replicas by index. Replaced when a simulated or supervised engine gets a new port.
    pub targets: RwLock<Arc<[ReplicaTarget]>>,
    /// The engine's own name for the model, sent upstream; learned from `/v1/models`.
    pub engine_model: RwLock<String>,
    /// `max_model_len` from `/v1/models`, once known.
    pub max_model_len: RwLock<Option<u64>>,
    /// The engine's version, once known.
    pub engine_version: RwLock<Option<String>>,
    /// Whether `/v1/responses` honours the rank header (vLLM 0.33 on, or URLs per replica).
    pub responses_steerable: AtomicBool,
    /// Key for the engine's API (`Authorization: Bearer`), never the client's.
    pub engine_key: Option<String>,
    /// State for people and for 503 messages.
    pub state: RwLock<ModelState>,
}

/// All models.
#[derive(Debug)]
pub struct Fleet {
    /// In the order of the configuration.
    pub models: Vec<Arc<Model>>,
}
