//! Leases in Prometheus' text format: who waits and holds now, and what has come of it since the start.

use routing::{LeaseCounters, LeaseView, Time};

use super::{Operators, metrics::Exposition};
use crate::clock;

type Count = fn(&LeaseCounters) -> u64;

/// Sums that need no label but the model.
const SUMS: [(&str, &str, Count); 8] = [
    (
        "lm_warden_contentions_total",
        "Times that leases began.",
        |sums| sums.contentions,
    ),
    (
        "lm_warden_waits_total",
        "Requests that waited for room.",
        |sums| sums.waits,
    ),
    (
        "lm_warden_waits_refused_total",
        "Requests that got 429, as the wait would have been too long.",
        |sums| sums.refused,
    ),
    (
        "lm_warden_waits_over_age_total",
        "Requests that went to a full replica because of their age, some of them on arrival.",
        |sums| sums.over_age,
    ),
    ("lm_warden_lease_grants_total", "Leases given.", |sums| {
        sums.grants
    }),
    (
        "lm_warden_lease_held_turns_total",
        "Turns that found their conversation's lease still held.",
        |sums| sums.held_turns,
    ),
    (
        "lm_warden_own_tokens_expected_total",
        "Own tokens that conversations had left on the replica that they came back to.",
        |sums| sums.expected_tokens,
    ),
    (
        "lm_warden_own_tokens_missed_total",
        "Of these, tokens that were gone: avoidable misses.",
        |sums| sums.missed_tokens,
    ),
];

/// Why waits ended.
const WAIT_ENDS: [(&str, Count); 6] = [
    ("room", |sums| sums.ended_room),
    ("held", |sums| sums.ended_held),
    ("age", |sums| sums.ended_age),
    ("over", |sums| sums.ended_over),
    ("nowhere", |sums| sums.ended_nowhere),
    ("left", |sums| sums.ended_left),
];

/// Why leases ended.
const CAUSES: [(&str, Count); 4] = [
    ("silent", |sums| sums.released_silent),
    ("quantum", |sums| sums.released_quantum),
    ("overflow", |sums| sums.released_overflow),
    ("void", |sums| sums.released_void),
];

pub(super) fn write(out: &mut Exposition, operators: &Operators) {
    let now = clock::now();
    let models: Vec<(&str, LeaseView)> = operators
        .fleet
        .models
        .iter()
        .map(|model| {
            let snapshot = model.router.lock().snapshot(now);
            (model.name.as_str(), snapshot.leases)
        })
        .collect();
    gauges(out, &models, now);
    for (name, help, sum) in SUMS {
        out.family(name, "counter", help);
        for (model, view) in &models {
            out.sample(name, &[("model", model)], sum(&view.counters));
        }
    }
    by_cause(
        out,
        &models,
        (
            "lm_warden_waits_ended_total",
            "Waits ended, by cause; with those that last they make up all waits.",
        ),
        &WAIT_ENDS,
    );
    by_cause(
        out,
        &models,
        (
            "lm_warden_lease_releases_total",
            "Leases ended, by cause; with those that are held they make up all grants.",
        ),
        &CAUSES,
    );
}

fn by_cause(
    out: &mut Exposition,
    models: &[(&str, LeaseView)],
    (name, help): (&str, &str),
    causes: &[(&str, Count)],
) {
    out.family(name, "counter", help);
    for (model, view) in models {
        for (cause, sum) in causes {
            let labels = [("model", *model), ("cause", *cause)];
            out.sample(name, &labels, sum(&view.counters));
        }
    }
}

fn gauges(out: &mut Exposition, models: &[(&str, LeaseView)], now: Time) {
    let mut gauge = |name: &str, help: &str, figure: &dyn Fn(&LeaseView) -> f64| {
        out.family(name, "gauge", help);
        for (model, view) in models {
            out.sample(name, &[("model", model)], figure(view));
        }
    };
    gauge(
        "lm_warden_contended",
        "1 while conversations contend for cache.",
        &|view| f64::from(matches!(view.state, routing::LeaseState::Contended { .. })),
    );
    gauge(
        "lm_warden_waiting",
        "Requests that wait for room.",
        &|view| view.waiting as f64,
    );
    gauge(
        "lm_warden_oldest_wait_seconds",
        "Age of the longest wait; 0 where nobody waits.",
        &|view| {
            view.oldest
                .map_or(0.0, |oldest| now.since(oldest).as_secs_f64())
        },
    );
    let mut by_replica = |name: &str, help: &str, figure: &dyn Fn(&routing::LeaseShare) -> f64| {
        out.family(name, "gauge", help);
        for (model, view) in models {
            for (replica, share) in view.replicas.iter().enumerate() {
                let number = replica.to_string();
                let labels = [("model", *model), ("replica", number.as_str())];
                out.sample(name, &labels, figure(share));
            }
        }
    };
    by_replica(
        "lm_warden_lease_holding",
        "Conversations that hold a share of a replica's cache.",
        &|share| f64::from(share.holding),
    );
    by_replica(
        "lm_warden_lease_tokens",
        "Own tokens that they hold.",
        &|share| share.leased_tokens as f64,
    );
    by_replica(
        "lm_warden_lease_theta",
        "Part of a replica's cache that is believed to be usable, 0.6 to 1.",
        &|share| share.theta,
    );
}
