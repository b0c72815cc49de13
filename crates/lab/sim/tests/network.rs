//! Simulated networks as plain tests: kept seeds, and canaries that must be caught.

use opengpu_sim::network::{Breach, Canary, Scenario, run, run_canary};

#[test]
fn seeds_that_once_failed_pass() {
    for line in include_str!("../seeds/kept.txt").lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(seed) = line.split_whitespace().next() else { continue };
        let seed = seed.parse().unwrap();
        if let Err(breach) = run(Scenario::Transfers, seed) {
            panic!("seed {seed}: {breach}");
        }
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
