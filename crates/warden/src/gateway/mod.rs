//! The clients' side: everything between an agent's connection and a replica's.
//!
//! A request's body is read once, understood (`vllm`), routed (`routing`) and sent on byte for
//! byte; the reply's bytes go back as they arrive. One file per step:
//!
//! `server` accepts connections, `crowd` so many per address, `tls` encrypted ones, `unreadable` answers heads that are none · `endpoint` knows the paths · `inbound` reads a body within the
//! bounds of `limits` and `budget` · `call` understands it · `lobby` is where it waits for room, and
//! `queued` the stream that begins meanwhile · `aim` turns a decision into an address · `forward`
//! sends it, again where allowed · `feed` reads the reply along · `reply` begins the client's, `relay` passes it on ·
//! `ledger` counts the request in and out · `watchdog` notices a replica that stands still ·
//! `error` answers where no engine does.
//!
//! Left out: any choice of a replica (`routing`), the operators' API and pages (a `Fallback`
//! service answers them), and counting (telemetry's, fed by one event per step).

mod activity;
mod aim;
mod body;
mod bookmarks;
mod budget;
mod call;
mod connection;
mod crowd;
mod endpoint;
mod error;
mod fallback;
mod feed;
mod forward;
mod headers;
mod identity;
mod inbound;
mod lanes;
mod ledger;
mod limits;
mod lobby;
mod local;
mod peer;
mod queued;
mod relay;
mod reply;
mod request_id;
mod request_line;
mod salt;
mod server;
mod stall;
mod stamp;
mod taken;
mod tls;
mod unreadable;
mod unwind;
mod watchdog;

use std::sync::{Arc, atomic::AtomicUsize};

use http::{Request, Response};
use hyper::body::Incoming;
use routing::Seed;
use vllm::Dialect;

pub use body::{Body, BoxError, FallbackBody, ReplyError};
pub use fallback::{Fallback, PeerAddress};
pub use lanes::Lanes;
pub use limits::Limits;
pub use peer::Peer;
pub use server::{DrainHandle, Drained, Server};
pub use tls::{Tls, TlsError};

use self::{
    activity::Activity,
    bookmarks::Bookmarks,
    budget::Budget,
    call::Call,
    endpoint::{Endpoint, Known},
    error::GatewayError,
    ledger::Ledger,
    lobby::Lobby,
    queued::Queued,
    request_id::RequestIds,
    stamp::Stamp,
};
use crate::{
    clock,
    fleet::{Fleet, Model},
    keys::{self, Access, Denied, Holder},
    seldom::Seldom,
    telemetry::{RequestId, RequestInfo, Telemetry},
    upstream::{Network, Pool, PoolSettings},
};

/// Most that an error repeats of a model's name or a path that is not served here.
const ASKED_CHARS_MAX: usize = 128;

/// The proxy. One per process, shared by all connections.
pub struct Gateway {
    fleet: Arc<Fleet>,
    /// The models' names as telemetry gets them, in the fleet's order.
    names: Vec<Arc<str>>,
    telemetry: Arc<Telemetry>,
    limits: Limits,
    seed: Seed,
    bookmarks: Bookmarks,
    pool: Arc<Pool>,
    budget: Budget,
    activity: Activity,
    ids: RequestIds,
    /// Whose turn it is among the replicas, for calls that take no slot.
    turn: AtomicUsize,
    fallback: Fallback,
    /// The rules at the door; none in tests of what lies behind it.
    access: Option<Arc<Access>>,
    /// When it was last told that an engine takes no salt.
    unsalted: Seldom,
    /// Epoch seconds of the start: `created` of every model.
    started_s: i64,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the seed.
        f.debug_struct("Gateway")
            .field("names", &self.names)
            .field("limits", &self.limits)
            .field("activity", &self.activity)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway before these models. Must be called within a runtime. Fails where the system
    /// gives no random number for the request ids.
    pub fn new(
        fleet: Arc<Fleet>,
        telemetry: Arc<Telemetry>,
        limits: Limits,
        seed: Seed,
        fallback: Fallback,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self {
            names: fleet
                .models
                .iter()
                .map(|model| Arc::from(model.name.as_str()))
                .collect(),
            fleet,
            telemetry,
            limits,
            seed,
            bookmarks: Bookmarks::new(),
            pool: Pool::new(PoolSettings::default()),
            budget: Budget::new(limits.buffered_bytes_max),
            activity: Activity::default(),
            ids: RequestIds::new()?,
            turn: AtomicUsize::new(0),
            fallback,
            access: None,
            unsalted: Seldom::default(),
            started_s: clock::epoch_s(clock::now()) as i64,
        })
    }

    /// Lets in what these rules allow, instead of everybody.
    #[must_use]
    pub fn guarded_by(mut self, access: Arc<Access>) -> Self {
        self.access = Some(access);
        self
    }

    /// The same gateway, its engines reached over this network. Must be called within a runtime.
    #[must_use]
    pub fn over(mut self, network: Network) -> Self {
        self.pool = Pool::over(PoolSettings::default(), network);
        self
    }

    /// Proxied requests being served, those that wait for their first byte included.
    pub fn in_flight(&self) -> usize {
        self.activity.present()
    }

    /// Bytes of bodies held at the moment.
    pub fn buffered_bytes(&self) -> usize {
        self.budget.held()
    }

    /// Answers one request, whatever it is.
    pub async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Arc<Peer>,
    ) -> Response<Body> {
        let stamp = Stamp::undecided(self.ids.next());
        let dialect = endpoint::dialect_of(request.uri().path());
        let answer = unwind::caught(self.respond(request, peer, stamp)).await;
        answer.unwrap_or_else(|unwind::Panicked| {
            tracing::error!(request = %stamp.id, "a panic ended this request; please report it");
            GatewayError::Panicked.response(dialect, &stamp)
        })
    }

    async fn respond(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stamp: Stamp,
    ) -> Response<Body> {
        let dialect = endpoint::dialect_of(request.uri().path());
        let known = endpoint::lookup(request.method(), request.uri().path());
        let holder = match self.enter(&request, known) {
            Ok(holder) => holder,
            Err(denied) => {
                inbound::refuse(request);
                return GatewayError::Denied(denied).response(dialect, &stamp);
            }
        };
        let Some(known) = known else {
            return self.unknown(request, &peer, stamp).await;
        };
        if !known.allows(request.method()) {
            inbound::refuse(request);
            let error = GatewayError::Method {
                path: known.path,
                allow: known.allow,
            };
            return error.response(dialect, &stamp);
        }
        let mut response = match known.endpoint {
            Endpoint::Generate(_) | Endpoint::Pass(_) => {
                let caller = Caller { peer, holder };
                return self.proxy(known, request, caller, stamp).await;
            }
            Endpoint::Models => local::models(self, request.uri().query()),
            Endpoint::Model => match local::model(self, request.uri().path()) {
                Ok(response) => response,
                Err(error) => return error.response(dialect, &stamp),
            },
            Endpoint::Health | Endpoint::Hello => local::health(),
            Endpoint::Ready => local::ready(self),
            Endpoint::Version => local::version(self),
        };
        stamp.put(response.headers_mut());
        response
    }

    /// Whose request it is, where its path is a client's and not open to all.
    fn enter(
        &self,
        request: &Request<Incoming>,
        known: Option<Known>,
    ) -> Result<Option<Arc<Holder>>, Denied> {
        let is_guarded = match known {
            Some(known) => !known.endpoint.is_open(),
            None => endpoint::is_clients(request.uri().path()),
        };
        match &self.access {
            Some(access) if is_guarded => {
                let host = keys::host(request.headers(), request.uri());
                access.client(request.headers(), host)
            }
            _ => Ok(None),
        }
    }

    async fn unknown(
        &self,
        mut request: Request<Incoming>,
        peer: &Peer,
        stamp: Stamp,
    ) -> Response<Body> {
        let address = PeerAddress(peer.address());
        request.extensions_mut().insert(address);
        let request = if endpoint::is_clients(request.uri().path()) {
            request
        } else {
            match self.fallback.call(request).await {
                Ok(response) => return response.map(Body::fallback),
                Err(request) => *request,
            }
        };
        let path = request.uri().path();
        let dialect = endpoint::dialect_of(path);
        let error = GatewayError::UnknownPath {
            path: path.chars().take(ASKED_CHARS_MAX).collect(),
        };
        inbound::refuse(request);
        error.response(dialect, &stamp)
    }

    async fn proxy(
        self: &Arc<Self>,
        known: Known,
        request: Request<Incoming>,
        caller: Caller,
        mut stamp: Stamp,
    ) -> Response<Body> {
        let dialect = match known.endpoint {
            Endpoint::Generate(dialect) | Endpoint::Pass(dialect) => dialect,
            _ => endpoint::dialect_of(known.path),
        };
        let mut ledger = self.ledger(known, dialect, &caller, stamp.id);
        if let Some(holder) = &caller.holder {
            match holder.account.admit() {
                Ok(admission) => ledger.is_of(holder.key.id.owner(), admission),
                Err(limited) => {
                    inbound::refuse(request);
                    let error = GatewayError::Limited(limited);
                    ledger.end(error.end(), error.status().as_u16(), None);
                    return error.response(dialect, &stamp);
                }
            }
        }
        let (parts, incoming) = request.into_parts();
        let peer = caller.peer;
        peer.speaks(parts.version);
        let call = match Call::read(self, known, parts, incoming, &mut ledger).await {
            Ok(call) => call,
            Err(error) => {
                ledger.end(error.end(), error.status().as_u16(), None);
                return error.response(dialect, &stamp);
            }
        };
        let asked = clock::now();
        let lobby = Lobby::default();
        let (gateway, waits) = (Arc::clone(self), lobby.clone());
        // On its own, as it may outlive this call: as the body of a stream that begins meanwhile.
        let mut serving: lobby::Serving = Box::pin(async move {
            let outcome = forward::forward(&gateway, call, &mut ledger, &waits).await;
            (outcome, ledger)
        });
        match lobby.serve(&mut serving).await {
            Some((Ok(answer), ledger)) => {
                stamp.routed = ledger.routed();
                stamp.queue_ms = ledger.queue_ms();
                reply::of(answer, dialect, &stamp, (ledger, peer))
            }
            Some((Err(error), mut ledger)) => {
                ledger.end(error.end(), error.status().as_u16(), None);
                error.response(dialect, &stamp)
            }
            None => {
                stamp.queued = true;
                stamp.queue_ms = clock::now().since(asked).as_millis() as u64;
                let facts = queued::Facts {
                    id: stamp.id,
                    dialect,
                    peer,
                };
                reply::queued(&stamp, Queued::new(serving, lobby, facts))
            }
        }
    }

    /// The books of a request that has just arrived.
    fn ledger(&self, known: Known, dialect: Dialect, caller: &Caller, id: RequestId) -> Ledger {
        let holder = caller.holder.as_ref();
        let info = RequestInfo {
            id,
            arrived: clock::now(),
            model: None,
            dialect,
            path: known.path,
            identity: None,
            owner: holder.map(|holder| Arc::clone(&holder.name)),
            stream: false,
            prompt: None,
        };
        Ledger::open(Arc::clone(&self.telemetry), self.activity.enter(), info)
    }

    /// The model that serves this name, and its configured name: exact names before globs.
    fn model(&self, asked: &str) -> Option<(&Arc<Model>, &Arc<str>)> {
        let exact = |model: &Model| model.name == asked || model.aliases.iter().any(|a| a == asked);
        let globbed = |model: &Model| model.aliases.iter().any(|a| vllm::alias_matches(a, asked));
        let models = &self.fleet.models;
        let index = models
            .iter()
            .position(|model| exact(model))
            .or_else(|| models.iter().position(|model| globbed(model)))?;
        Some((&models[index], &self.names[index]))
    }

    fn unknown_model(&self, asked: &str) -> GatewayError {
        let mut known = Vec::new();
        for model in &self.fleet.models {
            known.push(model.name.as_str());
            known.extend(model.aliases.iter().map(String::as_str));
        }
        GatewayError::UnknownModel {
            asked: asked.chars().take(ASKED_CHARS_MAX).collect(),
            known: known.join(", "),
        }
    }
}

/// Who sent a request.
struct Caller {
    peer: Arc<Peer>,
    /// With which key.
    holder: Option<Arc<Holder>>,
}
