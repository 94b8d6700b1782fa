//! What operators, requests and the shutdown want of a model's servers, told to their owners.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use routing::Event as RouterEvent;
use tokio::task::JoinSet;

use super::{
    cards::Cards,
    demand, directory, launch,
    machine::{Limits, State},
    reach::Reach,
    strays,
    unit::{self, Command, Plan},
};
use crate::{
    clock,
    config::{Config, Engine, Start, Vllm},
    fleet::{Fleet, Model, Switch},
    telemetry::Telemetry,
};

/// How long the service waits for adopted engines before it listens.
const ADOPTED_MAX: Duration = Duration::from_secs(3);

/// All supervised engines.
#[derive(Debug)]
pub struct Supervisor {
    telemetry: Arc<Telemetry>,
    models: Vec<Arc<Controlled>>,
    /// Rolling restarts, and the owners of models on demand.
    tasks: Mutex<JoinSet<()>>,
}

/// One supervised model.
#[derive(Debug)]
pub(super) struct Controlled {
    pub(super) model: Arc<Model>,
    pub(super) units: Vec<Reach>,
    /// An operator stopped it: no request starts it.
    pub(super) is_held: AtomicBool,
    roll: Mutex<Roll>,
    start: Start,
}

/// Whether servers are being restarted one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Roll {
    Idle,
    Rolling,
    /// Settings have changed since it began: those that it has restarted already do not have them.
    Again,
}

/// Why an operator's command is not carried out. Theirs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Somebody else runs the engine.
    #[error(
        "\"{model}\" runs elsewhere, so it cannot be {what} here: do that where it runs; what can be \
         done here is to drain it"
    )]
    RunsElsewhere {
        /// The model.
        model: String,
        /// What was asked for.
        what: &'static str,
    },
    /// One at a time.
    #[error("\"{model}\" is being restarted, one server after the other; wait until it is ready")]
    Rolling {
        /// The model.
        model: String,
    },
}

impl Supervisor {
    /// Starts the owners of all configured vLLM servers. They adopt what runs already and start
    /// what has to run, once engines that are no longer configured have ended.
    pub fn start(config: &Config, fleet: &Fleet, telemetry: &Arc<Telemetry>) -> io::Result<Self> {
        let data_dir = &config.server.data_dir;
        let mut plans = Vec::new();
        let mut wanted = Vec::new();
        for (settings, model) in config.models.iter().zip(&fleet.models) {
            let Engine::Vllm(engine) = &settings.engine else {
                continue;
            };
            let directory = directory(data_dir, &model.name)?;
            for server in 0..engine.servers() {
                wanted.push(directory.join(format!("server-{server}.json")));
            }
            plans.push((Arc::clone(model), engine.clone(), directory));
        }
        end_strays(data_dir, &wanted)?;
        let cards = Arc::new(Cards::default());
        let mut tasks = JoinSet::new();
        let mut models = Vec::new();
        for (model, engine, directory) in plans {
            let reach = |server| {
                unit::start(Plan {
                    model: Arc::clone(&model),
                    telemetry: Arc::clone(telemetry),
                    engine: engine.clone(),
                    server,
                    directory: directory.clone(),
                    limits: Limits {
                        start_max: engine.start_max,
                        ..Limits::default()
                    },
                    always: engine.start == Start::Always,
                })
            };
            let controlled = Arc::new(Controlled {
                units: (0..engine.servers())
                    .map(|server| reach(server).into())
                    .collect(),
                model,
                is_held: AtomicBool::new(false),
                roll: Mutex::new(Roll::Idle),
                start: engine.start,
            });
            if let Some(idle_stop) = engine.idle_stop {
                let (cards, numbers) = (Arc::clone(&cards), engine.cards());
                tasks.spawn(demand::run(
                    Arc::clone(&controlled),
                    (cards, numbers),
                    idle_stop,
                ));
            }
            models.push(controlled);
        }
        Ok(Self {
            telemetry: Arc::clone(telemetry),
            models,
            tasks: Mutex::new(tasks),
        })
    }

    /// Waits until the engines that were adopted serve (or do not, within a bound): whoever speaks
    /// to the new warden finds them as they were with the last.
    pub async fn settled(&self) {
        let units = self.models.iter().flat_map(|controlled| &controlled.units);
        let all = async {
            for unit in units {
                unit.settled().await;
            }
        };
        let _ = tokio::time::timeout(ADOPTED_MAX, all).await;
    }

    /// Starts a stopped or failed model; also ends a drain.
    pub fn start_model(&self, model: &Model) -> Result<(), ControlError> {
        self.everywhere(model, RouterEvent::Undrain);
        if let Some(switch) = simulated(model) {
            switch.start();
        }
        let Some(controlled) = self.get(model) else {
            return Ok(()); // elsewhere: a drain is all that can have been undone
        };
        controlled.is_held.store(false, Ordering::Release);
        match controlled.start {
            Start::Always => controlled.tell(|| Command::Start),
            // Its owner starts it, once its cards are free.
            Start::OnDemand => model.demand.ask(clock::now()),
        }
        Ok(())
    }

    /// Stops a model, after a drain; no request starts it again.
    pub fn stop_model(&self, model: &Model) -> Result<(), ControlError> {
        if let Some(switch) = simulated(model) {
            switch.stop();
            return Ok(());
        }
        let controlled = self.supervised(model, "stopped")?;
        controlled.is_held.store(true, Ordering::Release);
        controlled.tell(|| Command::Stop);
        Ok(())
    }

    /// Restarts a model's servers one after the other, each after a drain.
    pub fn restart_model(&self, model: &Model) -> Result<(), ControlError> {
        if let Some(switch) = simulated(model) {
            switch.restart();
            return Ok(());
        }
        let controlled = self.supervised(model, "restarted")?;
        if !controlled.begins_roll() {
            return Err(ControlError::Rolling {
                model: model.name.clone(),
            });
        }
        self.roll(controlled);
        Ok(())
    }

    fn roll(&self, controlled: &Arc<Controlled>) {
        controlled.is_held.store(false, Ordering::Release);
        let controlled = Arc::clone(controlled);
        self.tasks().spawn(async move {
            loop {
                controlled.restart_each().await;
                if controlled.ends_roll() {
                    return;
                }
            }
        });
    }

    /// Takes nothing new for a model, until it is started.
    pub fn drain_model(&self, model: &Model) {
        self.everywhere(model, RouterEvent::Drain);
    }

    /// New settings of an engine, from its next start on; where they change what it was started
    /// with, it is restarted, and true returned.
    pub fn configure(&self, name: &str, before: &Vllm, after: &Vllm) -> bool {
        let Some(controlled) = self.models.iter().find(|m| m.model.name == name) else {
            return false;
        };
        controlled.tell(|| Command::Configure(Box::new(after.clone())));
        if launch::is_same(name, before, after) {
            return false;
        }
        let is_running = !controlled.all(|state| *state == State::Stopped);
        if is_running && controlled.begins_roll_or_another() {
            self.roll(controlled);
        }
        true
    }

    /// Ends all owners: with their engines, or leaving them to the next warden.
    pub async fn end(&self, stop_engines: bool) {
        self.tasks().abort_all();
        for controlled in &self.models {
            controlled.tell(|| {
                if stop_engines {
                    Command::StopNow
                } else {
                    Command::Leave
                }
            });
        }
        for unit in self.models.iter().flat_map(|controlled| &controlled.units) {
            unit.end(stop_engines).await;
        }
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, model: &Model) -> Option<&Arc<Controlled>> {
        self.models.iter().find(|m| m.model.name == model.name)
    }

    fn supervised(
        &self,
        model: &Model,
        what: &'static str,
    ) -> Result<&Arc<Controlled>, ControlError> {
        self.get(model).ok_or_else(|| ControlError::RunsElsewhere {
            model: model.name.clone(),
            what,
        })
    }

    fn everywhere(&self, model: &Model, event: fn(routing::ReplicaIndex) -> RouterEvent) {
        model.observe_all(clock::now(), model.replicas(), event);
        model.refresh_state(clock::now());
        self.telemetry.changes().model(&model.name);
    }
}

impl Controlled {
    /// Tells all owners. One whose queue is full has more recent commands than it can follow.
    pub(super) fn tell(&self, command: impl Fn() -> Command) {
        for unit in &self.units {
            if !unit.tell(command()) {
                tracing::error!(model = %self.model.name, "a server's owner does not take commands");
            }
        }
    }

    pub(super) fn all(&self, is: fn(&State) -> bool) -> bool {
        self.units.iter().all(|unit| is(&unit.state()))
    }

    async fn restart_each(&self) {
        for unit in &self.units {
            if !unit.restart().await {
                tracing::error!(
                    model = %self.model.name,
                    "a restarted server does not serve: the others are left as they are"
                );
                return;
            }
        }
    }

    /// False where one is on its way.
    fn begins_roll(&self) -> bool {
        let mut roll = self.roll();
        let begins = *roll == Roll::Idle;
        if begins {
            *roll = Roll::Rolling;
        }
        begins
    }

    /// The same, but one that is on its way is followed by another.
    fn begins_roll_or_another(&self) -> bool {
        let mut roll = self.roll();
        let begins = *roll == Roll::Idle;
        *roll = if begins { Roll::Rolling } else { Roll::Again };
        begins
    }

    /// False where another has to follow, which begins with this.
    fn ends_roll(&self) -> bool {
        let mut roll = self.roll();
        let ends = *roll == Roll::Rolling;
        *roll = if ends { Roll::Idle } else { Roll::Rolling };
        ends
    }

    fn roll(&self) -> std::sync::MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wanted of a simulated engine, whose owner is not among the supervised.
fn simulated(model: &Model) -> Option<&Switch> {
    (model.kind == api::EngineKind::Simulated).then_some(&model.switch)
}

/// In a thread of its own, since it waits; and before anything starts, since cards may be held.
fn end_strays(data_dir: &Path, wanted: &[std::path::PathBuf]) -> io::Result<()> {
    let (engines, wanted) = (data_dir.join("engines"), wanted.to_vec());
    let thread = std::thread::Builder::new()
        .name("strays".to_owned())
        .spawn(move || strays::end(&engines, &wanted))?;
    thread
        .join()
        .map_err(|_| io::Error::other("ending earlier engines panicked"))
}
