//! How much faster than real time the published workload runs on one core. Fails below the target,
//! so that a slower scheduler is noticed.

use sim::experiment::{Experiment, Level};
use sim::fleet::BalancerVersion;
use sim::policy::PolicyKind;
use sim::profile::Profile;
use sim::workload::{Published, Workload};
use std::process::ExitCode;
use std::time::Instant;

const TARGET: f64 = 1000.0;

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn main() -> ExitCode {
    let experiment = Experiment {
        profile: Profile::named("rtx-a4000-qwen3-4b").expect("it is built in"),
        replicas: 4,
        balancer: BalancerVersion::V026.into(),
        workload: Workload::Published(Published::default()),
        levels: [4, 8, 16, 24, 32].map(Level::closed).to_vec(),
        policies: PolicyKind::ALL.to_vec(),
        window_s: 180.0,
        round_trip_ms: 61.0,
        start_spread_s: 1.5,
        spill_threshold: None,
        leases: sim::policy::LeaseSettings::default(),
        kv_tokens_believed: 1.0,
        second_arm_is_warm: true,
        bounds: false,
    };
    let (mut virtual_s, mut steps) = (0.0, 0);
    let start = Instant::now();
    for seed in 1..=5 {
        let cells = experiment
            .run_seed(seed, &mut |_| {})
            .expect("the published turns fit");
        virtual_s += cells
            .iter()
            .map(|cell| cell.outcome.window_s())
            .sum::<f64>();
        steps += cells.iter().map(|cell| cell.outcome.steps).sum::<u64>();
    }
    let real_s = start.elapsed().as_secs_f64();
    let factor = virtual_s / real_s;
    println!("published workload, one core: {virtual_s:.0} s of virtual time in {real_s:.2} s");
    println!(
        "{factor:.0} times real time (target {TARGET:.0}), {:.1} us a step",
        1e6 * real_s / steps as f64
    );
    if factor < TARGET {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
