//! The panel *Data-parallel routing*, put together from the router's snapshot, telemetry's counters
//! and the engine's figures.

use std::sync::{PoisonError, RwLock, atomic::Ordering};

use routing::{ReplicaIndex, ReplicaView, Route, Settings, Time};

use super::leases;
use crate::{
    clock::epoch_s,
    fleet::{self, Figures, Model, ModelState},
    telemetry::{RouteCounters, Telemetry},
};

pub(super) fn model(model: &Model, telemetry: &Telemetry, now: Time) -> api::Model {
    let (state, state_reason) = match model.state() {
        ModelState::Ready => (api::ModelState::Ready, None),
        ModelState::Loading(what) => (api::ModelState::Loading, Some(what)),
        ModelState::Degraded(what) => (api::ModelState::Degraded, Some(what)),
        ModelState::Drained => {
            let why = "it is drained: it takes nothing new until it is started".to_owned();
            (api::ModelState::Degraded, Some(why))
        }
        ModelState::Failed(why) => (api::ModelState::Failed, Some(why)),
        ModelState::Stopped => (api::ModelState::Stopped, None),
        ModelState::Asleep => {
            let why = "it starts with the next request".to_owned();
            (api::ModelState::Stopped, Some(why))
        }
    };
    let engine_model = read(&model.engine_model);
    let max_num_seqs = model.router.lock().settings().max_num_seqs;
    api::Model {
        name: model.name.clone(),
        aliases: model.aliases.clone(),
        state,
        state_since: epoch_s(model.state_since()),
        state_reason,
        engine: api::Engine {
            kind: model.kind,
            model: (!engine_model.is_empty()).then_some(engine_model),
            version: read(&model.engine_version),
            started: started(model),
            max_model_len: read(&model.max_model_len),
            max_num_seqs,
            responses_steerable: model.responses_steerable.load(Ordering::Relaxed),
        },
        throughput: throughput(model, now),
        routing: routing(model, telemetry, now),
        alarm: telemetry.alarm_of_model(&model.name),
    }
}

pub(super) fn routing(model: &Model, telemetry: &Telemetry, now: Time) -> api::Routing {
    let router = model.router.lock();
    let snapshot = router.snapshot(now);
    let settings = router.settings().clone();
    let holders = router.lease_holders(leases::HOLDERS_SHOWN);
    drop(router);
    let counters = telemetry.routes(&model.name);
    let figures = model.figures();
    let replicas = model
        .replicas()
        .zip(&snapshot.replicas)
        .zip(figures.iter())
        .map(|((index, view), figures)| {
            let answered = model.has_answered(index);
            replica(index, (view, answered), &counters, figures, now)
        })
        .collect();
    api::Routing {
        affinity: settings.affinity,
        spill_threshold: spill_threshold(&settings),
        leases: leases::leases(&snapshot.leases, &holders, &settings, now),
        sticky_percent: counters.sticky_percent(),
        in_flight: snapshot.in_flight,
        balanced: counters.balanced(),
        counters_since: epoch_s(telemetry.started()),
        working_set: working_set(&snapshot.replicas),
        replicas,
    }
}

fn throughput(model: &Model, now: Time) -> api::Throughput {
    let figures = model.figures();
    fleet::throughput(figures.iter().filter_map(|one| one.throughput(now)))
}

/// The youngest process's start: before it nothing is in that one's cache.
fn started(model: &Model) -> Option<f64> {
    let figures = model.figures();
    let starts = figures.iter().filter_map(Figures::started_s);
    starts.reduce(f64::max)
}

fn working_set(replicas: &[ReplicaView]) -> api::WorkingSet {
    let conversations: u32 = replicas.iter().map(|replica| replica.conversations).sum();
    let tokens: u64 = replicas
        .iter()
        .map(|replica| replica.committed_tokens)
        .sum();
    let kv_tokens: Option<u64> = replicas.iter().map(|replica| replica.kv_tokens).sum();
    let kv_tokens = kv_tokens.filter(|tokens| *tokens > 0);
    let mean_tokens = tokens.checked_div(u64::from(conversations));
    api::WorkingSet {
        conversations,
        tokens,
        kv_tokens,
        fill: kv_tokens.map(|kv_tokens| tokens as f64 / kv_tokens as f64),
        conversations_fit: kv_tokens
            .zip(mean_tokens)
            .and_then(|(kv_tokens, mean)| kv_tokens.checked_div(mean)),
        is_over: kv_tokens.is_some_and(|kv_tokens| tokens > kv_tokens),
    }
}

fn spill_threshold(settings: &Settings) -> api::SpillThreshold {
    api::SpillThreshold {
        value: settings.spill_threshold_effective(),
        source: match settings.spill_threshold {
            Some(_) => api::ThresholdSource::Set,
            None => api::ThresholdSource::Auto,
        },
    }
}

fn replica(
    index: ReplicaIndex,
    (view, answered): (&ReplicaView, bool),
    counters: &RouteCounters,
    figures: &Figures,
    now: Time,
) -> api::Replica {
    let whole = |gauge: Option<f64>| gauge.map(|gauge| gauge as u32);
    let age = figures.scraped.map(|scraped| now.since(scraped));
    api::Replica {
        replica: index.0,
        state: state(view, answered),
        in_flight: view.in_flight,
        new: counters.of(index, Route::New),
        sticky: counters.of(index, Route::Sticky),
        spilled_in: counters.of(index, Route::Spilled),
        moved_in: counters.of(index, Route::Moved),
        client_pinned: counters.of(index, Route::Pinned),
        running: whole(figures.latest.running),
        waiting: whole(figures.latest.waiting),
        kv_cache_usage: figures.latest.kv_cache_usage,
        prefix_cache_hit_rate: figures.hit_rate(),
        engine_counters: age.map(|_| engine_counters(&figures.latest)),
        conversations: view.conversations,
        committed_tokens: view.committed_tokens,
        kv_tokens: view.kv_tokens,
        scrape_age_ms: age.map(|age| age.as_millis() as u64),
    }
}

fn engine_counters(latest: &vllm::EngineMetrics) -> api::EngineCounters {
    let whole = |counter: Option<f64>| counter.map(|counter| counter as u64);
    api::EngineCounters {
        prompt_tokens: whole(latest.prompt_tokens),
        prompt_tokens_cached: whole(latest.prompt_tokens_cached),
        prefix_cache_queries: whole(latest.prefix_cache_queries),
        prefix_cache_hits: whole(latest.prefix_cache_hits),
        generation_tokens: whole(latest.generation_tokens),
        preemptions: whole(latest.preemptions),
    }
}

fn state(view: &ReplicaView, answered: bool) -> api::ReplicaState {
    if !view.up || !answered {
        api::ReplicaState::Down
    } else if view.draining {
        api::ReplicaState::Draining
    } else if view.wedged {
        api::ReplicaState::Wedged
    } else if view.ramping {
        api::ReplicaState::Ramping
    } else {
        api::ReplicaState::Up
    }
}

fn read<T: Clone>(lock: &RwLock<T>) -> T {
    lock.read().unwrap_or_else(PoisonError::into_inner).clone()
}
