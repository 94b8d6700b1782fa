//! The cases of the studies of leases: machines, workloads and loads. What is compared on them is
//! `leases_variants`.

use super::leases_study::LeasesStudyRequest;
use super::leases_variants::{Variant, ablations, main_variants, rivals};
use super::request::{PUBLISHED_ROUND_TRIP_MS, PUBLISHED_START_SPREAD_S};
use super::{SimulateError, duration_s};
use crate::option::OptionError;
use sim::experiment::{Experiment, Level};
use sim::fleet::BalancerVersion;
use sim::policy::LeaseSettings;
use sim::profile::Profile;
use sim::workload::{Published, Recorded, Workload};

/// One machine, workload, load and variant.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) study: &'static str,
    pub(super) load: String,
    pub(super) variant: String,
    pub(super) experiment: Experiment,
}

/// The studies, in the order in which they are run.
const STUDIES: [&str; 10] = [
    "closed",
    "kv",
    "gaps",
    "rate",
    "burst",
    "machines",
    "owners",
    "tiers",
    "ablations",
    "shapes",
];

/// All cases that were asked for.
pub(super) fn cases(request: &LeasesStudyRequest) -> Result<Vec<Case>, SimulateError> {
    let mut cases = Vec::new();
    for name in &request.only {
        if !STUDIES.contains(&name.as_str()) {
            let mend = format!("there are {}", STUDIES.join(", "));
            return Err(OptionError::new("--only", name, mend).into());
        }
    }
    for study in STUDIES {
        let is_asked = request.only.iter().any(|name| name == study);
        let is_free = study != "shapes" || request.traces.is_some();
        if is_asked || (request.only.is_empty() && is_free) {
            cases.extend(study_cases(study, request)?);
        }
    }
    Ok(cases)
}

fn study_cases(
    study: &'static str,
    request: &LeasesStudyRequest,
) -> Result<Vec<Case>, SimulateError> {
    let base = base(request)?;
    let loads = match study {
        "closed" => closed(&base),
        "kv" => kv(&base)?,
        "gaps" => gaps(&base),
        "rate" => rate(&base),
        "burst" => burst(&base),
        "machines" => machines(&base)?,
        "owners" => owners(&base),
        "tiers" => tiers(&base),
        "ablations" => ablations_loads(&base)?,
        _ => shapes(&base, request)?,
    };
    let variants = match study {
        "closed" => rivals(),
        "ablations" => ablations(),
        _ => main_variants(),
    };
    let with = |load: &(String, Experiment), variant: Variant| {
        let (name, policy, leases, believed) = variant;
        Case {
            study,
            load: load.0.clone(),
            variant: name,
            experiment: Experiment {
                policies: vec![policy],
                leases,
                kv_tokens_believed: believed,
                bounds: study == "closed" && is_full(&load.1),
                ..load.1.clone()
            },
        }
    };
    let all = |load| {
        variants
            .iter()
            .map(move |variant| with(load, variant.clone()))
    };
    Ok(loads.iter().flat_map(all).collect())
}

/// Whether upper bounds say something: where the contexts exceed the caches.
fn is_full(experiment: &Experiment) -> bool {
    experiment.levels.iter().any(|level| level.sessions > 16)
}

/// The fitted machine of the published measurement.
fn base(request: &LeasesStudyRequest) -> Result<Experiment, SimulateError> {
    let window_s = match &request.stage {
        Some(stage) => duration_s("--stage", stage)?,
        None => 1200.0,
    };
    Ok(Experiment {
        profile: Profile::named("rtx-a4000-qwen3-4b")?,
        replicas: 4,
        balancer: BalancerVersion::V026.into(),
        workload: Workload::Published(Published::default()),
        levels: Vec::new(),
        policies: Vec::new(),
        window_s,
        round_trip_ms: PUBLISHED_ROUND_TRIP_MS,
        start_spread_s: PUBLISHED_START_SPREAD_S,
        spill_threshold: None,
        leases: LeaseSettings::default(),
        kv_tokens_believed: 1.0,
        second_arm_is_warm: false,
        bounds: false,
    })
}

type Load = (String, Experiment);

fn at(base: &Experiment, level: Level) -> Experiment {
    Experiment {
        levels: vec![level],
        ..base.clone()
    }
}

fn sized(base: &Experiment, kv_tokens: u64) -> Result<Experiment, SimulateError> {
    Ok(Experiment {
        profile: base.profile.clone().with_kv_tokens(kv_tokens)?,
        ..base.clone()
    })
}

fn published(base: &Experiment, change: impl FnOnce(&mut Published)) -> Experiment {
    let mut published = Published::default();
    change(&mut published);
    Experiment {
        workload: Workload::Published(published),
        ..base.clone()
    }
}

fn closed(base: &Experiment) -> Vec<Load> {
    [4, 8, 12, 16, 20, 24, 32, 48]
        .map(|sessions| ("published".to_owned(), at(base, Level::closed(sessions))))
        .to_vec()
}

fn kv(base: &Experiment) -> Result<Vec<Load>, SimulateError> {
    let mut loads = Vec::new();
    for sessions in [16, 24, 32] {
        for kv_tokens in [34_000, 36_000, 40_000, 44_000, 48_000] {
            let sized = sized(base, kv_tokens)?;
            let load = format!("KV {kv_tokens} tokens");
            loads.push((load, at(&sized, Level::closed(sessions))));
        }
    }
    Ok(loads)
}

fn gaps(base: &Experiment) -> Vec<Load> {
    [0.0, 3.0, 10.0, 30.0]
        .map(|think_s| {
            let pausing = published(base, |published| published.think_s = think_s);
            (
                format!("gaps of {think_s} s"),
                at(&pausing, Level::closed(32)),
            )
        })
        .to_vec()
}

fn rate(base: &Experiment) -> Vec<Load> {
    [300, 360, 420, 480, 540, 600, 660]
        .map(|per_hour| {
            (
                "sessions an hour".to_owned(),
                at(base, Level::rate(per_hour)),
            )
        })
        .to_vec()
}

/// Eight sessions, then 32, then eight: the stages follow one another on the same caches.
fn burst(base: &Experiment) -> Vec<Load> {
    // Levels name the prompts, so two stages of eight are told apart by a ninth.
    let levels = [8, 32, 9].map(Level::closed).to_vec();
    let burst = Experiment {
        levels,
        window_s: base.window_s / 2.0,
        ..base.clone()
    };
    vec![("8, 32, 9 sessions".to_owned(), burst)]
}

/// Two larger machines at loads of 0.9, 1.5 and 2 times their caches.
fn machines(base: &Experiment) -> Result<Vec<Load>, SimulateError> {
    let mut loads = Vec::new();
    for name in ["rtx-5090-27b", "h100-32b"] {
        let profile = Profile::named(name)?;
        for percent in [90, 150, 200] {
            let sessions = profile.kv_tokens * 4 * percent / 100 / MEAN_OWN_TOKENS;
            let machine = Experiment {
                profile: profile.clone(),
                ..base.clone()
            };
            let load = format!("{name} {percent} %");
            loads.push((load, at(&machine, Level::closed(sessions as u32))));
        }
    }
    Ok(loads)
}

/// Own tokens of a published conversation, on average.
const MEAN_OWN_TOKENS: u64 = 9200;

/// A quarter of the clients is another owner's, with contexts twice as large.
fn owners(base: &Experiment) -> Vec<Load> {
    let large = Published {
        first_tokens_min: 14_400,
        first_tokens_max: 15_000,
        ..Published::default()
    };
    let mixed = Experiment {
        workload: Workload::TwoOwners {
            first: Box::new(Workload::Published(Published::default())),
            second: Box::new(Workload::Published(large)),
            every: 4,
        },
        ..base.clone()
    };
    [20, 28]
        .map(|sessions| {
            (
                "two sizes, two owners".to_owned(),
                at(&mixed, Level::closed(sessions)),
            )
        })
        .to_vec()
}

/// Host memory beside each replica's cache, GiB, and gaps: contexts of 24, 32 and 48 sessions take 8, 11
/// and 16 GiB a replica.
fn tiers(base: &Experiment) -> Vec<Load> {
    let mut loads = Vec::new();
    for (sessions, think_s, sizes) in [
        (24, 0.0, &[0, 4, 8, 10, 16, 64][..]),
        (32, 0.0, &[0, 4, 8, 10, 12, 16, 64]),
        (48, 0.0, &[0, 12, 16, 64]),
        (32, 3.0, &[0, 8, 10, 16]),
        (32, 10.0, &[0, 8, 10, 16]),
    ] {
        let pausing = published(base, |published| published.think_s = think_s);
        for gib in sizes {
            let tier = Experiment {
                profile: base.profile.clone().with_host_gib(f64::from(*gib)),
                ..pausing.clone()
            };
            let load = match think_s {
                0.0 => format!("{gib} GiB of host memory"),
                _ => format!("{gib} GiB, gaps of {think_s} s"),
            };
            loads.push((load, at(&tier, Level::closed(sessions))));
        }
    }
    loads
}

fn ablations_loads(base: &Experiment) -> Result<Vec<Load>, SimulateError> {
    let tight = sized(base, 36_000)?;
    Ok(vec![
        ("published".to_owned(), at(base, Level::closed(24))),
        ("published".to_owned(), at(base, Level::closed(32))),
        ("KV 36000 tokens".to_owned(), at(&tight, Level::closed(24))),
    ])
}

/// Recorded shapes on the largest machine, their contexts cut to half a replica's cache.
fn shapes(base: &Experiment, request: &LeasesStudyRequest) -> Result<Vec<Load>, SimulateError> {
    let Some(path) = &request.traces else {
        let mend = "the study \"shapes\" needs a file of recorded shapes";
        return Err(OptionError::new("--traces", "", mend).into());
    };
    let text = std::fs::read_to_string(path).map_err(|cause| SimulateError::Read {
        path: path.clone(),
        cause,
    })?;
    let shapes_error = |cause| SimulateError::Shapes {
        path: path.clone(),
        cause,
    };
    let recorded = Recorded::from_csv(&text, 1.0, 70_000).map_err(shapes_error)?;
    let mut loads = Vec::new();
    for pause_s in [10.0, 60.0] {
        for sessions in [12, 24] {
            let machine = Experiment {
                profile: Profile::named("h100-32b")?,
                workload: Workload::Recorded(recorded.clone().with_pauses_of_at_most(pause_s)),
                round_trip_ms: 2.0,
                start_spread_s: 10.0,
                ..base.clone()
            };
            let load = format!("gaps up to {pause_s} s");
            loads.push((load, at(&machine, Level::closed(sessions))));
        }
    }
    Ok(loads)
}
