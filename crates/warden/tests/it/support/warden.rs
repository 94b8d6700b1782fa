//! The gateway on a free port.

use std::{net::SocketAddr, sync::Arc};

use routing::Seed;
use tokio::{net::TcpListener, task::JoinHandle};
use warden::{
    clock,
    config::{Config, Overrides},
    fleet::{Fleet, ModelState},
    gateway::{DrainHandle, Drained, Fallback, Gateway, Limits, Server, Tls},
    keys::Access,
    telemetry::{Filter, Telemetry},
};

use super::{Client, Engine, soon, until};

/// How to set it up.
#[derive(Debug)]
pub(crate) struct Setup {
    /// URL of each replica.
    pub(crate) urls: Vec<String>,
    /// Behind the first URL, this many ranks instead of replicas on their own.
    pub(crate) ranks: Option<usize>,
    pub(crate) limits: Limits,
    /// Further lines of `[[models]]`.
    pub(crate) model: &'static str,
    /// Further lines of `[models.routing]`.
    pub(crate) routing: &'static str,
    pub(crate) fallback: Fallback,
    pub(crate) access: Option<Arc<Access>>,
    pub(crate) tls: Option<Arc<Tls>>,
}

impl Setup {
    /// One replica for each engine.
    pub(crate) fn before(engines: &[&Engine]) -> Self {
        Self {
            urls: engines.iter().map(|engine| engine.url()).collect(),
            ranks: None,
            limits: Limits::default(),
            model: "",
            routing: "",
            fallback: Fallback::none(),
            access: None,
            tls: None,
        }
    }

    fn config(&self) -> Config {
        let addresses = match self.ranks {
            Some(ranks) => format!("url = {:?}\ndata_parallel_size = {ranks}", self.urls[0]),
            None => format!("urls = {:?}", self.urls),
        };
        let text = format!(
            "[[models]]\nname = \"demo\"\n{}\n[models.engine]\nkind = \"attached\"\n{addresses}\nmax_num_seqs = 32\n[models.routing]\n{}\n",
            self.model, self.routing
        );
        Config::parse(&text, &Overrides::default()).unwrap()
    }
}

/// A running gateway, ended when dropped.
#[derive(Debug)]
pub(crate) struct Warden {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) handle: DrainHandle,
    telemetry: Arc<Telemetry>,
    task: JoinHandle<Drained>,
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Warden {
    pub(crate) async fn before(engines: &[&Engine]) -> Self {
        Self::start(Setup::before(engines)).await
    }

    pub(crate) async fn start(setup: Setup) -> Self {
        let now = clock::now();
        let fleet = Arc::new(Fleet::new(&setup.config(), now));
        for model in &fleet.models {
            *model.state.write().unwrap() = ModelState::Ready;
        }
        let sizes = fleet.models.iter().map(|model| {
            let replicas = model.targets.read().unwrap().len();
            (model.name.as_str(), replicas)
        });
        let telemetry = Arc::new(Telemetry::new(sizes, now));
        let gateway = Gateway::new(
            Arc::clone(&fleet),
            Arc::clone(&telemetry),
            setup.limits,
            Seed([7; 16]),
            setup.fallback,
        );
        let gateway = match setup.access {
            Some(access) => gateway.unwrap().guarded_by(access),
            None => gateway.unwrap(),
        };
        let gateway = Arc::new(gateway);
        let (server, handle) = Server::new(Arc::clone(&gateway));
        let server = server.over(setup.tls);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            address: listener.local_addr().unwrap(),
            task: tokio::spawn(server.run(listener)),
            gateway,
            fleet,
            handle,
            telemetry,
        }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// The requests so far, newest first.
    pub(crate) fn requests(&self) -> Vec<api::Request> {
        self.telemetry.requests(&Filter {
            limit: 100,
            ..Filter::default()
        })
    }

    /// Waits until nothing is counted in flight anywhere, and no bytes are held; then returns the
    /// newest request.
    pub(crate) async fn settled(&self) -> api::Request {
        let in_flight = || {
            let models = self.fleet.models.iter();
            let routed: u32 = models
                .map(|model| {
                    let snapshot = model.router.lock().snapshot(clock::now());
                    let replicas = snapshot.replicas.iter().map(|view| view.in_flight);
                    snapshot.in_flight + replicas.sum::<u32>()
                })
                .sum();
            (
                self.gateway.in_flight(),
                routed,
                self.gateway.buffered_bytes(),
            )
        };
        until("all counts to return to zero", || in_flight() == (0, 0, 0)).await;
        let newest = self.requests().into_iter().next().expect("a request");
        assert!(newest.end.is_some(), "{newest:?}");
        newest
    }

    /// Waits for the server's end.
    pub(crate) async fn ended(&mut self) -> Drained {
        soon("the server to end", &mut self.task).await.unwrap()
    }

    /// Conversations that the router knows.
    pub(crate) fn conversations(&self) -> usize {
        let now = clock::now();
        self.fleet.models[0]
            .router
            .lock()
            .snapshot(now)
            .conversations
    }
}
