//! The rules hold, each planted bug breaks a property, and no way leads in circles, at a small size.

use opengpu_model::Rules;
use opengpu_model::bugs::Bug;
use opengpu_model::explore::{Size, explore, hunt};
use opengpu_model::parties::World;
use opengpu_model::state::{Chain, Dispute, Phase, Turn};
use stateright::Model as _;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

#[test]
fn the_rules_keep_every_property_and_what_must_be_possible_is() {
    let report = explore(Size::SMALL, 2);
    let broken: Vec<_> = report.findings.iter().filter(|finding| !finding.holds).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(report.states > 1_000_000, "{} states are no exploration", report.states);
}

#[test]
fn every_planted_bug_breaks_a_property() {
    for bug in Bug::ALL {
        let report = hunt(Size::SMALL, *bug);
        assert!(report.broken().is_some(), "{bug:?} survived {} states", report.states);
    }
}

/// How far a world is, as numbers that are compared from the left.
fn progress(world: &World) -> [u32; 13] {
    let Chain { phase, draws, objected, slots, .. } = world.chain;
    let (stage, round, turn) = match phase {
        Phase::Running => (0, 0, 0),
        Phase::Stopping => (1, 0, 0),
        Phase::Answering => (2, 0, 0),
        Phase::Opening => (3, 0, 0),
        Phase::Revealing => (4, 0, 0),
        Phase::Disputing(Dispute { round, turn: Turn::Provider, .. }) => (5, round.into(), 0),
        Phase::Disputing(Dispute { round, turn: Turn::Challenger, .. }) => (5, round.into(), 1),
        Phase::Disputing(Dispute { round, turn: Turn::Step, .. }) => (5, round.into(), 2),
        Phase::Objecting => (6, 0, 0),
        Phase::Decided => (7, 0, 0),
        Phase::Closed => (8, 0, 0),
    };
    let count = |counted: &dyn Fn(usize) -> bool| (0..5).filter(|it| counted(*it)).map(|_| 1).sum();
    let objections: u32 = slots.iter().map(|slot| slot.objections.0.count_ones()).sum();
    [
        u32::from(stage >= 7),
        u32::from(objected),
        draws.into(),
        stage,
        count(&|it| slots[it].revealed),
        32 - objections,
        round,
        turn,
        count(&|it| slots[it].answer.is_some()),
        8 - u32::from(world.crashes),
        u32::from(!world.down),
        8 - u32::from(world.losses),
        count(&|it| world.served[it].is_some()),
    ]
}

#[test]
fn everything_that_happens_takes_the_lease_further() {
    // A mishap of each kind; casts are left out, for they change nothing about what is further.
    let size = Size { crashes: 1, losses: 1, all: false };
    let rules = Rules { size, bug: None };
    let mut worlds: Vec<World> = rules.init_states().into_iter().take(8).collect();
    let mut seen = BTreeSet::new();
    while let Some(world) = worlds.pop() {
        for after in rules.next_states(&world) {
            assert!(progress(&after) > progress(&world), "{world:#?}\n{after:#?}");
            let mut hasher = DefaultHasher::new();
            after.hash(&mut hasher);
            if seen.insert(hasher.finish()) {
                worlds.push(after);
            }
        }
    }
    assert!(seen.len() > 10_000, "{} states are no exploration", seen.len());
}
