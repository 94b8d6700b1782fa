//! Puts the service together, runs it until a signal, and takes it apart in order: stop accepting,
//! drain, flush what outlives the process, end the simulated engines, and stop or leave vLLM.

mod notify;
mod recall;
mod signals;

use std::{env, io, net::SocketAddr, path::Path, sync::Arc};

use routing::Time;
use tokio::{net::TcpListener, task::JoinSet};

use self::{
    notify::Notifier,
    signals::{Follower, Signals},
};

use crate::{
    clock,
    commands::claude::quoted,
    config::{self, Config, Engine},
    fetch::path_segment,
    fleet::{self, Fleet, Simulator, Watch},
    gateway::{Fallback, Gateway, Lanes, Limits, Server, Tls, TlsError},
    gpus::Gpus,
    history::History,
    keys::{self, Access, KeyFile, Ring},
    open_files,
    operators::{self, Operators, Overrides, OverridesError},
    persist::{DataDir, DataDirError, HomesWriter, Marks},
    reload::{Reloader, Source},
    supervisor::Supervisor,
    telemetry::Telemetry,
};

/// The port that commands try where no URL is given.
const DEFAULT_PORT: u16 = 8484;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another program has the port, or it may not be used.
    #[error("cannot listen on {address}: {cause}{}", listen_mend(cause))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The file of operators' changes.
    #[error(transparent)]
    Overrides(#[from] OverridesError),
    /// The file of keys.
    #[error(transparent)]
    Keys(#[from] keys::FileError),
    /// Strangers could use it.
    #[error(
        "{address} can be reached from other machines, and there is no key yet: make one with \
         `lm-warden key add --admin --name NAME` (and the same --config), or listen on 127.0.0.1"
    )]
    NoKeys {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gives what every process needs only sparingly.
    #[error("the system denied {what}: {cause}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        cause: io::Error,
    },
}

fn listen_mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program listens there (an lm-warden already?): end it, or choose another \
             port with --listen"
        }
        io::ErrorKind::PermissionDenied => "; choose a port over 1023 with --listen",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// Serves until SIGTERM or SIGINT. The configuration was read from `source`, and is read from there
/// again at SIGHUP.
pub async fn run(config: Config, source: Source) -> Result<(), ServeError> {
    let signals = Signals::new().map_err(system("signal handlers"))?;
    let program = std::env::current_exe().map_err(system("the path of this program"))?;
    let now = clock::now();
    let data_dir = DataDir::open(&config.server.data_dir)?;
    let access = access(&config, &data_dir)?;
    let tls = config.server.tls.clone().map(Tls::load).transpose()?;
    let tls = tls.map(Arc::new);
    let listener = listen(config.server.listen).await?;
    let address = listener.local_addr().map_err(system("the port"))?;

    let fleet = Arc::new(Fleet::new(&config, now));
    let homes = HomesWriter::start(&data_dir, &fleet, now)?;
    let marks = Arc::new(Marks::load(data_dir.path("engines-seen.json"), &fleet));
    let overrides = Overrides::load(data_dir.path("routing.json"), &config, &fleet)?;
    let overrides = Arc::new(overrides);
    let history = History::start(data_dir.path("history.sqlite"), config.history);
    let history = Arc::new(history.map_err(system("a thread"))?);
    let telemetry = telemetry(&fleet, &history, now);
    let supervisor = Supervisor::start(&config, &fleet, &telemetry);
    let supervisor = Arc::new(supervisor.map_err(system("the directory of engines"))?);
    let reloader = Arc::new(Reloader::new(
        (source, config.clone()),
        (Arc::clone(&fleet), Arc::clone(&telemetry)),
        Arc::clone(&supervisor),
        (Arc::clone(&overrides), Arc::clone(&history)),
    ));
    let gpus = Arc::new(Gpus::default());
    let operators = Operators {
        fleet: Arc::clone(&fleet),
        telemetry: Arc::clone(&telemetry),
        history: Arc::clone(&history),
        overrides,
        supervisor: Arc::clone(&supervisor),
        reloader: Arc::clone(&reloader),
        gpus: Arc::clone(&gpus),
        access: Arc::clone(&access),
        seed: data_dir.seed(),
    };
    let gateway = gateway(operators, limits(&config))?;

    tokio::join!(
        supervisor.settled(),
        recall::recall(&fleet, &history, &telemetry, now)
    );
    let mut watchers = watch(&config, &fleet, &telemetry, &program).await;
    watchers.spawn(gpus.watch());
    watchers.spawn(Arc::clone(&marks).keep());
    watchers.spawn(Arc::clone(access.ring()).watch());
    watchers.spawn(follow(tls.clone()));
    let (server, handle) = Server::new(Arc::new(gateway));
    let lanes = Lanes::start().map_err(system("a thread"))?;
    let server = server.over(tls.clone()).on(lanes);
    eprint!("{}", banner(address, &config));
    let mut listening = tokio::spawn(server.run(listener));
    let notifier = Arc::new(Notifier::from_environment());
    notifier.ready();
    watchers.spawn(Arc::clone(&notifier).beat(Arc::clone(&fleet)));
    let mut signals = Follower {
        signals,
        handle,
        reloader,
        notifier,
        tls,
        stops_engines: config.server.stop_engines,
    };
    let drained = signals.until(&mut listening).await;
    homes.stop();
    marks.write();
    history.stop();
    signals.end(&supervisor).await;
    drop(watchers);
    tracing::info!(
        cut_off = drained.map_or(0, |drained| drained.cut_off),
        "stopped"
    );
    Ok(())
}

/// The system refused something that every start needs.
fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |cause| ServeError::System { what, cause }
}

/// What becomes of requests, told on to the history.
fn telemetry(fleet: &Fleet, history: &Arc<History>, now: Time) -> Arc<Telemetry> {
    let models = fleet.models.iter();
    let models = models.map(|model| (model.name.as_str(), model.replica_ids.len()));
    let telemetry = Telemetry::new(models, now).keeping(Arc::clone(history));
    let text = format!("lm-warden {} started", env!("CARGO_PKG_VERSION"));
    telemetry.mark(api::MarkKind::WardenStarted, None, text);
    Arc::new(telemetry)
}

/// The clients' side, with the operators' behind it on the same port.
fn gateway(operators: Operators, limits: Limits) -> Result<Gateway, ServeError> {
    let fleet = Arc::clone(&operators.fleet);
    let telemetry = Arc::clone(&operators.telemetry);
    let (access, seed) = (Arc::clone(&operators.access), operators.seed);
    let operators = Fallback::new(operators::service(operators));
    let gateway = Gateway::new(fleet, telemetry, limits, seed, operators);
    let gateway = gateway.map_err(|cause| system("random numbers")(io::Error::other(cause)))?;
    Ok(gateway.guarded_by(access))
}

/// What strangers may hold.
fn limits(config: &Config) -> Limits {
    let connections_max = connections_max();
    let mut limits = Limits {
        connections_max,
        body_bytes_max: config.server.body_bytes_max,
        buffered_bytes_max: config.server.buffered_bytes_max,
        ..Limits::default()
    };
    if config.server.listen.ip().is_loopback() {
        limits.connections_per_address_max = connections_max;
    }
    limits
}

async fn follow(tls: Option<Arc<Tls>>) {
    if let Some(tls) = tls {
        tls.watch().await;
    }
}

/// The keys, and who needs one.
fn access(config: &Config, data_dir: &DataDir) -> Result<Arc<Access>, ServeError> {
    let ring = Ring::load(KeyFile::of(&config.server.data_dir))?;
    let address = config.server.listen;
    if ring.is_empty() && !address.ip().is_loopback() {
        return Err(ServeError::NoKeys { address });
    }
    if ring.is_empty() && config.auth.required {
        tracing::warn!(
            "auth.required is set and there is no key yet, so every request is refused; make one \
             with `lm-warden key add --admin --name NAME` (no restart is needed)"
        );
    }
    let settings = keys::Settings {
        required: config.auth.required,
        cache_salt: config.auth.cache_salt,
        is_secure: config.server.tls.is_some(),
        instance: data_dir.instance(),
    };
    Ok(Arc::new(Access::new(Arc::new(ring), &settings)))
}

/// As many client connections as wanted, or as the open files allow.
fn connections_max() -> usize {
    let wanted = Limits::default().connections_max;
    let Some(open_files) = open_files::raise_limit() else {
        return wanted;
    };
    let allowed = open_files::connections_max(open_files, wanted);
    if allowed < wanted {
        tracing::warn!(
            open_files,
            connections = allowed,
            "few files may be open at once, so fewer clients are let in; raise `ulimit -n` (or \
             LimitNOFILE= of the unit)"
        );
    }
    allowed
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|cause| ServeError::Listen { address, cause })
}

/// Starts what watches the fleet, after a first look at it; dropping it ends that, simulated engines
/// included.
async fn watch(
    config: &Config,
    fleet: &Fleet,
    telemetry: &Arc<Telemetry>,
    program: &Path,
) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    let mut looks = JoinSet::new();
    for (settings, model) in config.models.iter().zip(&fleet.models) {
        if let Engine::Simulated(engine) = &settings.engine {
            let simulator = Simulator {
                program: program.to_owned(),
                engine: engine.clone(),
            };
            let (model, telemetry) = (Arc::clone(model), Arc::clone(telemetry));
            watchers.spawn(fleet::run_simulated(simulator, model, telemetry));
        }
        looks.spawn(Watch::new(model, telemetry).look());
    }
    for watch in looks.join_all().await {
        watchers.spawn(watch.run());
    }
    watchers
}

/// What a person at the terminal needs next.
fn banner(address: SocketAddr, config: &Config) -> String {
    let scheme = match config.server.tls {
        Some(_) => "https",
        None => "http",
    };
    let url = format!("{scheme}://{address}");
    let models: String = config
        .models
        .iter()
        .map(|model| model_line(&url, model))
        .collect();
    let first = config.models.first().map_or("", |model| &model.name);
    let first = quoted(first);
    let elsewhere = if address.port() == DEFAULT_PORT {
        String::new()
    } else {
        format!(" --url {url}")
    };
    let command = own_command();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "
lm-warden {version} serves at {url}

{models}
Point Claude Code at it:

  eval \"$({command} claude {first}{elsewhere})\" && claude

Ctrl-C ends it.

"
    )
}

/// How a shell finds this program: by its name where that is what PATH leads to, else by its place.
fn own_command() -> String {
    let name = "lm-warden";
    let Ok(own) = env::current_exe() else {
        return name.to_owned();
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|directory| directory.join(name));
    let is_found = found
        .find(|file| file.is_file())
        .is_some_and(|file| file.canonicalize().is_ok_and(|file| file == own));
    if is_found {
        name.to_owned()
    } else {
        quoted(&own.to_string_lossy())
    }
}

fn model_line(url: &str, model: &config::Model) -> String {
    let (replicas, kind) = match &model.engine {
        Engine::Vllm(engine) => (usize::from(engine.data_parallel_size), "vLLM"),
        Engine::Attached(engine) => (engine.replicas.count(), "attached"),
        Engine::Simulated(engine) => (usize::from(engine.data_parallel_size), "simulated"),
    };
    let plural = if replicas == 1 { "replica" } else { "replicas" };
    let (name, segment) = (&model.name, path_segment(&model.name));
    format!("  model {name}: {replicas} {kind} {plural}, {url}/models/{segment}\n")
}
