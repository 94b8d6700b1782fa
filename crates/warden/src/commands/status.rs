//! `lm-warden status`: the panel *Data-parallel routing* in a terminal.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use super::{Client, ClientError, out, table};

/// From one picture to the next with `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a script wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether every model is ready.
    pub all_ready: bool,
}

impl Outcome {
    fn of(models: &api::Models) -> Self {
        let ready = |model: &api::Model| model.state == api::ModelState::Ready;
        Self {
            all_ready: models.models.iter().all(ready),
        }
    }
}

/// Prints what the API gives, byte for byte.
pub async fn print_json(client: &Client) -> Result<Outcome, ClientError> {
    let body = client.bytes("/api/v1/models").await?;
    let models = client.parse(&body)?;
    out(&format!("{}\n", String::from_utf8_lossy(&body).trim_end()));
    Ok(Outcome::of(&models))
}

/// Prints the panel of every model.
pub async fn print(client: &Client) -> Result<Outcome, ClientError> {
    let models = client.models().await?;
    out(&render(&models, has_colour()));
    Ok(Outcome::of(&models))
}

/// Prints it again every second, until it is interrupted or the warden is gone.
pub async fn watch(client: &Client) -> Result<Outcome, ClientError> {
    loop {
        let models = client.models().await?;
        let clear = if io::stdout().is_terminal() {
            "\x1b[2J\x1b[H"
        } else {
            ""
        };
        out(&format!("{clear}{}", render(&models, has_colour())));
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Outcome::of(&models)),
        }
    }
}

fn has_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// The panels as text.
pub(super) fn render(models: &api::Models, colour: bool) -> String {
    let panels: Vec<String> = models
        .models
        .iter()
        .map(|model| panel(model, colour))
        .collect();
    panels.join("\n")
}

fn panel(model: &api::Model, colour: bool) -> String {
    let routing = &model.routing;
    let reason = model.state_reason.as_deref();
    let mut text = format!(
        "{}  {}{}\n",
        paint(&model.name, BOLD, colour),
        paint(model_state(model.state), state_colour(model.state), colour),
        reason.map_or_else(String::new, |reason| format!(": {reason}")),
    );
    let threshold = &routing.spill_threshold;
    let source = match threshold.source {
        api::ThresholdSource::Auto => "auto",
        api::ThresholdSource::Set => "set",
    };
    let badges = format!(
        "Affinity {} · Spill threshold {} ({source}) · Sticky {} · In flight {} · Balanced {}\n",
        if routing.affinity { "on" } else { "off" },
        threshold.value,
        percent(routing.sticky_percent),
        routing.in_flight,
        routing.balanced,
    );
    text.push_str(&badges);
    table(
        &HEADINGS,
        &routing.replicas.iter().map(row).collect::<Vec<_>>(),
        &mut text,
    );
    text.push_str(&throughput(&model.throughput));
    text.push_str(&working_set(&routing.working_set));
    text.push_str(&leases(&routing.leases, colour));
    if let Some(alarm) = &model.alarm {
        text.push_str(&paint(&alarm.message, YELLOW, colour));
        text.push('\n');
    }
    text
}

/// What the engines do now.
fn throughput(now: &api::Throughput) -> String {
    let rate = |rate: Option<f64>| known(rate.map(|rate| format!("{rate:.0}")));
    format!(
        "Now: {} prompt tokens/s cached, {} computed, {} completion tokens/s\n",
        rate(now.prompt_tokens_cached_per_s),
        rate(now.prompt_tokens_computed_per_s),
        rate(now.completion_tokens_per_s),
    )
}

/// What the active conversations need of the caches, and how many would fit.
fn working_set(set: &api::WorkingSet) -> String {
    format!(
        "Working set: {} conversation{}, {} of {} KV tokens ({}); {} such conversations fit{}\n",
        set.conversations,
        if set.conversations == 1 { "" } else { "s" },
        set.tokens,
        known(set.kv_tokens),
        percent(set.fill.map(|fill| fill * 100.0)),
        known(set.conversations_fit),
        if set.is_over {
            ": past it, turns are read again"
        } else {
            ""
        },
    )
}

/// Who holds a place and who waits for one, while the machine is full; else why nobody would.
fn leases(leases: &api::Leases, colour: bool) -> String {
    let why_none = match leases.state {
        api::LeasesState::Contended => return contended(leases, colour),
        api::LeasesState::Sticky => "nobody waits",
        api::LeasesState::Off => "off",
        api::LeasesState::AffinityOff => "off, as affinity is",
        api::LeasesState::KvTokensUnknown => {
            "off until the engine has told how many tokens its KV cache holds"
        }
        api::LeasesState::UsageUnknown => {
            "off until the engine has told how much of a prompt it read from its cache"
        }
    };
    format!("Leases: {why_none}\n")
}

fn contended(leases: &api::Leases, colour: bool) -> String {
    let longest = leases.oldest_wait_s.map_or_else(String::new, |wait_s| {
        format!(", the longest for {wait_s:.0} s")
    });
    format!(
        "{}: {} hold a place, {} wait for one{longest}; a new conversation would wait about {:.0} s\n",
        paint("The machine is full", YELLOW, colour),
        leases.holding,
        leases.waiting,
        leases.predicted_wait_s,
    )
}

const HEADINGS: [&str; 14] = [
    "replica",
    "state",
    "in flight",
    "new",
    "sticky",
    "spilled in",
    "moved in",
    "pinned",
    "running",
    "waiting",
    "KV used",
    "hit rate",
    "conv.",
    "own/KV tokens",
];

fn row(replica: &api::Replica) -> [String; 14] {
    let part = |part: Option<f64>| percent(part.map(|part| part * 100.0));
    let age_s = replica.scrape_age_ms.map(|age_ms| age_ms / 1000);
    let state = match age_s {
        Some(age_s) if age_s > 5 => format!("{} ({age_s} s old)", replica_state(replica.state)),
        _ => replica_state(replica.state).to_owned(),
    };
    [
        replica.replica.to_string(),
        state,
        replica.in_flight.to_string(),
        replica.new.to_string(),
        replica.sticky.to_string(),
        replica.spilled_in.to_string(),
        replica.moved_in.to_string(),
        replica.client_pinned.to_string(),
        known(replica.running),
        known(replica.waiting),
        part(replica.kv_cache_usage),
        part(replica.prefix_cache_hit_rate),
        replica.conversations.to_string(),
        format!("{}/{}", replica.committed_tokens, known(replica.kv_tokens)),
    ]
}

/// What is not known is a dash, never 0.
fn known(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| figure.to_string())
}

fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent:.1} %"))
}

fn model_state(state: api::ModelState) -> &'static str {
    match state {
        api::ModelState::Ready => "ready",
        api::ModelState::Loading => "loading",
        api::ModelState::Degraded => "degraded",
        api::ModelState::Failed => "failed",
        api::ModelState::Stopped => "stopped",
    }
}

fn replica_state(state: api::ReplicaState) -> &'static str {
    match state {
        api::ReplicaState::Up => "up",
        api::ReplicaState::Ramping => "ramping",
        api::ReplicaState::Draining => "draining",
        api::ReplicaState::Wedged => "wedged",
        api::ReplicaState::Down => "down",
    }
}

const BOLD: &str = "1";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

fn state_colour(state: api::ModelState) -> &'static str {
    match state {
        api::ModelState::Ready => GREEN,
        api::ModelState::Loading | api::ModelState::Degraded | api::ModelState::Stopped => YELLOW,
        api::ModelState::Failed => RED,
    }
}

fn paint(text: &str, code: &str, colour: bool) -> String {
    if colour {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
