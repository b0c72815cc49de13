//! Simulated networks as plain tests: kept seeds, and canaries that must be caught.

use opengpu_sim::network::{
    Absences, Breach, Canary, Mishaps, Report, Scenario, Witnessed, run, run_canary,
};

/// Runs all kept seeds of a scenario: those that failed in it, and those of the other one too, since
/// what went wrong there is below both.
fn replay(scenario: Scenario) {
    let kept = include_str!("../seeds/kept.txt").lines();
    let seeds = kept.filter_map(|line| line.split('#').next()?.split_whitespace().next());
    for seed in seeds.map(|seed| seed.parse().expect("a kept seed is a number")) {
        let report = run(scenario, seed).map_err(|breach| format!("seed {seed}: {breach}"));
        let report = report.expect("a kept seed passes");
        let ended: u64 = report.ended.values().sum();
        assert_eq!(report.tasks, ended, "seed {seed}");
        assert_eq!(report.tasks > 0, scenario == Scenario::Market, "seed {seed}");
    }
}

#[test]
fn seeds_that_once_failed_pass() {
    replay(Scenario::Transfers);
}

#[test]
fn seeds_that_once_failed_pass_with_a_market() {
    replay(Scenario::Market);
}

#[test]
fn leases_complete_and_tasks_end_through_every_mishap_of_providers_and_clients() {
    let mishaps: [fn(&Mishaps) -> u64; 6] =
        [|it| it.restarts, |it| it.lost, |it| it.old, |it| it.full, |it| it.clocks, |it| it.owners];
    let absences: [fn(&Absences) -> u64; 8] = [
        |it| it.kills,
        |it| it.returns,
        |it| it.gone,
        |it| it.lost,
        |it| it.old,
        |it| it.cuts,
        |it| it.resumed,
        |it| it.alone,
    ];
    let witnessed: [fn(&Witnessed) -> u64; 3] =
        [|it| it.continued, |it| it.refused, |it| it.swapped];
    let all = |reports: &[Report]| {
        let met = |kind: fn(&Mishaps) -> u64| reports.iter().any(|it| kind(&it.mishaps) > 0);
        let away = |kind: fn(&Absences) -> u64| reports.iter().any(|it| kind(&it.absences) > 0);
        let shown = |kind: fn(&Witnessed) -> u64| reports.iter().any(|it| kind(&it.witnessed) > 0);
        mishaps.into_iter().all(met)
            && witnessed.into_iter().all(shown)
            && absences.into_iter().all(away)
            && reports.iter().any(|it| it.served > 0)
    };
    // As many seeds as it takes until everything has happened, within reason.
    let mut reports = Vec::new();
    while reports.len() < 2 || !all(&reports) {
        assert!(reports.len() < 12, "{reports:?}");
        let seed = u64::try_from(reports.len()).unwrap();
        reports.push(run(Scenario::Market, seed).unwrap());
    }
    for report in &reports {
        assert_eq!(report.tasks, report.ended.values().sum::<u64>(), "{report:?}");
    }
}

#[test]
fn one_seed_is_one_run() {
    for scenario in [Scenario::Transfers, Scenario::Market] {
        assert_eq!(run(scenario, 3).unwrap(), run(scenario, 3).unwrap());
    }
}

#[test]
fn a_network_whose_validators_all_vote_twice_forks_and_is_caught() {
    let result = run_canary(Canary::SplitBrain);
    assert!(matches!(result, Err(Breach::Fork { .. })), "{result:?}");
}

#[test]
fn a_network_without_a_quorum_stalls_and_is_caught() {
    let result = run_canary(Canary::NoQuorum);
    assert!(matches!(result, Err(Breach::Stalled { .. })), "{result:?}");
}

#[test]
fn a_liar_that_nobody_reports_is_caught() {
    let result = run_canary(Canary::NobodyReports);
    assert!(matches!(result, Err(Breach::LiarUnpunished { .. })), "{result:?}");
}

#[test]
fn an_impostor_that_nobody_reports_is_caught() {
    let result = run_canary(Canary::NobodyReportsImpostor);
    assert!(matches!(result, Err(Breach::LiarUnpunished { .. })), "{result:?}");
}

#[test]
fn a_task_that_does_not_end_is_caught() {
    let result = run_canary(Canary::NobodySells);
    let Err(Breach::Endless { open, tasks, .. }) = result else { panic!("{result:?}") };
    assert!(open > 0 && open <= tasks);
}

#[test]
fn a_market_without_tasks_is_caught() {
    let result = run_canary(Canary::NobodyBuys);
    assert!(matches!(result, Err(Breach::Idle)), "{result:?}");
}

#[test]
fn a_market_that_wakes_nobody_is_caught() {
    let result = run_canary(Canary::NobodyIsWoken);
    let Err(Breach::Invariant { breach, .. }) = result else { panic!("{result:?}") };
    assert_eq!(breach.name, "I6-alarms");
}
