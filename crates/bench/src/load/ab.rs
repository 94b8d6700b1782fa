//! The whole of a bench: which arms in which order, and the model's routing put back at its end.
//!
//! The arms run inside one future. However it ends (done, failed, Ctrl-C), what follows it puts the
//! routing back, so no path can skip that.

use std::collections::BTreeMap;

use ::http::Method;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Arm, BenchError, BenchRequest, Progress,
    http::Http,
    measure::{Measured, measure},
    plan::{Pass, Plan},
    warden::{Settings, Warden},
    watch::{Position, now},
};
use crate::results::{Kind, ResultCell, Results};

type Tell<'a> = &'a (dyn Fn(Progress) + Sync);

/// Measures affinity off and on (or whatever the order says) on a warden.
pub async fn ab(request: &BenchRequest, progress: Tell<'_>) -> Result<Results, BenchError> {
    let http = Http::of(request)?;
    let (started, _) = now();
    // Options are checked first: wrong ones need no server.
    Plan::of(request, None, epoch_us())?;
    let (warden, model) = Warden::find(http, &request.model).await?;
    let plan = Plan::of(request, model.engine.max_model_len, epoch_us())?;
    let was = Settings::of(&model.routing);
    let outcome = tokio::select! {
        outcome = arms(&plan, &warden, was, progress) => outcome,
        () = interrupted() => Err(BenchError::Interrupted),
    };
    if let Err(reason) = warden.restore(was).await {
        let cause = outcome
            .err()
            .map_or("measured".to_owned(), |e| e.to_string());
        return Err(BenchError::NotRestored {
            cause,
            settings: format!("affinity {}, leases {:?}", was.affinity, was.leases),
            reason: reason.to_string(),
        });
    }
    let runs = outcome?;
    Ok(results(&plan, started, &runs, described(&model)))
}

/// Measures one arm, the server being what it is.
pub async fn run(request: &BenchRequest, progress: Tell<'_>) -> Result<Results, BenchError> {
    let http = Http::of(request)?;
    let (started, _) = now();
    let found = match Warden::find(http.clone(), &request.model).await {
        Ok(found) => Some(found),
        Err(BenchError::NoWarden { .. }) => {
            serves(&http, &request.model).await?;
            None
        }
        Err(error) => return Err(error),
    };
    let max_model_len = found
        .as_ref()
        .and_then(|(_, model)| model.engine.max_model_len);
    let plan = Plan::of(request, max_model_len, epoch_us())?;
    let policy = found.as_ref().map_or("direct", |(_, model)| {
        match (model.routing.affinity, model.routing.leases.mode) {
            (false, _) => Arm::Off.policy(),
            (true, api::LeasesMode::Off) => Arm::On.policy(),
            (true, api::LeasesMode::Auto) => Arm::Leases.policy(),
        }
    });
    let warden = found.as_ref().map(|(warden, _)| warden);
    let mut runs = Runs::default();
    let run = async {
        for pass in plan.passes() {
            levels(
                &plan,
                (pass, policy),
                (&http, warden),
                (&mut runs, progress),
            )
            .await?;
        }
        Ok::<_, BenchError>(())
    };
    tokio::select! {
        done = run => done?,
        () = interrupted() => return Err(BenchError::Interrupted),
    }
    let server = found
        .as_ref()
        .map_or(Value::Null, |(_, model)| described(model));
    Ok(results(&plan, started, &runs, server))
}

/// Stages by policy and level.
type Runs = BTreeMap<(usize, u32), (&'static str, Vec<Measured>)>;

async fn arms(
    plan: &Plan,
    warden: &Warden,
    was: Settings,
    progress: Tell<'_>,
) -> Result<Runs, BenchError> {
    let mut runs = Runs::default();
    let mut settings = was;
    for pass in plan.passes() {
        warden.switch(pass.arm, settings).await?;
        settings = Settings::of(&warden.routing().await?);
        let policy = pass.arm.policy();
        let server = (warden.http(), Some(warden));
        levels(plan, (pass, policy), server, (&mut runs, progress)).await?;
    }
    Ok(runs)
}

/// One pass over all levels.
async fn levels(
    plan: &Plan,
    (pass, policy): (Pass, &'static str),
    server: (&Http, Option<&Warden>),
    (runs, progress): (&mut Runs, Tell<'_>),
) -> Result<(), BenchError> {
    let stages = (plan.passes().len() * plan.levels.len()) as u32;
    for level in &plan.levels {
        let done: usize = runs.values().map(|(_, runs)| runs.len()).sum();
        let position = Position {
            stage: format!("{policy}, {level} sessions"),
            stages_done: done as u32,
            stages,
        };
        let stage = plan.stage(pass, *level, &plan.request.model);
        let measured = measure(stage, server, position.clone(), progress).await?;
        progress(Progress::Done(told(&position, &measured)));
        runs.entry((pass.arm as usize, *level))
            .or_insert((policy, Vec::new()))
            .1
            .push(measured);
    }
    Ok(())
}

fn told(position: &Position, measured: &Measured) -> String {
    let counts = match measured.counted {
        Some(counted) if measured.counts_agree() => format!(", the warden counted {counted}"),
        Some(counted) => format!(", BUT THE WARDEN COUNTED {counted}"),
        None => String::new(),
    };
    format!(
        "[{} of {}] {}: {} requests{counts}; {} failed, {} cut",
        position.stages_done + 1,
        position.stages,
        position.stage,
        measured.sent,
        measured.failed,
        measured.censored
    )
}

impl Measured {
    /// Whether the warden counted what the client sent. Turns that failed may not have reached it.
    fn counts_agree(&self) -> bool {
        let least = self.sent.saturating_sub(u64::from(self.failed));
        self.counted
            .is_none_or(|counted| (least..=self.sent).contains(&counted))
    }

    fn warning(&self) -> Option<String> {
        let counted = self.counted.filter(|_| !self.counts_agree())?;
        Some(format!(
            "the warden counted {counted} requests and this client sent {}: others used the model, \
             and replicas busy, engine's hits and stayed are theirs too",
            self.sent
        ))
    }
}

fn results(plan: &Plan, started: u64, runs: &Runs, server: Value) -> Results {
    let mut settings = plan.settings();
    settings["model"] = json!(plan.request.model);
    settings["server"] = server;
    let mut warnings = Vec::new();
    let mut cells = Vec::new();
    for ((_, level), (policy, runs)) in runs {
        let mut cell = ResultCell {
            workload: plan.workload_name.clone(),
            sessions: *level,
            policy: (*policy).to_owned(),
            spill_threshold: None,
            runs: runs.len() as u32,
            figures: BTreeMap::new(),
        };
        for (index, (name, _)) in runs[0].figures.iter().enumerate() {
            let values: Vec<_> = runs.iter().map(|run| run.figures[index].1).collect();
            cell.insert(name, &values);
        }
        let mut insert = |name, read: fn(&Measured) -> Option<f64>| {
            cell.insert(name, &runs.iter().map(read).collect::<Vec<_>>());
        };
        insert("censored", |run| Some(f64::from(run.censored)));
        insert("failed", |run| Some(f64::from(run.failed)));
        insert("requests_client", |run| Some(run.sent as f64));
        insert("requests_warden", |run| {
            run.counted.map(|count| count as f64)
        });
        let at = format!("{policy}, {level} sessions");
        for run in runs {
            warnings.extend(run.warning().map(|warning| format!("{at}: {warning}")));
            if let Some(failure) = &run.last_failure {
                warnings.push(format!(
                    "{at}: {} turns failed, the last: {failure}",
                    run.failed
                ));
            }
        }
        cells.push(cell);
    }
    settings["warnings"] = json!(warnings);
    Results {
        kind: Kind::Bench,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        settings,
        cells,
    }
}

/// The server, as far as the results depend on it.
fn described(model: &api::Model) -> Value {
    let kv_tokens = model.routing.replicas.first().and_then(|r| r.kv_tokens);
    json!({
        "engine": model.engine.kind,
        "engine_model": model.engine.model,
        "engine_version": model.engine.version,
        "max_num_seqs": model.engine.max_num_seqs,
        "max_model_len": model.engine.max_model_len,
        "replicas": model.routing.replicas.len(),
        "kv_tokens": kv_tokens,
        "spill_threshold": model.routing.spill_threshold.value,
    })
}

/// Makes sure that a server which is no warden serves the model.
async fn serves(http: &Http, model: &str) -> Result<(), BenchError> {
    let answer = http.ask(Method::GET, "/v1/models", Bytes::new()).await?;
    let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let Some(list) = list["data"].as_array() else {
        return Err(BenchError::Unreachable {
            url: http.url("/v1/models"),
            reason: format!(
                "it answers {} and no list of models",
                answer.status.as_u16()
            ),
        });
    };
    let known: Vec<_> = list.iter().filter_map(|card| card["id"].as_str()).collect();
    if known.contains(&model) {
        return Ok(());
    }
    Err(BenchError::UnknownModel {
        asked: model.to_owned(),
        known: known.join(", "),
    })
}

fn epoch_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Ctrl-C or SIGTERM. Where signals cannot be had, never.
async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
