//! The replicas of one model: what is known of each, and which of them may take a request.
//!
//! What is measured here is facts about replicas; who is chosen among them is [`crate::placement`]'s.

mod cache;
mod health;
mod progress;

use cache::CacheLedger;
pub(crate) use cache::{Charge, Weight};
use health::Health;
use progress::Progress;

use crate::{Gauges, HostTier, ReplicaIndex, ReplicaSpec, ReplicaView, Score, Steering, Time};

/// One replica.
#[derive(Debug)]
struct Replica {
    health: Health,
    progress: Progress,
    cache: CacheLedger,
    in_flight: u32,
    /// Active conversations homed here.
    conversations: u32,
    kv_tokens: Option<u64>,
    host: Option<HostTier>,
    /// The last restart of its engine.
    cache_since: Time,
}

/// All replicas, by index.
#[derive(Debug)]
pub(crate) struct Replicas {
    list: Vec<Replica>,
    steering: Steering,
}

impl Replicas {
    pub(crate) fn new(specs: Vec<ReplicaSpec>, steering: Steering, now: Time) -> Self {
        let list = specs.into_iter().map(|spec| Replica {
            health: Health::new(),
            progress: Progress::new(now),
            cache: CacheLedger::default(),
            in_flight: 0,
            conversations: 0,
            kv_tokens: spec.kv_tokens,
            host: spec.host,
            cache_since: Time::default(),
        });
        Self {
            list: list.collect(),
            steering,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn steering(&self) -> Steering {
        self.steering
    }

    pub(crate) fn set_steering(&mut self, steering: Steering) {
        self.steering = steering;
    }

    /// Every replica's figures for a prompt of this weight, whose conversation (if it is active) is
    /// `charged` to its home.
    pub(crate) fn scores(
        &self,
        now: Time,
        prompt: Weight,
        charged: Option<(ReplicaIndex, Charge)>,
    ) -> Box<[Score]> {
        let spared = self.spares_wedged();
        let fresh_since = now.minus(progress::GAUGES_AGE_MAX);
        let (home, held) = charged
            .and_then(|(home, charge)| Some((home, self.get(home)?.cache.tokens_of(charge))))
            .unzip();
        let score = |(index, replica): (usize, &Replica)| {
            let index = ReplicaIndex(index as u16);
            let replaced = held.filter(|_| home == Some(index)).unwrap_or(0);
            Score {
                replica: index,
                available: replica.health.is_open() && (spared || !replica.is_wedged()),
                fits: replica
                    .kv_tokens
                    .is_none_or(|kv| replica.cache.fits(prompt, replaced, kv)),
                in_flight: replica.in_flight,
                running: replica
                    .in_flight
                    .max(replica.progress.running_since(fresh_since)),
                cache_fill: replica
                    .kv_tokens
                    .map(|kv| replica.cache.tokens() as f32 / kv.max(1) as f32),
                conversations: replica.conversations,
            }
        };
        self.list.iter().enumerate().map(score).collect()
    }

    /// Tokens that the replica's KV cache holds, once its engine has told.
    pub(crate) fn kv_tokens(&self, index: usize) -> Option<u64> {
        self.list.get(index)?.kv_tokens
    }

    /// Its host memory, where that keeps more than the KV cache itself: it holds what was used last,
    /// so a smaller one keeps nothing that is not in the cache.
    pub(crate) fn host_tier(&self, index: usize) -> Option<HostTier> {
        let replica = self.list.get(index)?;
        replica
            .host
            .filter(|tier| Some(tier.tokens) > replica.kv_tokens)
    }

    /// Tokens of the prefixes that conversations homed there share.
    pub(crate) fn shared_tokens(&self, index: usize) -> u64 {
        self.list
            .get(index)
            .map_or(0, |replica| replica.cache.shared_tokens())
    }

    /// Requests that the warden has in flight there.
    pub(crate) fn in_flight(&self, index: usize) -> u32 {
        self.list.get(index).map_or(0, |replica| replica.in_flight)
    }

    /// Whether a replica may be chosen, where `spared` is [`Self::spares_wedged`].
    pub(crate) fn may_take(&self, replica: ReplicaIndex, spared: bool) -> bool {
        self.get(replica)
            .is_some_and(|r| r.health.is_open() && (spared || !r.is_wedged()))
    }

    /// Whether all that are open are wedged: then none is treated so, since somebody has to serve.
    pub(crate) fn spares_wedged(&self) -> bool {
        self.list
            .iter()
            .all(|replica| !replica.health.is_open() || replica.is_wedged())
    }

    /// Up and not drained.
    pub(crate) fn is_open(&self, replica: ReplicaIndex) -> bool {
        self.get(replica).is_some_and(|r| r.health.is_open())
    }

    pub(crate) fn is_any_open(&self) -> bool {
        self.list.iter().any(|replica| replica.health.is_open())
    }

    /// Whether a new conversation should be placed elsewhere, if it can.
    pub(crate) fn holds_back(&self, now: Time, replica: ReplicaIndex) -> bool {
        self.get(replica).is_some_and(|r| r.health.holds_back(now))
    }

    /// A new conversation was placed there or held back from there.
    pub(crate) fn alternate_ramp(&mut self, replica: ReplicaIndex) {
        if let Some(replica) = self.get_mut(replica) {
            replica.health.alternate();
        }
    }

    /// A request goes there.
    pub(crate) fn begin(&mut self, now: Time, replica: ReplicaIndex) {
        if let Some(replica) = self.get_mut(replica) {
            if replica.in_flight == 0 {
                replica.progress.note(now);
            }
            replica.in_flight += 1;
        }
    }

    /// A request ended there; `progress` where its reply was good.
    pub(crate) fn end(&mut self, now: Time, replica: ReplicaIndex, progress: bool) {
        if let Some(replica) = self.get_mut(replica) {
            replica.in_flight -= 1;
            if progress {
                replica.progress.note(now);
            }
        }
    }

    /// A reply moved.
    pub(crate) fn note_progress(&mut self, now: Time, replica: ReplicaIndex) {
        if let Some(replica) = self.get_mut(replica) {
            replica.progress.note(now);
        }
    }

    pub(crate) fn scraped(&mut self, now: Time, replica: ReplicaIndex, gauges: Gauges) {
        if let Some(replica) = self.get_mut(replica) {
            let busy = replica.in_flight > 0;
            replica.progress.scraped(now, gauges, busy);
        }
    }

    pub(crate) fn set_kv_tokens(&mut self, replica: ReplicaIndex, kv_tokens: u64) {
        if let Some(replica) = self.get_mut(replica) {
            replica.kv_tokens = Some(kv_tokens);
        }
    }

    pub(crate) fn set_host_tier(&mut self, replica: ReplicaIndex, tier: Option<HostTier>) {
        if let Some(replica) = self.get_mut(replica) {
            replica.host = tier;
        }
    }

    pub(crate) fn set_draining(&mut self, replica: ReplicaIndex, draining: bool) {
        if let Some(replica) = self.get_mut(replica) {
            replica.health.set_draining(draining);
        }
    }

    /// Out at once, even as the last one; ranks share the server that refused.
    pub(crate) fn connect_failed(&mut self, replica: ReplicaIndex) {
        for replica in self.sharing_process(replica) {
            replica.health.take_out();
        }
    }

    /// Out after enough failures in a row, unless no other replica would be left to serve (for
    /// ranks, which share one server, that is always so).
    pub(crate) fn probe_failed(&mut self, replica: ReplicaIndex) {
        let is_other_open = (0..self.list.len())
            .any(|i| i != usize::from(replica.0) && self.list[i].health.is_open());
        let may_leave = self.steering == Steering::Urls && is_other_open;
        if let Some(replica) = self.get_mut(replica)
            && replica.health.probe_failed()
            && may_leave
        {
            replica.health.take_out();
        }
    }

    /// Back, if it was out. Ranks come back together: there is nobody else to ramp against.
    pub(crate) fn probe_succeeded(&mut self, now: Time, replica: ReplicaIndex) {
        let ramped = self.steering == Steering::Urls;
        for replica in self.sharing_process(replica) {
            replica.health.probe_succeeded(now, ramped);
        }
    }

    /// Its cache is empty, its gauges are another process's.
    pub(crate) fn engine_restarted(&mut self, now: Time, replica: ReplicaIndex) {
        for replica in self.sharing_process(replica) {
            replica.cache.forget();
            replica.progress.restart(now);
            replica.cache_since = now;
        }
    }

    /// When the replica's cache last began empty; without a replica, the earliest of all.
    pub(crate) fn cache_since(&self, replica: Option<ReplicaIndex>) -> Time {
        let earliest = || self.list.iter().map(|replica| replica.cache_since).min();
        replica
            .and_then(|index| self.get(index))
            .map(|replica| replica.cache_since)
            .or_else(earliest)
            .unwrap_or_default()
    }

    /// A conversation became active at its home.
    pub(crate) fn add_conversation(
        &mut self,
        home: ReplicaIndex,
        weight: Weight,
    ) -> Option<Charge> {
        let replica = self.get_mut(home)?;
        replica.conversations += 1;
        Some(replica.cache.add(weight))
    }

    /// A conversation left its home or stopped being active there.
    pub(crate) fn remove_conversation(
        &mut self,
        home: ReplicaIndex,
        charge: Option<Charge>,
        lineage: u64,
    ) {
        if let Some((replica, charge)) = self.get_mut(home).zip(charge) {
            replica.conversations -= 1;
            replica.cache.remove(charge, lineage);
        }
    }

    pub(crate) fn views(&self, now: Time) -> Vec<ReplicaView> {
        let view = |replica: &Replica| ReplicaView {
            available: replica.health.is_open() && !replica.is_wedged(),
            up: replica.health.is_up(),
            draining: replica.health.is_draining(),
            wedged: replica.is_wedged(),
            ramping: replica.health.is_ramping(now),
            in_flight: replica.in_flight,
            gauges: replica.progress.gauges(),
            conversations: replica.conversations,
            committed_tokens: replica.cache.tokens(),
            kv_tokens: replica.kv_tokens,
            last_progress: replica.progress.last(),
        };
        self.list.iter().map(view).collect()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let ledgers = self.list.iter().map(|r| r.cache.memory_bytes());
        self.list.capacity() * size_of::<Replica>() + ledgers.sum::<usize>()
    }

    fn get(&self, replica: ReplicaIndex) -> Option<&Replica> {
        self.list.get(usize::from(replica.0))
    }

    fn get_mut(&mut self, replica: ReplicaIndex) -> Option<&mut Replica> {
        self.list.get_mut(usize::from(replica.0))
    }

    /// The replicas behind the server of this one: itself, or all ranks. None where it does not exist.
    fn sharing_process(&mut self, replica: ReplicaIndex) -> &mut [Replica] {
        let index = usize::from(replica.0);
        match self.steering {
            _ if index >= self.list.len() => &mut [],
            Steering::Ranks => &mut self.list,
            Steering::Urls => &mut self.list[index..=index],
        }
    }
}

impl Replica {
    fn is_wedged(&self) -> bool {
        self.in_flight > 0 && self.progress.is_stalled()
    }
}
