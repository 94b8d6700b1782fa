//! The operators' API, metrics and pages, asked as a service: no socket, no engine.

mod api_shape;
mod conversations;
mod events;
mod guard;
mod leases;
mod login;
mod models;
mod overrides;
mod pages;
mod stats;

use std::sync::Arc;

use axum::{Router, body::Body, response::Response};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use routing::{Candidates, Decision, Event, Identity, OwnerId, ReplicaIndex, RequestClass, Seed};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt as _;
use vllm::{Dialect, Usage};
use warden::{
    clock,
    config::{Config, Overrides as CommandLine},
    fleet::Fleet,
    history::History,
    keys::{Access, KeyFile, Ring, Settings},
    operators::{Operators, Overrides, service},
    reload::{Reloader, Source},
    supervisor::Supervisor,
    telemetry::{End, RequestEvent, RequestId, RequestInfo, Telemetry},
};

const TWO_MODELS: &str = r#"
[[models]]
name = "demo"
aliases = ["claude-*"]
[models.engine]
kind = "attached"
urls = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
max_num_seqs = 32
[[models]]
name = "Org/Other"
[models.engine]
kind = "attached"
url = "http://127.0.0.1:3"
data_parallel_size = 3
max_num_seqs = 2
"#;

const SEED: Seed = Seed([7; 16]);

/// The service over two models whose engines are never asked.
struct Fixture {
    fleet: Arc<Fleet>,
    telemetry: Arc<Telemetry>,
    history: Arc<History>,
    service: Router,
    directory: TempDir,
    next_id: std::cell::Cell<u128>,
}

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    body: bytes::Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed.unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The message of an error, which must have this status and code.
    fn error(&self, status: u16, code: &str) -> String {
        let json = self.json();
        assert_eq!(
            (self.status.as_u16(), &json["error"]["code"]),
            (status, &code.into()),
            "{json}"
        );
        json["error"]["message"].as_str().unwrap().to_owned()
    }
}

impl Fixture {
    fn new() -> Self {
        Self::with(TWO_MODELS, tempfile::tempdir().unwrap())
    }

    /// The directory is where operators' changes are kept.
    fn with(config: &str, directory: TempDir) -> Self {
        let access = access(directory.path(), false);
        Self::behind(access, config, directory)
    }

    /// A key is required, and the directory has the file of keys.
    fn guarded(directory: TempDir) -> Self {
        let access = access(directory.path(), true);
        Self::behind(access, TWO_MODELS, directory)
    }

    fn behind(access: Arc<Access>, config: &str, directory: TempDir) -> Self {
        let now = clock::now();
        let config = Config::parse(config, &CommandLine::default()).unwrap();
        let fleet = Arc::new(Fleet::new(&config, now));
        let models = fleet.models.iter();
        let file = directory.path().join("history.sqlite");
        let history = Arc::new(History::start(file, config.history).unwrap());
        let telemetry = Telemetry::new(
            models.map(|model| (model.name.as_str(), model.replica_ids.len())),
            now,
        );
        let telemetry = Arc::new(telemetry.keeping(Arc::clone(&history)));
        let path = directory.path().join("routing.json");
        let overrides = Overrides::load(path, &config, &fleet).unwrap();
        let overrides = Arc::new(overrides);
        let supervisor = Supervisor::start(&config, &fleet, &telemetry).unwrap();
        let supervisor = Arc::new(supervisor);
        let source = Source {
            path: Some(directory.path().join("warden.toml")),
            ..Source::default()
        };
        let reloader = Arc::new(Reloader::new(
            (source, config),
            (Arc::clone(&fleet), Arc::clone(&telemetry)),
            Arc::clone(&supervisor),
            (Arc::clone(&overrides), Arc::clone(&history)),
        ));
        let service = service(Operators {
            fleet: Arc::clone(&fleet),
            telemetry: Arc::clone(&telemetry),
            history: Arc::clone(&history),
            overrides,
            supervisor,
            reloader,
            gpus: Arc::default(),
            access,
            seed: SEED,
        });
        Self {
            fleet,
            telemetry,
            history,
            service,
            directory,
            next_id: std::cell::Cell::new(1),
        }
    }

    /// Another process on the same data directory.
    fn restart(self) -> Self {
        self.history.stop();
        let Self { directory, .. } = self;
        Self::with(TWO_MODELS, directory)
    }

    async fn respond(&self, request: Request<Body>) -> Response {
        self.service.clone().oneshot(request).await.unwrap()
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.respond(request).await.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:8484")
            .body(Body::from(body.to_owned()))
            .unwrap();
        self.send(request).await
    }

    /// The JSON of an answer that must be a success.
    async fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, "").await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {:?}", answer.body);
        answer.json()
    }

    /// One turn of a session through the model's router and telemetry, as the gateway would.
    fn turn(&self, model: &str, session: &str, usage: Option<Usage>) -> Decision {
        let model = self.fleet.get(model).unwrap();
        let id = RequestId(self.next_id.replace(self.next_id.get() + 1));
        let now = clock::now();
        let candidates = Candidates {
            claude_code_session_id: Some(session.as_bytes()),
            ..Candidates::default()
        };
        let identity = Identity::of(&SEED, OwnerId(0), &model.name, &candidates);
        self.telemetry.record(RequestEvent::Arrived(RequestInfo {
            id,
            arrived: now,
            model: Some(model.name.as_str().into()),
            dialect: Dialect::Messages,
            path: "/v1/messages",
            identity,
            owner: None,
            stream: true,
            prompt: None,
        }));
        let request = routing::Request {
            owner: OwnerId(0),
            identity,
            pin: None,
            steerable: true,
            prompt_bytes: 1000,
            shared_bytes: 100,
            lineage: 1,
            front: 0,
            streams: false,
            class: RequestClass::Turn,
        };
        let mut router = model.router.lock();
        let decision = router.route(now, &request).unwrap();
        router.observe(now, Event::Finished(decision.ticket, None));
        drop(router);
        self.telemetry
            .record(RequestEvent::Routed(id, now, decision.clone()));
        self.telemetry.record(RequestEvent::FirstByte(id, now));
        self.telemetry.record(RequestEvent::Ended {
            id,
            at: now,
            end: End::Complete,
            status: 200,
            usage,
        });
        decision
    }
}

/// The rules over the keys of this directory.
fn access(directory: &std::path::Path, required: bool) -> Arc<Access> {
    let ring = Ring::load(KeyFile::of(directory)).unwrap();
    let settings = Settings {
        required,
        ..Settings::default()
    };
    Arc::new(Access::new(Arc::new(ring), &settings))
}

fn replica(decision: &Decision) -> u16 {
    let ReplicaIndex(replica) = decision.replica.unwrap();
    replica
}

fn usage(prompt_tokens: u64, cached_tokens: u64) -> Usage {
    Usage {
        prompt_tokens,
        cached_tokens: Some(cached_tokens),
        completion_tokens: 10,
    }
}
