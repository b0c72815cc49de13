//! A short soak as a plain test: fixed seeds, so a failure is a failure for everybody.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken run should stop the test")]

use opengpu_sim::soak::{Settings, Soak};

fn run(seed: u64, blocks: u64) -> Soak {
    let mut soak = Soak::new(Settings { seed, accounts: 64 }).unwrap();
    for _ in 0..blocks {
        if let Err(fault) = soak.block() {
            panic!("seed {seed}, block {}: {fault}", soak.height());
        }
    }
    soak
}

#[test]
fn every_invariant_holds_after_every_block_of_random_transactions() {
    for seed in 0..4 {
        let soak = run(seed, 500);
        assert_eq!(soak.tally().blocks, 500);
    }
}

#[test]
fn every_operation_and_every_reason_occurs() {
    // What is rare may be missing in one run, and not in all of them.
    let gaps = (44..48).map(|seed| run(seed, 2_000).tally().gaps());
    let missing = gaps.reduce(|all, one| all.into_iter().filter(|it| one.contains(it)).collect());
    assert_eq!(missing, Some(Vec::new()));
}

#[test]
fn one_seed_is_one_run() {
    let (one, same, other) = (run(7, 300), run(7, 300), run(8, 300));
    assert_eq!(one.state(), same.state());
    assert_eq!(one.tally(), same.tally());
    assert_ne!(one.state(), other.state());
}
