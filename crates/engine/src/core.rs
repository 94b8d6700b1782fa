//! What all connections share: the ranks, the balancer, pending faults, and the names.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use sim::scheduler::RequestId;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    Config, Exit, Fault, FaultError, FaultKind,
    balancer::Balancer,
    faults::{Pending, Wedge, WedgeState},
    generation::{AbortGuard, Command, Generation, Submission, Usage},
    metrics::{self, RankMetrics, ServerFacts},
    plan::Plan,
    random::Random,
    rank::Rank,
    server::StartError,
};

/// How long a server whose rank died still runs (measured: 5 to 16 s).
const RANK_DEATH_LASTS: Duration = Duration::from_secs(5);

pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) balancer: Balancer,
    pub(crate) pending_faults: Pending,
    pub(crate) metrics: Vec<Arc<RankMetrics>>,
    ranks: Vec<RankHandle>,
    facts: ServerFacts,
    requests: AtomicU64,
    /// Set once the server has to end.
    exit: watch::Sender<Option<Exit>>,
}

struct RankHandle {
    commands: mpsc::UnboundedSender<Command>,
    wedge: Arc<Wedge>,
    task: AbortHandle,
}

impl Drop for RankHandle {
    fn drop(&mut self) {
        // A wedged rank would not notice that nobody is left.
        self.task.abort();
    }
}

impl Core {
    /// Checks the configuration and starts the ranks' tasks.
    pub(crate) fn start(config: Config) -> Result<Arc<Self>, StartError> {
        config.validate()?;
        let scheduler = config.scheduler();
        let mut ranks = Vec::new();
        let mut all_metrics = Vec::new();
        for _ in 0..config.data_parallel_size {
            let (commands, receiver) = mpsc::unbounded_channel();
            let metrics = Arc::new(RankMetrics::new(scheduler.max_model_len));
            let wedge = Arc::new(Wedge::new());
            let rank = Rank::new(
                scheduler.clone(),
                (config.profile.clone(), config.speed),
                receiver,
                Arc::clone(&metrics),
                Arc::clone(&wedge),
            );
            ranks.push(RankHandle {
                commands,
                wedge,
                task: tokio::spawn(rank.run()).abort_handle(),
            });
            all_metrics.push(metrics);
        }
        let core = Arc::new(Self {
            balancer: Balancer::new(
                config.data_parallel_size,
                config.api_servers(),
                config.seed,
                config.vllm_version.balances_by_load(),
            ),
            pending_faults: Pending::default(),
            metrics: all_metrics,
            ranks,
            facts: ServerFacts {
                model: config.served_model_names[0].clone(),
                block_size: scheduler.block_size,
                num_gpu_blocks: scheduler.num_blocks,
                started_s: (config.api_servers() == 1).then(|| epoch().as_secs_f64()),
            },
            requests: AtomicU64::new(0),
            exit: watch::Sender::new(None),
            config,
        });
        for fault in core.config.faults.clone() {
            core.inject(fault)?;
        }
        Ok(core)
    }

    pub(crate) fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// The name that replies carry.
    pub(crate) fn model(&self) -> &str {
        &self.config.served_model_names[0]
    }

    pub(crate) fn max_model_len(&self) -> u32 {
        self.config.scheduler().max_model_len
    }

    /// `system_fingerprint`: version, ranks, and a hash that stands for the settings.
    pub(crate) fn fingerprint(&self) -> String {
        let ranks = match self.ranks() {
            1 => String::new(),
            ranks => format!("-dp{ranks}"),
        };
        let settings = &Random::new(self.config.seed).hex()[..8];
        format!("vllm-{}{ranks}-{settings}", self.config.vllm_version)
    }

    /// A fresh id, as vLLM's random ones look.
    pub(crate) fn fresh_id(&self) -> String {
        let request = self.requests.fetch_add(1, Relaxed);
        Random::derived(!self.config.seed, request).hex()
    }

    /// Hands a request to a rank.
    pub(crate) fn submit(
        &self,
        api_server: usize,
        rank: usize,
        (prompt, salt): (Vec<u32>, u64),
        plan: Plan,
    ) -> Generation {
        let id = RequestId(self.requests.fetch_add(1, Relaxed));
        let (sender, outputs) = mpsc::unbounded_channel();
        let commands = self.ranks[rank].commands.clone();
        let usage = Usage {
            prompt: prompt.len() as u32,
            ..Usage::default()
        };
        let submission = Submission {
            id,
            prompt,
            salt,
            output: plan.tokens.clone(),
            stops: plan.stops,
            outputs: sender,
        };
        // A rank that is gone drops the sender, which ends the generation.
        let _ = commands.send(Command::Add(submission));
        Generation {
            plan,
            usage,
            outputs,
            block_size: self.config.block_size,
            guard: AbortGuard {
                id,
                rank: commands,
                ended: false,
            },
            _ticket: self.balancer.ticket(api_server, rank),
        }
    }

    /// Makes a fault happen, or wait for its requests.
    pub(crate) fn inject(self: &Arc<Self>, fault: Fault) -> Result<(), FaultError> {
        if let Some(rank) = fault.rank.filter(|rank| *rank >= self.ranks()) {
            return Err(FaultError::Rank(rank));
        }
        match fault.kind {
            _ if fault.is_of_requests() => return self.pending_faults.add(fault),
            FaultKind::Wedge => {
                let state = fault.duration.map_or(WedgeState::Forever, |duration| {
                    WedgeState::Until(Instant::now() + duration)
                });
                for (rank, handle) in self.ranks.iter().enumerate() {
                    if fault.rank.is_none_or(|only| only == rank) {
                        handle.wedge.set(state);
                    }
                }
            }
            FaultKind::RankDeath => {
                let dead = fault.rank.unwrap_or(0);
                self.ranks[dead].wedge.set(WedgeState::Forever);
                for (rank, handle) in self.ranks.iter().enumerate() {
                    if rank != dead {
                        let _ = handle.commands.send(Command::Die);
                    }
                }
                self.die_after(fault.duration.unwrap_or(RANK_DEATH_LASTS));
            }
            _ => self.die_after(fault.duration.unwrap_or_default()),
        }
        Ok(())
    }

    /// Ends what faults are pending, and frees wedged ranks.
    pub(crate) fn clear_faults(&self) {
        self.pending_faults.clear();
        for handle in &self.ranks {
            handle.wedge.set(WedgeState::Free);
        }
    }

    fn die_after(self: &Arc<Self>, delay: Duration) {
        let core = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            core.exit.send_replace(Some(Exit::Died));
        });
    }

    /// Why the server has to end, once it has to.
    pub(crate) async fn exit(&self) -> Exit {
        let mut exit = self.exit.subscribe();
        let set = exit.wait_for(Option::is_some).await;
        set.ok().and_then(|value| *value).unwrap_or(Exit::Died)
    }

    pub(crate) fn reset_prefix_cache(&self) {
        for handle in &self.ranks {
            let _ = handle.commands.send(Command::ResetPrefixCache);
        }
    }

    /// The page of `/metrics`.
    pub(crate) fn metrics_page(&self) -> String {
        metrics::write(&self.facts, self.metrics.iter().map(Arc::as_ref))
    }
}

/// Time since the epoch, for `created` and the like.
pub(crate) fn epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
