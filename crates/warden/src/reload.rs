//! A changed configuration file, taken over by a running service: routing at once, and a restart of
//! exactly those engines whose own settings changed.
//!
//! What a running service cannot change (where it listens, which models there are, how many replicas
//! they have) is refused as a whole, with nothing changed: restarting lm-warden is cheap, because
//! vLLM goes on and is adopted.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    config::{self, Config, ConfigError, Engine, Start},
    fleet::{Fleet, lease_mode, lease_turns, threshold},
    history::History,
    operators::Overrides,
    supervisor::Supervisor,
    telemetry::Telemetry,
};

/// Where the configuration comes from, each time it is read.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The file; `None` is the demo.
    pub path: Option<PathBuf>,
    /// What the command line says instead.
    pub overrides: config::Overrides,
}

/// Takes over changes.
#[derive(Debug)]
pub struct Reloader {
    source: Source,
    current: Mutex<Config>,
    fleet: Arc<Fleet>,
    telemetry: Arc<Telemetry>,
    supervisor: Arc<Supervisor>,
    overrides: Arc<Overrides>,
    history: Arc<History>,
}

/// Why nothing was changed. The operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file itself.
    #[error("nothing was changed: {0}")]
    Config(#[from] ConfigError),
    /// A change that a running service cannot follow.
    #[error(
        "nothing was changed: {what} cannot change while lm-warden runs; restart it (vLLM goes on meanwhile and is adopted)"
    )]
    NeedsRestart {
        /// What differs.
        what: String,
    },
}

/// What a reload changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Models whose routing changed.
    pub routing: Vec<String>,
    /// Models whose engines are restarted.
    pub restarted: Vec<String>,
}

impl Reloader {
    /// For a service that runs with `config`, read from `source`.
    pub fn new(
        (source, config): (Source, Config),
        (fleet, telemetry): (Arc<Fleet>, Arc<Telemetry>),
        supervisor: Arc<Supervisor>,
        (overrides, history): (Arc<Overrides>, Arc<History>),
    ) -> Self {
        Self {
            source,
            current: Mutex::new(config),
            fleet,
            telemetry,
            supervisor,
            overrides,
            history,
        }
    }

    /// The configuration in force.
    pub fn current(&self) -> Config {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again and takes over what changed. Blocks on the disk; must be called within
    /// the runtime.
    pub fn reload(&self) -> Result<Reloaded, ReloadError> {
        let new = Config::load(self.source.path.as_deref(), &self.source.overrides)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        check(&current, &new)?;
        let mut reloaded = Reloaded::default();
        for (before, after) in current.models.iter().zip(&new.models) {
            if before.routing != after.routing {
                reloaded.routing.push(after.name.clone());
            }
            if let (Engine::Vllm(old), Engine::Vllm(engine)) = (&before.engine, &after.engine)
                && old != engine
                && self.supervisor.configure(&after.name, old, engine)
            {
                reloaded.restarted.push(after.name.clone());
            }
            self.set_routing(after);
        }
        self.overrides.reconfigure(&new, &self.fleet);
        self.history.configure(new.history);
        *current = new;
        drop(current);
        for model in reloaded.routing.iter().chain(&reloaded.restarted) {
            self.telemetry.changes().model(model);
        }
        for model in &reloaded.routing {
            let text = "routing read again from the configuration";
            (self.telemetry).mark(api::MarkKind::SettingChanged, Some(model), text);
        }
        tracing::info!(?reloaded, "the configuration was read again");
        Ok(reloaded)
    }

    fn set_routing(&self, model: &config::Model) {
        let Some(served) = self.fleet.get(&model.name) else {
            return;
        };
        let mut router = served.router.lock();
        let mut settings = router.settings().clone();
        settings.affinity = model.routing.affinity;
        settings.spill_threshold = threshold(model.routing.spill_threshold);
        settings.session_idle = model.routing.session_idle;
        settings.leases.mode = lease_mode(model.routing.leases);
        settings.leases.turns = lease_turns(model.routing.lease_turns);
        settings.leases.queue_wait_max = model.routing.queue_wait_max;
        if let Engine::Vllm(engine) = &model.engine {
            settings.max_num_seqs = engine.max_num_seqs;
        }
        router.configure(settings);
    }
}

fn check(before: &Config, after: &Config) -> Result<(), ReloadError> {
    let refuse = |what: String| Err(ReloadError::NeedsRestart { what });
    if before.server != after.server {
        return refuse("[server]".to_owned());
    }
    if before.auth != after.auth {
        return refuse("[auth]".to_owned());
    }
    let names = |config: &Config| {
        let names: Vec<String> = config
            .models
            .iter()
            .map(|model| model.name.clone())
            .collect();
        names.join(", ")
    };
    if names(before) != names(after) {
        let (before, after) = (names(before), names(after));
        return refuse(format!(
            "the list of models (now {before}, in the file {after})"
        ));
    }
    for (before, after) in before.models.iter().zip(&after.models) {
        if before.aliases != after.aliases {
            return refuse(format!("the aliases of {:?}", after.name));
        }
        if !may_follow(&before.engine, &after.engine) {
            return refuse(format!(
                "kind, address, layout, data_parallel_size, key, start, idle_stop_s and (on demand) gpus of the engine of {:?}",
                after.name
            ));
        }
    }
    Ok(())
}

/// Whether an engine that runs with the one can be restarted with the other.
fn may_follow(before: &Engine, after: &Engine) -> bool {
    match (before, after) {
        (Engine::Vllm(before), Engine::Vllm(after)) => {
            before.layout == after.layout
                && before.data_parallel_size == after.data_parallel_size
                && before.api_key == after.api_key
                && before.start == after.start
                && before.idle_stop == after.idle_stop
                // On demand it holds the cards that it was given, in turn with others.
                && (before.start == Start::Always || before.cards() == after.cards())
        }
        (before, after) => before == after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: &str =
        "[[models]]\nname = \"m\"\n[models.engine]\nkind = \"vllm\"\nmodel = \"x\"\n";

    fn config(text: &str) -> Config {
        let overrides = config::Overrides {
            data_dir: Some("/state".into()),
            ..config::Overrides::default()
        };
        Config::parse(text, &overrides).unwrap()
    }

    #[test]
    fn what_a_running_service_cannot_change_is_refused_with_its_name() {
        let before = config(VLLM);
        for (text, part) in [
            (
                format!("[server]\nbody_bytes_max = 2048\n{VLLM}"),
                "[server]",
            ),
            (
                VLLM.replace("\"m\"", "\"n\""),
                "the list of models (now m, in the file n)",
            ),
            (
                VLLM.replace("\"m\"", "\"m\"\naliases = [\"a\"]"),
                "the aliases of \"m\"",
            ),
            (
                format!("{VLLM}data_parallel_size = 2"),
                "data_parallel_size",
            ),
            (format!("{VLLM}layout = \"servers\""), "layout"),
        ] {
            let error = check(&before, &config(&text)).unwrap_err().to_string();
            assert!(
                error.contains(part) && error.starts_with("nothing was changed"),
                "{error}"
            );
        }
        check(
            &before,
            &config(&format!(
                "{VLLM}max_num_seqs = 8\nargs = [\"--seed\", \"1\"]"
            )),
        )
        .unwrap();
    }

    #[test]
    fn cards_of_an_engine_on_demand_are_not_exchanged_under_it() {
        let on_demand = format!("{VLLM}start = \"on-demand\"\n");
        for (engine, is_refused) in [(VLLM, false), (&on_demand, true)] {
            let [before, after] = [0, 1].map(|card| config(&format!("{engine}gpus = [{card}]")));
            assert_eq!(check(&before, &after).is_err(), is_refused, "{engine}");
        }
    }
}
