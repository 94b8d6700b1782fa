//! What a unit makes the rest of the service see of its server: its replicas in the router, and its
//! state in words.

use std::ops::Range;

use routing::{Event as RouterEvent, ReplicaIndex};
use vllm::serve::Phase;

use super::{
    super::{
        machine::{Death, State},
        words,
    },
    Unit,
};
use crate::{clock, config::Layout, fleet::Process};

/// Lines in the reason of a failure.
const LAST_LINES: usize = 8;

impl Unit {
    pub(super) fn admit(&mut self) {
        if std::mem::take(&mut self.is_cold) {
            self.observe(RouterEvent::EngineRestarted);
        }
        self.undrain();
        self.observe(RouterEvent::ProbeSucceeded);
        for replica in self.replicas() {
            self.plan.model.answered(usize::from(replica), Ok(()));
        }
        tracing::info!(model = %self.plan.model.name, server = self.plan.server, "vLLM serves");
    }

    pub(super) fn exclude(&mut self) {
        self.observe(RouterEvent::ConnectFailed);
        self.undrain();
    }

    fn undrain(&mut self) {
        if std::mem::take(&mut self.drains) {
            self.observe(RouterEvent::Undrain);
        }
    }

    /// Tells the router what host memory keeps, once the log tells.
    pub(super) fn read_kv_size(&mut self, line: &str, phase: Option<Phase>) {
        let (model, server) = (&self.plan.model.name, self.plan.server);
        let Some(sizes) = self.kv_size.read((line, phase), &self.plan.engine) else {
            return;
        };
        if let Some(tier) = sizes.host {
            let tokens = tier.tokens;
            tracing::info!(%model, server, tokens, "host memory keeps what the KV cache evicts");
        } else if self.plan.engine.kv_offload_gib > 0 {
            tracing::warn!(
                %model, server,
                "the engine's log does not tell how many tokens host memory keeps: leases count the KV cache only"
            );
        }
        self.observe(|replica| RouterEvent::HostTier(replica, sizes.host));
    }

    pub(super) fn observe(&self, event: impl Fn(ReplicaIndex) -> RouterEvent) {
        let replicas = self.replicas().map(ReplicaIndex);
        self.plan.model.observe_all(clock::now(), replicas, event);
    }

    /// The replicas of this server.
    pub(super) fn replicas(&self) -> Range<u16> {
        let ranks = self.plan.engine.ranks_per_server();
        self.plan.server * ranks..(self.plan.server + 1) * ranks
    }

    pub(super) fn rank(&self, replica: ReplicaIndex) -> Option<u32> {
        match self.plan.engine.layout {
            Layout::Ranks => Some(u32::from(replica.0)),
            Layout::Servers => None,
        }
    }

    /// Requests on this server; where it is the only one, those that vLLM placed count too.
    pub(super) fn in_flight(&self) -> u32 {
        let snapshot = self.plan.model.router.lock().snapshot(clock::now());
        if self.plan.engine.servers() == 1 {
            return snapshot.in_flight;
        }
        let replicas = self.replicas().map(usize::from);
        replicas
            .filter_map(|replica| snapshot.replicas.get(replica))
            .map(|view| view.in_flight)
            .sum()
    }

    pub(super) fn publish(&mut self) {
        let process = self.process_state();
        let replicas = self.replicas().map(ReplicaIndex);
        let model = &self.plan.model;
        if model.process(clock::now(), replicas, &process) {
            self.plan.telemetry.changes().model(&model.name);
        }
        self.published.send_if_modified(|published| {
            let changed = *published != self.state;
            published.clone_from(&self.state);
            changed
        });
    }

    fn process_state(&self) -> Process {
        let why = |death: &Death| {
            let last = self.plan.model.logs.last_of(self.plan.server, LAST_LINES);
            words::death(death, self.cause, &last)
        };
        match &self.state {
            State::Stopped if self.rests => Process::Asleep,
            State::Stopped => Process::Stopped,
            State::Starting { phase, .. } => Process::Starting(words::phase(*phase)),
            State::Serving { .. } => Process::Running,
            State::Draining { then, .. } => {
                Process::Starting(words::ending("finishing what is in flight", *then))
            }
            State::Terminating { then, .. } => Process::Starting(words::ending("stopping", *then)),
            State::Pausing { deaths, death, .. } => {
                let max = self.plan.limits.deaths_max;
                Process::Starting(format!(
                    "{}; it is started again (death {deaths} of {max})",
                    words::short(death, self.cause)
                ))
            }
            State::Failed { death } => Process::Failed(why(death)),
        }
    }
}
