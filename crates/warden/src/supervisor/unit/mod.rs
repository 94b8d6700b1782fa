//! One vLLM server and its owner: a task that feeds the state machine with what happens and carries
//! out what it says. Nobody else starts, signals or adopts this process.
//!
//! Events come from five sides: commands, the process's end, its log, its health, and time. Those of
//! an earlier process that arrive late are known by their generation and dropped.
//!
//! `life` is the process: adopted or spawned, watched, signalled, buried. `face` is what the rest of
//! the service sees of it.

mod face;
mod life;

use std::{path::PathBuf, sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use routing::Event as RouterEvent;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::MissedTickBehavior,
};
use vllm::serve::FailureCause;

use self::life::Running;
use super::{
    host_memory::KvSize,
    log_file::Tail,
    machine::{Death, Effect, Event, Limits, State, step},
    record::{self, Record},
};
use crate::{clock, config::Vllm, fleet::Model, telemetry::Telemetry};

/// How often the log is read and the bounds of the waits are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Commands that wait, at most.
const COMMANDS_MAX: usize = 16;

/// What somebody wants of the server.
#[derive(Debug)]
pub(super) enum Command {
    /// Run.
    Start,
    /// End, after a drain; an operator's word.
    Stop,
    /// End, after a drain, until the next request.
    Rest,
    /// End now: the warden goes, and nothing is in flight.
    StopNow,
    /// End after a drain, and start again.
    Restart,
    /// Use these settings from the next start on.
    Configure(Box<Vllm>),
    /// Let the process run and end this task.
    Leave,
}

/// What a unit is made of.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) model: Arc<Model>,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) engine: Vllm,
    /// Which of the model's servers.
    pub(super) server: u16,
    /// The model's directory for logs and records.
    pub(super) directory: PathBuf,
    pub(super) limits: Limits,
    /// Whether it starts by itself.
    pub(super) always: bool,
}

/// How others reach a unit.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) state: watch::Receiver<State>,
    pub(super) task: JoinHandle<()>,
    /// Whether it has a process that runs since before.
    pub(super) is_adopted: bool,
}

/// The owner.
#[derive(Debug)]
struct Unit {
    plan: Plan,
    state: State,
    process: Option<Running>,
    record: Option<Record>,
    tail: Option<Tail>,
    kv_size: KvSize,
    /// Why the process may have died, by its log.
    cause: Option<FailureCause>,
    /// Whether the next admission is of an engine whose cache is empty.
    is_cold: bool,
    /// Whether the router was told to drain the replicas.
    drains: bool,
    /// Whether a request starts it where it is stopped.
    rests: bool,
    /// Counts the processes.
    generation: u64,
    events: mpsc::Sender<(u64, Event)>,
    health: Option<JoinHandle<()>>,
    published: watch::Sender<State>,
}

/// Starts the owner: it adopts what runs already, or starts what has to run.
pub(super) fn start(plan: Plan) -> Handle {
    let (commands, received) = mpsc::channel(COMMANDS_MAX);
    let (events, happened) = mpsc::channel(COMMANDS_MAX);
    let (published, state) = watch::channel(State::Stopped);
    let mut unit = Unit {
        rests: !plan.always,
        plan,
        state: State::Stopped,
        process: None,
        record: None,
        tail: None,
        kv_size: KvSize::default(),
        cause: None,
        is_cold: false,
        drains: false,
        generation: 0,
        events,
        health: None,
        published,
    };
    unit.begin();
    Handle {
        commands,
        state,
        is_adopted: matches!(unit.process, Some(Running::Adopted(_))),
        task: tokio::spawn(unit.run(received, happened)),
    }
}

impl Unit {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut happened: mpsc::Receiver<(u64, Event)>,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                death = Running::ended(&mut self.process) => self.bury(death).await,
                command = commands.recv() => match command {
                    None | Some(Command::Leave) => return self.leave(),
                    Some(command) => self.command(command),
                },
                Some((generation, event)) = happened.recv() => {
                    if generation == self.generation {
                        self.apply(event);
                    }
                }
                _ = ticks.tick() => self.tick(),
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Start => self.apply(Event::Start),
            Command::Stop | Command::Rest => {
                self.rests = matches!(command, Command::Rest);
                self.apply(Event::Stop);
            }
            Command::Restart => self.apply(Event::Restart),
            Command::StopNow => {
                self.apply(Event::Stop);
                self.apply(Event::Drained);
            }
            Command::Configure(engine) => {
                self.plan.limits.start_max = engine.start_max;
                self.plan.engine = *engine;
            }
            Command::Leave => {} // ends the loop
        }
    }

    fn tick(&mut self) {
        self.read_log();
        if matches!(self.state, State::Draining { .. }) && self.in_flight() == 0 {
            self.apply(Event::Drained);
        }
        self.apply(Event::Tick);
    }

    fn apply(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let state = std::mem::replace(&mut self.state, State::Stopped);
            let (state, effects) = step(state, clock::now(), &event, &self.plan.limits);
            self.state = state;
            for effect in effects {
                if let Err(error) = self.carry_out(effect) {
                    next = Some(Event::Gone(Death::NotSpawned(error)));
                }
            }
        }
        self.publish();
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Spawn => {
                let spawned = self.spawn();
                if spawned.is_err() {
                    record::remove(&self.record_path());
                }
                return spawned;
            }
            Effect::Drain => {
                self.drains = true;
                self.observe(RouterEvent::Drain);
            }
            Effect::Admit => self.admit(),
            Effect::Exclude => self.exclude(),
            Effect::Terminate => self.signal(Signal::SIGTERM),
            Effect::Kill => self.signal(Signal::SIGKILL),
        }
        Ok(())
    }
}
