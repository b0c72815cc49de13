//! The rules hold, with mishaps, too, and each planted bug breaks a property; at a small size.

use opengpu_model::bugs::Bug;
use opengpu_model::explore::{Size, explore, hunt};
use opengpu_model::properties;
use stateright::Expectation;

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

#[test]
fn every_property_that_must_hold_is_broken_by_a_bug() {
    let must = properties::all().into_iter().filter(|it| it.expectation != Expectation::Sometimes);
    for property in must {
        let broken = Bug::ALL.iter().any(|bug| bug.breaks() == property.name);
        assert!(broken, "no bug breaks \"{}\"", property.name);
    }
}

#[test]
fn mishaps_break_nothing() {
    // One crash and one lost serving; the program explores them with all casts.
    let report = explore(Size { crashes: 1, losses: 1, all: false }, 2);
    let broken: Vec<_> = report.findings.iter().filter(|finding| !finding.holds).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
