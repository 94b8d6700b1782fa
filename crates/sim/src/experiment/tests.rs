//! Experiments over levels, policies and seeds: repeatable, bounded, as published.

use super::*;
use crate::fleet::BalancerVersion;
use crate::workload::Published;

fn experiment() -> Experiment {
    Experiment {
        profile: Profile::named("rtx-a4000-qwen3-4b").unwrap(),
        replicas: 4,
        balancer: BalancerVersion::V026.into(),
        workload: Workload::Published(Published::default()),
        levels: vec![Level::closed(4), Level::closed(8)],
        policies: vec![PolicyKind::Balanced, PolicyKind::Affinity],
        window_s: 60.0,
        round_trip_ms: 200.0,
        start_spread_s: 0.5,
        spill_threshold: None,
        leases: routing::LeaseSettings::default(),
        kv_tokens_believed: 1.0,
        second_arm_is_warm: true,
        bounds: true,
    }
}

#[test]
fn cells_come_in_the_order_of_policies_and_levels_and_are_heard_of() {
    let mut heard = Vec::new();
    let experiment = experiment();
    let cells = experiment
        .run_seed(1, &mut |cell| heard.push(cell.clone()))
        .unwrap();
    assert_eq!(heard, cells);
    assert_eq!(cells.len(), experiment.stages());
    let order: Vec<_> = cells
        .iter()
        .map(|cell| (cell.policy.as_str(), cell.sessions))
        .collect();
    assert_eq!(
        order,
        [
            ("balanced", 4),
            ("balanced", 8),
            ("affinity", 4),
            ("affinity", 8)
        ]
    );
}

#[test]
fn no_run_is_better_than_its_bounds() {
    for cell in experiment().run_seed(2, &mut |_| {}).unwrap() {
        let bounds = cell.bounds.unwrap();
        let (hits, most) = (cell.figures.prefix_hit_percent, bounds.prefix_hit_percent);
        assert!(hits <= most, "{:?}: {hits:?} > {most:?}", cell.policy);
        let (tokens, most) = (
            cell.figures.output_tokens_per_min,
            bounds.output_tokens_per_min,
        );
        // A turn more or less may end within the window, at either end.
        let edges = 2.0 * 256.0;
        assert!(
            tokens <= 1.02 * most + edges,
            "{:?}: {tokens} > {most}",
            cell.policy
        );
    }
}

#[test]
fn a_warm_second_arm_knows_the_shared_prefix_and_a_cold_one_does_not() {
    let first_turns_cached = |warm| {
        let experiment = Experiment {
            policies: vec![PolicyKind::Affinity],
            levels: vec![Level::closed(4)],
            second_arm_is_warm: warm,
            bounds: false,
            ..experiment()
        };
        let cells = experiment.run_seed(3, &mut |_| {}).unwrap();
        cells[0]
            .outcome
            .turns
            .iter()
            .filter(|t| t.turn == 0 && t.session == 0)
            .map(|t| t.cached_tokens)
            .sum::<u32>()
    };
    assert_eq!(first_turns_cached(false), 0);
    assert!(first_turns_cached(true) >= 4 * 3488);
}

#[test]
fn a_fit_is_repeatable_and_never_worse_than_its_start() {
    let base = Experiment {
        levels: vec![Level::closed(4)],
        bounds: false,
        ..experiment()
    };
    let mut objectives = Vec::new();
    let found = fit(&base, 2, 1, &mut |progress| {
        objectives.push(progress.best.objective);
    })
    .unwrap();
    assert_eq!(objectives.len(), 2);
    assert!(objectives[0] >= objectives[1]);
    assert_eq!(fit(&base, 2, 1, &mut |_| {}).unwrap(), found);
}
