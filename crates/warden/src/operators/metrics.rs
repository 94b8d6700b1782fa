//! `GET /metrics`: telemetry's totals and the routers' gauges as Prometheus text. Written here
//! rather than kept in a metrics library, so that no figure is counted a second time.

use std::{fmt::Write as _, sync::Arc};

use axum::{extract::State, response::IntoResponse};
use http::header;

use super::Operators;
use crate::{clock, history::Distribution, keys::Usage, telemetry::Totals};

/// Upper bounds of the histograms' buckets, in seconds: from a cached turn to a full machine.
const BOUNDS_S: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

pub(super) async fn get(State(operators): State<Arc<Operators>>) -> impl IntoResponse {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text(&operators))
}

fn text(operators: &Operators) -> String {
    let mut out = Exposition::default();
    let totals = operators.telemetry.totals();
    requests(&mut out, &totals);
    tokens(&mut out, &totals);
    out.family(
        "lm_warden_ttfb_seconds",
        "histogram",
        "From a request's arrival to the first byte of its reply.",
    );
    for (model, totals) in &totals {
        out.histogram("lm_warden_ttfb_seconds", model, &totals.ttfb);
    }
    out.family(
        "lm_warden_queue_seconds",
        "histogram",
        "From a request's arrival to the choice of its replica.",
    );
    for (model, totals) in &totals {
        out.histogram("lm_warden_queue_seconds", model, &totals.queue);
    }
    replicas(&mut out, operators);
    super::lease_metrics::write(&mut out, operators);
    keys(&mut out, operators);
    let cards = super::gpus::view(operators.gpus.last(), &operators.reloader.current());
    gpus(&mut out, &cards);
    history(&mut out, &operators.history.state());
    out.0
}

fn requests(out: &mut Exposition, totals: &[(Arc<str>, Totals)]) {
    let name = "lm_warden_requests_total";
    out.family(
        name,
        "counter",
        "Ended requests; replica and route are - where none was chosen.",
    );
    for (model, totals) in totals {
        for (outcome, count) in &totals.requests {
            let replica = outcome
                .replica
                .map_or_else(|| "-".to_owned(), |replica| replica.to_string());
            let route = outcome.route.map_or("-", routing::Route::as_str);
            let status = outcome.status.to_string();
            let labels = [
                ("model", &**model),
                ("replica", &replica),
                ("route", route),
                ("status", &status),
            ];
            out.sample(name, &labels, count);
        }
    }
}

fn tokens(out: &mut Exposition, totals: &[(Arc<str>, Totals)]) {
    let name = "lm_warden_prompt_tokens_total";
    out.family(
        name,
        "counter",
        "Prompt tokens, as the engine counted; unmeasured ones count as computed.",
    );
    for (model, totals) in totals {
        let cached = [("model", &**model), ("source", "cached")];
        out.sample(name, &cached, totals.prompt_tokens_cached);
        let computed = [("model", &**model), ("source", "computed")];
        out.sample(name, &computed, totals.prompt_tokens_computed);
    }
    let name = "lm_warden_completion_tokens_total";
    out.family(name, "counter", "Generated tokens, as the engine counted.");
    for (model, totals) in totals {
        out.sample(name, &[("model", &**model)], totals.completion_tokens);
    }
}

fn replicas(out: &mut Exposition, operators: &Operators) {
    let now = clock::now();
    let models: Vec<_> = operators
        .fleet
        .models
        .iter()
        .map(|model| (model, model.router.lock().snapshot(now).replicas))
        .collect();
    let mut gauge =
        |name: &str, help: &str, figure: &dyn Fn(&routing::ReplicaView, bool) -> u32| {
            out.family(name, "gauge", help);
            for (model, views) in &models {
                for (replica, view) in model.replicas().zip(views) {
                    let number = replica.0.to_string();
                    let labels = [("model", model.name.as_str()), ("replica", &number)];
                    out.sample(name, &labels, figure(view, model.has_answered(replica)));
                }
            }
        };
    gauge("lm_warden_in_flight", "Requests in flight.", &|view, _| {
        view.in_flight
    });
    gauge(
        "lm_warden_conversations",
        "Active conversations by home.",
        &|view, _| view.conversations,
    );
    gauge(
        "lm_warden_replica_up",
        "1 where the replica answers.",
        &|view, answered| u32::from(view.up && answered),
    );
}

/// Since when a key's counters run is when the warden started; a revoked key's end with it.
fn keys(out: &mut Exposition, operators: &Operators) {
    let holders = operators.access.ring().holders();
    if holders.is_empty() {
        return;
    }
    let usages: Vec<_> = holders
        .iter()
        .map(|holder| (&*holder.name, holder.account.usage()))
        .collect();
    let mut family = |name: &str, kind: &str, help: &str, figure: &dyn Fn(&Usage) -> u64| {
        out.family(name, kind, help);
        for (key, usage) in &usages {
            out.sample(name, &[("key", key)], figure(usage));
        }
    };
    family(
        "lm_warden_key_requests_total",
        "counter",
        "Requests of a key that were let in.",
        &|usage| usage.requests,
    );
    family(
        "lm_warden_key_limited_total",
        "counter",
        "Requests of a key that one of its limits turned away.",
        &|usage| usage.limited,
    );
    family(
        "lm_warden_key_in_flight",
        "gauge",
        "Requests of a key in flight.",
        &|usage| u64::from(usage.in_flight),
    );
    family(
        "lm_warden_key_completion_tokens_total",
        "counter",
        "Tokens generated for a key.",
        &|usage| usage.completion_tokens,
    );
    let name = "lm_warden_key_prompt_tokens_total";
    out.family(
        name,
        "counter",
        "Prompt tokens of a key; unmeasured ones count as computed.",
    );
    for (key, usage) in &usages {
        let cached = [("key", *key), ("source", "cached")];
        out.sample(name, &cached, usage.prompt_tokens_cached);
        let computed = [("key", *key), ("source", "computed")];
        out.sample(name, &computed, usage.prompt_tokens_computed);
    }
}

fn gpus(out: &mut Exposition, view: &api::Gpus) {
    let mut gauge = |name: &str, help: &str, figure: &dyn Fn(&api::Gpu) -> Option<f64>| {
        let figures = view.gpus.iter().filter_map(|gpu| Some((gpu, figure(gpu)?)));
        let figures: Vec<_> = figures.collect();
        if figures.is_empty() {
            return; // no card tells it
        }
        out.family(name, "gauge", help);
        for (gpu, figure) in figures {
            let (number, replicas) = (gpu.gpu.to_string(), on(gpu));
            let name_of = gpu.name.as_deref().unwrap_or("-");
            let labels = [
                ("gpu", number.as_str()),
                ("name", name_of),
                ("replicas", &replicas),
            ];
            out.sample(name, &labels, figure);
        }
    };
    let whole = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    gauge("lm_warden_gpu_memory_bytes", "Memory of a card.", &|gpu| {
        whole(gpu.memory_bytes)
    });
    gauge(
        "lm_warden_gpu_memory_used_bytes",
        "Memory in use on a card.",
        &|gpu| whole(gpu.memory_used_bytes),
    );
    gauge(
        "lm_warden_gpu_utilisation",
        "Share of the time in which a card computed.",
        &|gpu| gpu.utilisation,
    );
    gauge(
        "lm_warden_gpu_temperature_celsius",
        "Temperature of a card.",
        &|gpu| gpu.temperature_c,
    );
    gauge("lm_warden_gpu_power_watts", "Power of a card.", &|gpu| {
        gpu.power_w
    });
}

fn history(out: &mut Exposition, state: &api::HistoryState) {
    let mut one = |name: &str, kind: &str, help: &str, figure: u64| {
        out.family(name, kind, help);
        out.sample(name, &[], figure);
    };
    one(
        "lm_warden_history_writable",
        "gauge",
        "1 while requests can be noted on disk; they are served all the same.",
        u64::from(state.writable),
    );
    one(
        "lm_warden_history_written_total",
        "counter",
        "Requests noted on disk.",
        state.written,
    );
    one(
        "lm_warden_history_dropped_total",
        "counter",
        "Requests and marks lost because neither disk nor memory took them.",
        state.dropped,
    );
    one(
        "lm_warden_history_waiting",
        "gauge",
        "Requests and marks not written yet.",
        state.waiting,
    );
    one(
        "lm_warden_history_bytes",
        "gauge",
        "Size of the history on disk.",
        state.bytes,
    );
    one(
        "lm_warden_history_set_aside_total",
        "counter",
        "Damaged files that were put aside.",
        state.set_aside_files,
    );
}

/// The replicas on a card, such as `model/0`.
fn on(gpu: &api::Gpu) -> String {
    let replicas = gpu.replicas.iter();
    let names: Vec<String> = replicas
        .map(|there| format!("{}/{}", there.model, there.replica))
        .collect();
    names.join(",")
}

/// Prometheus' text format.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    pub(super) fn sample(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl std::fmt::Display,
    ) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        if labels.is_empty() {
            return self.line(format_args!("{name} {value}\n"));
        }
        self.line(format_args!("{name}{{{}}} {value}\n", labels.join(",")));
    }

    fn histogram(&mut self, name: &str, model: &str, distribution: &Distribution) {
        let bucket = format!("{name}_bucket");
        for bound_s in BOUNDS_S {
            let labels = [("model", model), ("le", &bound_s.to_string())];
            self.sample(&bucket, &labels, distribution.count_up_to_s(bound_s));
        }
        let count = distribution.count();
        self.sample(&bucket, &[("model", model), ("le", "+Inf")], count);
        self.sample(
            &format!("{name}_sum"),
            &[("model", model)],
            distribution.sum_s(),
        );
        self.sample(&format!("{name}_count"), &[("model", model)], count);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0
            .write_fmt(line)
            .expect("a string takes all that fits in memory");
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cards_figures_name_what_runs_there_and_what_it_does_not_tell_is_left_out() {
        let on = |model: &str, replica| api::GpuReplica {
            model: model.to_owned(),
            replica,
        };
        let card = api::Gpu {
            gpu: 1,
            name: Some("NVIDIA \"A\"".to_owned()),
            memory_bytes: Some(16 << 30),
            memory_used_bytes: Some(15 << 30),
            utilisation: Some(0.5),
            temperature_c: Some(61.0),
            power_w: None,
            replicas: vec![on("m", 0), on("n", 1)],
        };
        let bare = api::Gpu {
            gpu: 2,
            name: None,
            memory_bytes: None,
            memory_used_bytes: None,
            utilisation: None,
            temperature_c: None,
            power_w: None,
            replicas: Vec::new(),
        };
        let mut view = api::Gpus {
            gpus: vec![card, bare],
            driver: None,
            unavailable: None,
        };
        let mut out = Exposition::default();
        gpus(&mut out, &view);
        let of = |name: &str, value: &str| {
            format!(
                "lm_warden_gpu_{name}{{gpu=\"1\",name=\"NVIDIA \\\"A\\\"\",replicas=\"m/0,n/1\"}} {value}"
            )
        };
        let samples: Vec<&str> = out
            .0
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert_eq!(
            samples,
            [
                of("memory_bytes", "17179869184"),
                of("memory_used_bytes", "16106127360"),
                of("utilisation", "0.5"),
                of("temperature_celsius", "61"),
            ]
        );
        view.gpus.clear();
        let mut none = Exposition::default();
        gpus(&mut none, &view);
        assert_eq!(none.0, "", "without a card there is nothing to say");
    }
}
