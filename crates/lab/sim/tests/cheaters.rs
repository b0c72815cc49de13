//! What cheating brings, with audits and without: a few waves of each strategy.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use opengpu_sim::cheaters::{Measured, Strategy, measure};

/// Two waves.
fn measured(strategy: Strategy, audits: bool) -> Measured {
    measure(strategy, audits, 32, 1).unwrap()
}

#[test]
fn honest_work_pays_and_is_never_refuted() {
    for strategy in [Strategy::Honest, Strategy::HonestNewcomer, Strategy::HonestVerifier] {
        let measured = measured(strategy, true);
        assert_eq!(
            (measured.tasks, measured.wrongly, measured.unknown),
            (32, 0, 0),
            "{strategy:?}"
        );
        assert!(measured.profit() > 0, "{strategy:?} {measured:?}");
    }
}

#[test]
fn what_was_not_run_is_refuted_whoever_helps() {
    let all = [
        Strategy::Full,
        Strategy::Copycat,
        Strategy::Withholder,
        Strategy::RingOfAFifth,
        Strategy::RingOfAThird,
        Strategy::Sybil,
    ];
    for strategy in all {
        let measured = measured(strategy, true);
        assert_eq!((measured.refuted, measured.accepted), (32, 0), "{strategy:?}");
        assert!(measured.profit() <= 0, "{strategy:?} {measured:?}");
    }
}

#[test]
fn what_is_faked_in_part_is_found_as_often_as_the_bound_says() {
    let measured = measured(Strategy::Tenth, true);
    assert!(!measured.is_below_the_bound(), "{measured:?}");
    assert!(measured.profit() < 0, "{measured:?}");
}

#[test]
fn who_claims_what_it_did_not_run_loses_by_it() {
    for strategy in [Strategy::Guesser, Strategy::Disputer] {
        let measured = measured(strategy, true);
        assert_eq!(measured.wrongly, 0, "{strategy:?}");
        assert!(measured.profit() < 0, "{strategy:?} {measured:?}");
    }
}

#[test]
fn without_audits_every_cheat_wins_more_than_honest_work() {
    let honest = measured(Strategy::Honest, false).profit();
    for strategy in [Strategy::Full, Strategy::Tenth, Strategy::Copycat, Strategy::Sybil] {
        let measured = measured(strategy, false);
        assert_eq!(measured.accepted, 32, "{strategy:?}");
        assert!(measured.profit() > honest, "{strategy:?} {measured:?}");
    }
}
