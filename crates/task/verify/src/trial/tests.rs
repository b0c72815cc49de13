//! What of a trial is found, and what is not.

#![expect(clippy::arithmetic_side_effects, reason = "properties are about small numbers")]

use super::*;
use proptest::prelude::*;

const CHAIN: ChainId = ChainId(7);
const TIME: Millis = Millis(1);
const PROVIDER: Address = Address::new([1; 20]);
const SEED_OF_ALL: Seed = Seed([3; 32]);

fn tried(counts: &[u8]) -> Vec<Tried> {
    let of = |(offer, devices): (u8, &u8)| Tried { offer, devices: *devices, integers: 20_000 };
    (0..).zip(counts).map(of).collect()
}

/// What devices made of their work: the blocks for which this holds are computed, the others are zeros.
struct Made {
    devices: Vec<Device>,
    values: Vec<Vec<[u8; Trial::BLOCK_BYTES]>>,
}

impl Made {
    fn new(seed: &Seed, counts: &[u8], does: impl Fn(u32, u32) -> bool) -> Self {
        let devices = devices(seed, &tried(counts), TIME);
        let of = |(index, device): (u32, &Device)| {
            let blocks = 0..device.work.blocks();
            let value = |at| if does(index, at) { block(device, at) } else { [0; 256] };
            blocks.map(value).collect()
        };
        let values = (0..).zip(&devices).map(of).collect();
        Self { devices, values }
    }

    fn leaves(&self, device: u32) -> Vec<Digest> {
        self.values[device as usize].iter().map(leaf).collect()
    }

    fn roots(&self) -> Vec<Digest> {
        (0..).zip(&self.values).map(|(at, _)| merkle::root(&self.leaves(at))).collect()
    }

    fn root(&self) -> Digest {
        root(&self.roots())
    }

    /// Opens what is drawn, as it was committed to.
    fn open(&self, drawn: &[Drawn]) -> Vec<TrialBlock> {
        let roots = self.roots();
        let of = |it: &Drawn| {
            let device = &self.devices[it.device as usize];
            let opened = open(device, *it, &self.leaves(it.device), &roots).unwrap();
            let values = self.values[it.device as usize][it.block() as usize];
            TrialBlock { values, ..opened }
        };
        drawn.iter().map(of).collect()
    }

    fn drawn(&self, beacon: u8) -> Vec<Drawn> {
        drawn(&draw(&SEED_OF_ALL, &Seed([beacon; 32]), &self.root()), &self.devices)
    }

    fn holds(&self, beacon: u8) -> Result<bool, NotOpened> {
        let drawn = self.drawn(beacon);
        check(&self.devices, &drawn, &self.root(), &self.open(&drawn))
    }
}

#[test]
fn work_that_was_done_holds() {
    let made = Made::new(&SEED_OF_ALL, &[2, 1], |_, _| true);
    assert_eq!(made.devices.len(), 3);
    for beacon in 0..8 {
        assert_eq!(made.holds(beacon), Ok(true));
    }
}

#[test]
fn work_of_which_half_was_skipped_does_not() {
    let half = Made::new(&SEED_OF_ALL, &[1], |_, block| block % 2 == 0);
    let other = Made::new(&SEED_OF_ALL, &[2], |device, _| device == 0);
    for beacon in 0..16 {
        assert_eq!(half.holds(beacon), Ok(false));
        assert_eq!(other.holds(beacon), Ok(false), "of two devices one was there");
    }
}

#[test]
fn nothing_of_another_device_or_provider_or_trial_counts() {
    let made = Made::new(&SEED_OF_ALL, &[2], |_, _| true);
    // Both devices are said to have made what the first one made.
    let copied = Made { values: vec![made.values[0].clone(); 2], devices: made.devices.clone() };
    assert_eq!(copied.holds(1), Ok(false));
    let beacon = Seed([9; 32]);
    let mine = seed(CHAIN, &beacon, &PROVIDER);
    for other in [
        seed(CHAIN, &beacon, &Address::new([2; 20])),
        seed(CHAIN, &Seed([8; 32]), &PROVIDER),
        seed(ChainId(8), &beacon, &PROVIDER),
    ] {
        let theirs = Made::new(&other, &[1], |_, _| true);
        let claimed = Made { devices: devices(&mine, &tried(&[1]), TIME), ..theirs };
        assert_eq!(claimed.holds(1), Ok(false));
    }
}

#[test]
fn what_was_not_drawn_or_is_not_under_the_root_opens_nothing() {
    let made = Made::new(&SEED_OF_ALL, &[2], |_, _| true);
    let (drawn, root) = (made.drawn(1), made.root());
    let opened = made.open(&drawn);
    let said = |opened: &[TrialBlock]| check(&made.devices, &drawn, &root, opened);
    assert_eq!(said(&opened), Ok(true));
    assert_eq!(said(&opened[1..]), Err(NotOpened), "one is missing");
    let mut turned = opened.clone();
    turned.rotate_left(1);
    assert_eq!(said(&turned), Err(NotOpened), "each in its place");
    for change in [
        (|it: &mut TrialBlock| it.values[9] ^= 1) as fn(&mut TrialBlock),
        |it| it.device = Digest([1; 32]),
        |it| it.within = List::empty(),
        |it| it.among = List::empty(),
    ] {
        let mut changed = opened.clone();
        change(&mut changed[3]);
        assert_eq!(said(&changed), Err(NotOpened));
    }
    let other = check(&made.devices, &drawn, &Digest([4; 32]), &opened);
    assert_eq!(other, Err(NotOpened), "another root");
}

#[test]
fn lanes_are_drawn_by_what_each_device_has_to_do() {
    let tried = [
        Tried { offer: 0, devices: 1, integers: 30_000 },
        Tried { offer: 1, devices: 1, integers: 10_000 },
    ];
    let devices = devices(&SEED_OF_ALL, &tried, Millis(100));
    let mut first = 0;
    for beacon in 0..200u8 {
        for it in drawn(&Seed([beacon; 32]), &devices) {
            assert!(it.lane < devices[it.device as usize].work.lanes);
            first += u32::from(it.device == 0);
        }
    }
    // Three quarters of 4,800.
    assert!((3_450..3_750).contains(&first), "{first}");
}

#[test]
fn work_follows_from_the_rating_and_the_time() {
    let work = |integers, time| {
        let Work { lanes, rounds } = Work::of(integers, Millis(time));
        (lanes, rounds)
    };
    // 10^9 operations of a processor.
    assert_eq!(work(10_000, 100), (262_656, 119));
    // 1.6 * 10^14 operations of a large device: so many rounds as there may be, and more lanes.
    let (lanes, rounds) = work(20_000_000, 8_000);
    assert_eq!((lanes, rounds), (LANES_MAX, ROUNDS_MAX));
    assert_eq!(work(0, 8_000), (BLOCK, 1), "nothing is the least");
    assert_eq!(work(u64::MAX, u64::MAX), (LANES_MAX, ROUNDS_MAX));
}

proptest! {
    #[test]
    fn a_device_has_as_much_to_do_as_it_says(integers in 1u64..8_000_000, time in 1u64..8_000) {
        let work = Work::of(integers, Millis(time));
        let asked = u128::from(integers) * u128::from(time) * 1000;
        let got = u128::from(work.turns()) * u128::from(OPERATIONS);
        prop_assert!(got + 32 >= asked, "{work:?}: {got} of {asked}");
        // Whole blocks of the fewest rounds are the coarsest step.
        let step = u128::from(BLOCK) * u128::from(work.rounds + 1) * 32;
        prop_assert!(got <= asked + step, "{work:?}: {got} of {asked}");
        prop_assert_eq!(work.lanes % BLOCK, 0);
    }

    #[test]
    fn lanes_abreast_are_the_same_lanes(seed: [u8; 32], at in 0u32..1_000, rounds in 1u32..50) {
        let words = words(&Seed(seed));
        let device = Device { offer: 0, number: 0, words, work: Work { lanes: 64_064, rounds } };
        let bytes = block(&device, at);
        for (number, value) in (at * BLOCK..).zip(bytes.chunks_exact(4)) {
            prop_assert_eq!(lane(words, number, rounds).to_le_bytes(), value);
        }
    }
}

#[test]
fn whoever_lists_one_device_twice_is_late_and_whoever_is_as_fast_as_rated_is_not() {
    let brief = TrialParameters::BRIEF;
    // 8 s of work, for which there are 13.
    assert_eq!(limit(&brief), Millis(13_000));
    assert_eq!(least_speed(&brief), 616);
    assert!(!is_late(&brief, 1, 1) && !is_late(&brief, 8, 8));
    assert!(is_late(&brief, 2, 1) && is_late(&brief, 3, 1) && is_late(&brief, 8, 4));
    assert!(!is_late(&brief, 8, 7), "a small part of what is listed is within the slack");
    let loose = TrialParameters { slack: 2_000, ..brief };
    assert!(!is_late(&loose, 2, 1), "with twice the time nobody would be");
}

#[test]
fn whoever_skips_what_it_cannot_do_in_time_rarely_passes() {
    let percent = |done: u64| Chance::new(done * 10_000_000_000_000_000).unwrap();
    let passes = |done: u64| accepted(percent(done)).get() / 1_000_000_000_000;
    // In millionths: half, three quarters, nine tenths, and all of it.
    assert_eq!([50, 75, 90, 100].map(passes), [0, 1_003, 79_766, 1_000_000]);
    // One device that is listed twice and works until the last moment has done 13 of 16 s.
    let twice = done(&TrialParameters::BRIEF, 2, 1);
    assert_eq!(twice.get() / 1_000_000_000_000_000, 812);
    assert_eq!(accepted(twice).get() / 1_000_000_000_000, 6_851);
    assert_eq!(done(&TrialParameters::BRIEF, 1, 1), Chance::ALWAYS);
}

#[test]
fn the_mixing_is_pinned() {
    assert_eq!(lane([1, 2], 3, 4), 0xf0d2_d3a7);
}
