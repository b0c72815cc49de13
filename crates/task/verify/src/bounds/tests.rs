//! The published table, and floats as an oracle.

#![expect(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::arithmetic_side_effects,
    reason = "the oracle computes as a textbook does"
)]

use super::*;
use crate::ladder::Rung;
use proptest::prelude::*;

fn sampling(rate: u16, rerolls: u32) -> Sampling {
    let (rate, byzantine) = (Permille::constant(rate), Permille::constant(200));
    Sampling { rate, segments: 12, byzantine, rerolls }
}

fn share(thousandths: u16) -> Chance {
    Chance::thousandths(Permille::constant(thousandths))
}

fn float(chance: Chance) -> f64 {
    chance.get() as f64 / 1e18
}

fn is_near(chance: Chance, wanted: f64, off: f64) -> bool {
    (float(chance) - wanted).abs() <= off
}

#[test]
fn the_table_of_detection_is_what_is_published() {
    // Rate, rerolls, share that is faked; what is found, and tasks until 99.9 %.
    let table = [
        (1000, 0, 1000, 0.99999999, 1),
        (1000, 0, 500, 0.998, 2),
        (1000, 0, 100, 0.632, 7),
        (100, 0, 1000, 0.100, 66),
        (100, 0, 500, 0.100, 66),
        (100, 0, 100, 0.063, 106),
        (1000, 1, 1000, 0.99999999, 1),
        (1000, 1, 500, 0.996, 2),
        (1000, 1, 100, 0.400, 14),
        (1000, 2, 100, 0.253, 24),
    ];
    for (rate, rerolls, faked, found, tasks) in table {
        let detection = sampling(rate, rerolls).detection(share(faked));
        assert!(is_near(detection, found, 0.0005), "{rate} {rerolls} {faked}: {detection:?}");
        assert_eq!(tasks_until_found(detection), Some(tasks), "{rate} {rerolls} {faked}");
    }
    // One segment of 256, sabotaged for a gain outside.
    let one = sampling(1000, 0).detection(Chance::new(ONE / 256).unwrap());
    assert!(is_near(one, 0.037, 0.0005), "{one:?}");
}

#[test]
fn audits_cost_what_is_published() {
    assert!(is_near(sampling(1000, 0).cost(256), 0.047, 0.0002));
    assert!(is_near(sampling(100, 0).cost(256), 0.0047, 0.00002));
    assert!(sampling(1000, 0).cost(240) <= share(50));
    assert!(sampling(1000, 0).cost(239) > share(50));
    assert_eq!(sampling(1000, 0).cost(6), Chance::ALWAYS);
}

#[test]
fn what_is_never_found_is_not_found_after_any_number_of_tasks() {
    assert_eq!(tasks_until_found(Chance::NEVER), None);
    assert_eq!(tasks_until_found(Chance(1)), None);
    assert_eq!(tasks_until_found(Chance::ALWAYS), Some(1));
    assert_eq!(tasks_until_found(Chance(ONE / 1_000_000)), Some(6_907_752));
}

#[test]
fn juries_err_as_seldom_as_is_published() {
    let of = |eligible, byzantine| Electorate { eligible, byzantine, silent: 0 };
    // A fifth byzantine, independent of how many there are.
    for (eligible, wanted) in [(1_000, 1.87e-12), (10_000, 3.21e-12), (10_000_000, 3.40e-12)] {
        let wrong = of(eligible, eligible / 5).wrong_at_once(Rules::LARGE);
        assert!(is_near(wrong, wanted, 0.01e-12), "{eligible} {wrong:?}");
        assert!(of(eligible, eligible / 5).wrong(Rules::LARGE) < Chance(7_900_000));
    }
    let small = of(39, 13).wrong_at_once(Rules::SMALL);
    assert!(is_near(small, 0.0077, 0.00005), "{small:?}");
    let small = of(39, 13).wrong(Rules::SMALL);
    assert!(is_near(small, 0.014, 0.0005), "{small:?}");
    let third = of(1_000, 333).wrong_at_once(Rules::LARGE);
    assert!(is_near(third, 6e-7, 0.05e-7), "{third:?}");
    let third = of(1_000, 333).wrong(Rules::LARGE);
    assert!(is_near(third, 3.75e-6, 0.01e-6), "{third:?}");
    for eligible in 10..=20 {
        let third = of(eligible, eligible / 3);
        assert_eq!(third.wrong(Rules::SMALL), Chance::NEVER, "{eligible}");
    }
    assert_ne!(of(21, 7).wrong(Rules::SMALL), Chance::NEVER);
    assert_eq!(of(40, 13).wrong(Rules::LARGE), Chance::NEVER);
}

#[test]
fn what_goes_wrong_is_rounded_up_and_what_finds_cheats_down() {
    // C(7, 7) C(14, 3) / C(21, 10) = 364 / 352716, which does not divide.
    let wrong = Electorate { eligible: 21, byzantine: 7, silent: 0 }.wrong_round(Rules::SMALL);
    let (ways, all) = (364 * u128::from(ONE), 352_716);
    assert!((ways.div_ceil(all)..ways.div_ceil(all) + 2_000).contains(&wrong.get().into()));
    let of = |rate, segments| {
        let (rate, byzantine) = (Permille::constant(rate), Permille::ZERO);
        Sampling { rate, segments, byzantine, rerolls: 0 }
    };
    assert_eq!(of(1, 1).detection(Chance(999)), Chance::NEVER);
    assert_eq!(of(1000, 2).detection(Chance(1)), Chance(1), "a little less than two");
    assert_eq!(of(1000, 1).cost(3), Chance(ONE / 3 + 1));
}

#[test]
fn a_fifth_that_is_silent_leaves_one_round_in_four() {
    let of = |silent| Electorate { eligible: 1_000_000, byzantine: 200_000, silent };
    assert!(is_near(of(200_000).right_round(Rules::LARGE), 0.25, 0.0005));
    assert!(is_near(of(0).right_round(Rules::LARGE), 0.913, 0.0005));
}

#[test]
fn parameters_by_which_cheating_pays_are_refused() {
    let with = |rate, slash, cost| {
        let cost = Permille::constant(cost);
        Parameters { sampling: sampling(rate, 0), slash, cost }.check()
    };
    // Where everything is audited no stake is needed; otherwise about 1, 3 and 9 times the pay.
    assert_eq!(with(1000, 0, 999), Ok(()));
    assert!(with(1000, 0, 1000).is_err(), "who earns nothing by work loses nothing by a cheat");
    for (rate, times) in [(500, 1_000), (250, 3_000), (100, 9_000)] {
        assert_eq!(with(rate, times, 999), Ok(()), "{rate}");
        assert!(
            matches!(with(rate, times - 20, 999), Err(Violation::CheatingPays { .. })),
            "{rate}"
        );
    }
    assert!(with(0, u32::MAX, 1).is_err());
    let none = Sampling { segments: 0, ..sampling(1000, 0) };
    let none = Parameters { sampling: none, slash: 0, cost: Permille::ZERO };
    assert_eq!(none.check(), Err(Violation::NoSegments));
    // A reroll takes what a low rate leaves.
    let reroll = |slash| {
        let cost = Permille::constant(999);
        Parameters { sampling: sampling(500, 1), slash, cost }.check()
    };
    assert_eq!((reroll(1_000).is_err(), reroll(3_000)), (true, Ok(())));
}

#[test]
fn a_sure_reroll_leaves_small_cheats_undeterred() {
    // The specification says so; without rerolls no share of a run is worth faking.
    let (pay, cost) = (Amount::ONE, Permille::constant(900).of(Amount::ONE));
    let deters = |rerolls, faked| {
        let faked = Chance(ONE / 256 * faked);
        sampling(1000, rerolls).deters(faked, pay, Amount::ZERO, cost)
    };
    assert!((1..=256).all(|faked| deters(0, faked)));
    let least = (1..=256).find(|faked| deters(1, *faked));
    assert_eq!(least, Some(3));
    assert!((3..=256).all(|faked| deters(1, faked)));
}

#[test]
fn honesty_pays_on_every_rung_of_the_ladder() {
    for stake in [100u64, 150, 400, 1_000, 50_000] {
        for open in [1u64, 10, 100, 399, 1_600] {
            for clean in [0, 19, 25, 60, 200, 100_000] {
                let (stake, minimum) = (Amount::whole(stake), Amount::whole(100));
                let open = Amount::whole(open);
                let rate = Rung { stake, clean, minimum }.audits(open);
                let sampling = Sampling { rate, ..sampling(0, 0) };
                // The rate is a thousandth too low at worst.
                let cost = Permille::constant(980).of(open);
                assert!(
                    sampling.deters(Chance::ALWAYS, open, stake, cost),
                    "{stake} {open} {rate:?}"
                );
            }
        }
    }
}

#[test]
fn a_jury_errs_in_all_rounds_together_as_a_simulation_of_rows_says() {
    // Chances of rows as they are in a textbook: of the false answer, and of the true one.
    for (eligible, byzantine, silent) in [(100, 33, 0), (100, 45, 10), (60, 30, 0), (39, 13, 6)] {
        let electorate = Electorate { eligible, byzantine, silent };
        for rules in [Rules::LARGE, Rules::SMALL] {
            let (wrong, right) = (electorate.wrong_round(rules), electorate.right_round(rules));
            let (wrong, right) = (float(wrong), float(right));
            let (mut idle, mut bad, mut good, mut lost) = (1.0, 0.0, 0.0, 0.0);
            for _ in 0..ROUNDS {
                let all = idle + bad + good;
                if rules.rounds == 1 {
                    (idle, lost) = (all * (1.0 - wrong - right), lost + all * wrong);
                } else {
                    lost += bad * wrong;
                    let rows = ((idle + good) * wrong, (idle + bad) * right);
                    (idle, bad, good) = (all * (1.0 - wrong - right), rows.0, rows.1);
                }
            }
            let bound = float(electorate.wrong(rules));
            assert!(bound >= lost - 1e-12, "{bound} {lost} {electorate:?}");
            assert!(
                bound <= lost / (1.0 - wrong).powi(20) + 1e-12,
                "{bound} {lost} {electorate:?}"
            );
        }
    }
}

/// How often a cheat is found if it fakes exactly these places of a circle, by counting all sets that can
/// be drawn; each is worth the chance that all its verifiers of faked places cover the cheat.
fn exact(faked: &[bool], drawn: usize, byzantine: f64) -> f64 {
    fn line(weights: &[f64], drawn: usize) -> f64 {
        let (mut free, mut taken) = (vec![0.0; drawn + 1], vec![0.0; drawn + 1]);
        free[0] = 1.0;
        for weight in weights {
            let before = free.clone();
            for count in 0..=drawn {
                free[count] += taken[count];
                taken[count] = if count > 0 { before[count - 1] * weight } else { 0.0 };
            }
        }
        free[drawn] + taken[drawn]
    }
    let circle = |weights: &[f64]| {
        let rest = &weights[2..weights.len() - 1];
        line(&weights[1..], drawn) + weights[0] * line(rest, drawn - 1)
    };
    let weights: Vec<f64> = faked.iter().map(|it| if *it { byzantine } else { 1.0 }).collect();
    1.0 - circle(&weights) / circle(&vec![1.0; faked.len()])
}

#[test]
fn real_draws_find_what_the_bound_says_wherever_the_fakes_are() {
    for length in [240, 256, 1024] {
        let places: [fn(usize, usize) -> bool; 7] = [
            |_, _| true,
            |at, length| at < length / 2,
            |at, length| at < length / 10,
            |at, _| at % 4 < 2,
            |at, _| at % 3 == 0,
            |at, _| at % 10 == 0,
            |at, _| at == 0,
        ];
        for (which, place) in places.iter().enumerate() {
            let faked: Vec<bool> = (0..length).map(|at| place(at, length)).collect();
            let count = faked.iter().filter(|it| **it).count() as u64;
            let bound = sampling(1000, 0).detection(Chance(ONE / length as u64 * count));
            let exact = exact(&faked, 12, 0.2);
            assert!(exact >= float(bound) - 1e-9, "{which} of {length}: {exact} {bound:?}");
        }
        // The one exception, and how large it is.
        let faked: Vec<bool> = (0..length).map(|at| at % 2 == 0).collect();
        let bound = float(sampling(1000, 0).detection(share(500)));
        assert!((bound - 0.0004..bound).contains(&exact(&faked, 12, 0.2)));
    }
}

#[test]
fn short_runs_are_found_at_least_in_proportion() {
    for length in 4usize..40 {
        let drawn = length.div_ceil(3).min(12);
        for mask in [0b1, 0b10, 0b101_0101_0101, 0b11, 0b1001_0010, 0b1010] {
            let faked: Vec<bool> = (0..length).map(|at| at < 32 && mask >> at & 1 == 1).collect();
            let count = faked.iter().filter(|it| **it).count();
            let least = count as f64 / length as f64 * 0.8;
            assert!(exact(&faked, drawn, 0.2) >= least - 1e-9, "{length} {mask:b}");
        }
    }
}

fn choose(n: u32, k: u32) -> f64 {
    (0..k).map(|it| f64::from(n - it) / f64::from(k - it)).product()
}

proptest! {
    #[test]
    fn detection_is_the_formula_and_never_more(
        rate in 0u16..=1000, segments in 0u32..200, byzantine in 0u16..=1000,
        faked in 0..=ONE, rerolls in 0u32..5,
    ) {
        let [p, f] = [rate, byzantine].map(|it| f64::from(it) / 1000.0);
        let (rate, byzantine) = (Permille::constant(rate), Permille::constant(byzantine));
        let sampling = Sampling { rate, segments, byzantine, rerolls };
        let phi = faked as f64 / 1e18;
        let found = p * (1.0 - (1.0 - phi * (1.0 - f)).powi(segments.cast_signed()));
        let wanted = found.powi(rerolls.cast_signed() + 1);
        let detection = float(sampling.detection(Chance(faked)));
        prop_assert!(detection <= wanted + 1e-12 && detection >= wanted - 1e-11);
    }

    #[test]
    fn less_is_not_found_more_often(faked in 0..ONE, more in 0..ONE, rate in 1u16..=1000) {
        let (less, more) = (Chance(faked.min(more)), Chance(faked.max(more)));
        prop_assert!(sampling(rate, 0).detection(less) <= sampling(rate, 0).detection(more));
    }

    #[test]
    fn whoever_does_not_gain_by_faking_all_does_not_gain_by_less(
        rate in 1u16..=1000, slash in 0u64..20_000, faked in ONE / 1000..ONE,
    ) {
        let (pay, slash) = (Amount::whole(1000), Amount::whole(slash));
        let cost = Permille::constant(950).of(pay);
        let sampling = sampling(rate, 0);
        prop_assume!(sampling.deters(Chance::ALWAYS, pay, slash, cost));
        prop_assert!(sampling.deters(Chance(faked), pay, slash, cost));
    }

    #[test]
    fn a_jury_errs_as_the_distribution_says_and_never_more_seldom(
        eligible in 40u32..400, byzantine in 0u32..400, small: bool,
    ) {
        let byzantine = byzantine.min(eligible);
        let rules = if small { Rules::SMALL } else { Rules::LARGE };
        let (drawn, others) = (u32::from(rules.drawn), eligible - byzantine);
        let ways = |hits| {
            if hits > byzantine || drawn - hits > others { return 0.0 }
            choose(byzantine, hits) * choose(others, drawn - hits) / choose(eligible, drawn)
        };
        let wanted: f64 = (u32::from(rules.alike)..=drawn).map(ways).sum();
        let wrong = float(Electorate { eligible, byzantine, silent: 0 }.wrong_round(rules));
        prop_assert!(wrong >= wanted - 1e-12 && wrong <= wanted + 1e-10, "{wrong} {wanted}");
    }

    #[test]
    fn one_task_fewer_is_not_enough(each in ONE / 100_000..ONE) {
        let tasks = f64::from(tasks_until_found(Chance(each)).unwrap());
        let left = 1.0 - each as f64 / 1e18;
        prop_assert!(left.powf(tasks) <= 0.001 + 1e-9);
        prop_assert!(left.powf(tasks - 1.0) >= 0.001 - 1e-9);
    }
}
