//! What cheating brings, with audits and without: a few waves of each strategy.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use opengpu_sim::cheaters::{Measured, Strategy, Table, measure};

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

#[test]
fn a_leader_that_withholds_a_beacon_has_its_friend_found_less_often_but_not_below_the_bound() {
    let plain = measure(Strategy::Tenth, true, 160, 3).unwrap();
    let ground = measure(Strategy::Grinder, true, 160, 3).unwrap();
    assert!(ground.refuted + 20 < plain.refuted, "{ground:?} {plain:?}");
    assert!(ground.expected < plain.expected && !ground.is_below_the_bound(), "{ground:?}");
    assert!(ground.profit() < 0, "{ground:?}");
}

#[test]
fn who_disputes_what_it_knows_to_be_right_loses_and_has_nobody_slashed() {
    let measured = measured(Strategy::Accuser, true);
    assert_eq!(measured.wrongly, 0, "{measured:?}");
    // Three false ones of three others take the pay of a lease.
    assert!(measured.unknown < 5, "{measured:?}");
    assert!(measured.profit() < 0, "{measured:?}");
}

#[test]
fn a_table_says_which_claim_is_broken() {
    let mut table = Table::default();
    let honest = Measured { tasks: 100, agreed: 100_000, gained: 50_000, ..Measured::default() };
    table.add(Strategy::Honest, true, &honest);
    let found = Measured {
        tasks: 100,
        false_ones: 100,
        refuted: 100,
        expected: 99_000_000_000,
        agreed: 100_000,
        gained: -1,
        ..Measured::default()
    };
    table.add(Strategy::Full, true, &found);
    assert_eq!(table.breaches(), Vec::<String>::new());
    let breaks = |strategy, of: Measured| {
        let mut table = table.clone();
        table.add(strategy, true, &of);
        table.claims().iter().position(|claim| !claim.broken.is_empty())
    };
    assert_eq!(breaks(Strategy::Honest, Measured { wrongly: 1, ..Measured::default() }), Some(0));
    let loses = Measured { cost: 60_000, ..Measured::default() };
    assert_eq!(breaks(Strategy::Honest, loses), Some(1));
    let missed = Measured { false_ones: 900, expected: 900_000_000_000, ..Measured::default() };
    assert_eq!(breaks(Strategy::Full, missed), Some(2));
    assert_eq!(breaks(Strategy::Full, Measured { gained: 2_000, ..Measured::default() }), Some(3));
    let mut unaudited = table.clone();
    unaudited.add(Strategy::Full, false, &Measured { agreed: 1, ..Measured::default() });
    assert_eq!(unaudited.breaches(), ["nothing is run: does not pay without audits"]);
}

#[test]
fn bribes_are_found_by_those_who_look_again_and_a_larger_lock_makes_them_too_dear() {
    let unseen = measured(Strategy::BribedUnseen, true);
    assert_eq!((unseen.refuted, unseen.wrongly), (0, 0), "nobody looks again: {unseen:?}");
    assert!(unseen.profit() > 0, "with a lock of a tenth bribes are cheap: {unseen:?}");
    let seen = measured(Strategy::BribedSeen, true);
    assert_eq!((seen.refuted, seen.accepted), (32, 0), "{seen:?}");
    assert!(seen.profit() <= 0, "{seen:?}");
    let dear = measured(Strategy::BribedDear, true);
    assert!(dear.accepted > 0 && dear.profit() < 0, "{dear:?}");
}
