//! Random kernels before the referee.

#![expect(clippy::panic, reason = "a test stops where it fails")]

use opengpu_referee::{
    generate::{self, Sample, Trait},
    wgsl::{Fault, Kernel, Limits},
};
use proptest::prelude::*;

const FUEL: u64 = 50_000_000;

fn kernel(sample: &Sample) -> Kernel {
    match Kernel::check(&sample.source, "main", Limits::REFEREE) {
        Ok(kernel) => kernel,
        Err(reason) => panic!("{reason}\n{}", sample.source),
    }
}

fn run(kernel: &Kernel, sample: &Sample) -> Result<(Vec<Vec<u8>>, u64), Fault> {
    let mut buffers = sample.buffers.clone();
    let outcome = kernel.run(sample.grid, &mut buffers, FUEL)?;
    Ok((buffers, outcome.fuel))
}

#[test]
fn a_realistic_mix_comes_out_of_the_seeds() {
    let count = 400;
    let samples: Vec<Sample> = (0..count).map(generate::kernel).collect();
    let share = |wanted: Trait| {
        let found = samples.iter().filter(|sample| sample.traits.contains(&wanted)).count();
        found * 100 / samples.len()
    };
    assert!(share(Trait::Shared) >= 25, "{}", share(Trait::Shared));
    for wanted in [
        Trait::Atomics,
        Trait::Loops,
        Trait::SignedDivision,
        Trait::Shifts,
        Trait::Functions,
        Trait::Switches,
        Trait::Indices,
        Trait::Bits,
    ] {
        assert!(share(wanted) >= 15, "{wanted:?}: {}", share(wanted));
    }
}

#[test]
fn a_seed_makes_one_kernel() {
    let (one, two) = (generate::kernel(7), generate::kernel(7));
    assert_eq!((one.source, one.buffers, one.grid), (two.source, two.buffers, two.grid));
    assert_ne!(generate::kernel(8).source, generate::kernel(9).source);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_generated_kernel_runs_and_repeats(seed in any::<u64>()) {
        let sample = generate::kernel(seed);
        let kernel = kernel(&sample);
        let outcome = run(&kernel, &sample);
        prop_assert!(outcome.is_ok(), "{seed}: {outcome:?}\n{}", sample.source);
        prop_assert_eq!(&outcome, &run(&kernel, &sample));
        prop_assert_ne!(&outcome.unwrap().0, &sample.buffers);
    }

    #[test]
    fn a_normalised_source_has_the_same_outcome(seed in any::<u64>()) {
        let sample = generate::kernel(seed);
        let first = kernel(&sample);
        let source = first.source();
        let second = Kernel::check(&source, "main", Limits::REFEREE);
        prop_assert!(second.is_ok(), "{seed}: {second:?}\n{source}");
        let first = run(&first, &sample).unwrap();
        let second = run(&second.unwrap(), &sample).unwrap();
        prop_assert_eq!(first.0, second.0, "{}", seed);
    }

    #[test]
    fn a_planted_race_is_always_found(seed in any::<u64>()) {
        let sample = generate::racy(seed);
        let outcome = run(&kernel(&sample), &sample);
        let found = matches!(outcome, Err(Fault::Race(_)));
        prop_assert!(found, "{seed}: {outcome:?}\n{}", sample.source);
    }

    #[test]
    fn the_effects_of_the_groups_make_the_dispatch(seed in any::<u64>()) {
        let sample = generate::kernel(seed);
        let kernel = kernel(&sample);
        let [x, y, z] = sample.grid;
        let groups = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
        let mut buffers = sample.buffers.clone();
        let groups: Vec<[u32; 3]> = groups.collect();
        for group in groups.into_iter().rev() {
            let written = kernel.run_group(sample.grid, group, &sample.buffers, FUEL).unwrap();
            written.apply(&mut buffers);
        }
        prop_assert_eq!(buffers, run(&kernel, &sample).unwrap().0, "{}", seed);
    }

    /// A damaged source is refused, or runs to an outcome that repeats.
    #[test]
    fn a_damaged_source_is_refused_or_deterministic(
        seed in 0u64..32,
        at in any::<prop::sample::Index>(),
        with in "[-+*/%0-9a-z(){};,.<>&|^!~\\[\\] ]{0,3}",
    ) {
        let mut sample = generate::kernel(seed);
        let at = at.index(sample.source.len());
        // Generated sources are ASCII.
        sample.source.replace_range(at..=at, &with);
        if let Ok(kernel) = Kernel::check(&sample.source, "main", Limits::REFEREE) {
            let run = || {
                let mut buffers = sample.buffers.clone();
                let outcome = kernel.run(sample.grid, &mut buffers, 200_000);
                (buffers, outcome)
            };
            prop_assert_eq!(run(), run());
        }
    }
}
