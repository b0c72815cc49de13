//! Draws of Proof of Sync: whether a commitment is audited, which segments, and by whom.
//!
//! ```text
//!   beacon of a later height ──► seed (chain, lease, root, occasion)
//!                                  ├── is it audited at all
//!                                  ├── which segments
//!                                  └── which verifiers, one for each segment
//! ```
//!
//! - Every occasion has a seed of its own, from a beacon that nobody knew when the thing was fixed that
//!   it is about: a verifier that already knew whether its answer will be audited again could be bribed
//!   safely.
//! - Segments are drawn on a circle, on which the last is beside the first. So each one is drawn with the
//!   same chance, which a uniform choice among all sets of a line would not give: of three segments in a
//!   line only the outer two can be drawn together, and nobody would ever look at the middle one.
//! - Segments come in random order: verifiers with much stake tend to be drawn first, and must not tend
//!   to get the first segments.

use std::collections::{BTreeMap, BTreeSet};

use opengpu_crypto::{Digest, Draw, Seed, hash};
use opengpu_types::{Address, Amount, ChainId, LeaseId, Permille, SegmentIndex};

use crate::trace::Part;

/// A draw is by the beacon of so many heights after that at which its subject was fixed.
pub const LATER: u64 = 2;

/// Domain of a seed.
const SEED: &str = "opengpu/audit/seed/v1";
/// Domains of draws.
const LOTTERY: &str = "opengpu/audit/lottery/v1";
const SEGMENTS: &str = "opengpu/audit/segments/v1";
const VERIFIERS: &str = "opengpu/audit/verifiers/v1";

/// At most one in so many segments is drawn, but one at least. Where sets that fit are few, whoever fakes
/// every other segment knows too well which sets there are.
const SPARSE: u32 = 3;
/// Stake counts in billionths of a token, so that all of it fits into one word.
const UNIT: u128 = 1_000_000_000;
/// Whoever holds at least so much of an account's stake belongs to it. Less would let anybody keep a
/// verifier away from its own leases by a gift.
const BACKER: Permille = Permille::constant(250);

/// What a seed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The audit of a commitment.
    Audit,
    /// Others, for what the first verifiers of an audit left unchecked.
    Others,
    /// The audit of an audit that was accepted.
    Again,
    /// A round of the jury on a segment.
    Round {
        /// The segment.
        segment: SegmentIndex,
        /// Which round.
        round: u8,
    },
}

impl Occasion {
    /// One value, one byte string.
    fn encode(self) -> [u8; 6] {
        let (kind, segment, round) = match self {
            Self::Audit => (0, 0, 0),
            Self::Again => (1, 0, 0),
            Self::Others => (3, 0, 0),
            Self::Round { segment, round } => (2, segment.0, round),
        };
        let [a, b, c, d] = segment.to_le_bytes();
        [kind, a, b, c, d, round]
    }
}

/// The seed of all draws of one occasion. The beacon is that of a height at which everything else here
/// was fixed before.
pub fn seed(
    chain: ChainId,
    beacon: &Seed,
    lease: &LeaseId,
    root: &Digest,
    occasion: Occasion,
) -> Seed {
    let (chain, number) = (chain.0.to_be_bytes(), [lease.number]);
    let occasion = occasion.encode();
    let parts: [&[u8]; 6] =
        [&chain, &beacon.0, lease.task.0.as_ref(), &number, root.as_ref(), &occasion];
    Seed(hash(SEED, &parts).0)
}

/// Whether a commitment is audited, by the seed of [`Occasion::Audit`]; or audited again, by that of
/// [`Occasion::Again`].
pub fn is_audited(seed: &Seed, rate: Permille) -> bool {
    Draw::new(seed, LOTTERY, b"").below(1000) < u64::from(rate.get())
}

/// Up to so many segments of a part, never equal and never adjacent: the state from which a segment is
/// repeated is the answer to the one before. The first leaf of a part is nobody's work and never drawn.
pub fn segments(seed: &Seed, part: &Part, count: u32) -> Vec<SegmentIndex> {
    let executed = part.place(part.last).unwrap_or(0);
    let shift = |place: u32| part.first.0.checked_add(place)?.checked_add(1).map(SegmentIndex);
    apart(seed, executed, count).into_iter().filter_map(shift).collect()
}

/// Up to so many numbers below `length` of which no two are beside each other on a circle, in random
/// order; each number with the same chance.
pub(crate) fn apart(seed: &Seed, length: u32, count: u32) -> Vec<u32> {
    let count = count.min(length.div_ceil(SPARSE));
    let Some(rest) = count.checked_sub(1) else { return Vec::new() };
    let mut draw = Draw::new(seed, SEGMENTS, b"");
    let start = draw.below(u64::from(length));
    // One number is anywhere. The others are on the line that is left without it and its neighbours,
    // where a set with gaps is a set without gaps from a line that is shorter by them.
    let line = u64::from(length).saturating_sub(3).saturating_add(1).saturating_sub(rest.into());
    let others = subset(&mut draw, line, rest);
    let spread = others.into_iter().zip(2u64..).map(|(place, gap)| place.saturating_add(gap));
    let turn = |place: u64| {
        let place = start.saturating_add(place).checked_rem(length.into())?;
        u32::try_from(place).ok()
    };
    let mut drawn: Vec<u32> = std::iter::once(0).chain(spread).filter_map(turn).collect();
    draw.shuffle(&mut drawn);
    drawn
}

/// So many different numbers below `length`, each set with the same chance, in as many draws (Floyd).
fn subset(draw: &mut Draw, length: u64, count: u32) -> BTreeSet<u64> {
    let mut chosen = BTreeSet::new();
    for last in length.saturating_sub(count.into())..length {
        let number = draw.below(last.saturating_add(1));
        if !chosen.insert(number) {
            chosen.insert(last);
        }
    }
    chosen
}

/// A provider that may verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Who.
    pub provider: Address,
    /// Its stake.
    pub stake: Amount,
}

/// One verifier for each of so many places: drawn by stake, each once. If there are fewer candidates than
/// places, each takes several in turn. Nobody is without any weight, so that a network in which nobody has
/// stake yet works by the same rule.
///
/// The order of the candidates does not matter, and one that is named twice counts once.
pub fn verifiers(seed: &Seed, candidates: &[Candidate], places: u32) -> Vec<Address> {
    let weights: BTreeMap<Address, u64> =
        candidates.iter().map(|candidate| (candidate.provider, weight(candidate.stake))).collect();
    let (names, weights): (Vec<Address>, Vec<u64>) = weights.into_iter().unzip();
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let drawn = Draw::new(seed, VERIFIERS, b"").weighted_without_replacement(&weights, places);
    let drawn: Vec<Address> =
        drawn.into_iter().filter_map(|index| names.get(index).copied()).collect();
    drawn.into_iter().cycle().take(places).collect()
}

fn weight(stake: Amount) -> u64 {
    let units = stake.0.checked_div(UNIT).unwrap_or(0);
    u64::try_from(units).unwrap_or(u64::MAX).max(1)
}

/// An account with those behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The account.
    pub account: Address,
    /// Whoever controls it: itself, or the one that it belongs to.
    pub owner: Address,
    /// Its stake, with what others added.
    pub stake: Amount,
    /// What each other account added to the stake.
    pub backers: BTreeMap<Address, Amount>,
}

impl Party {
    /// All who count as this party: itself, its owner, and whoever holds a quarter of its stake.
    fn cluster(&self) -> BTreeSet<Address> {
        let enough = BACKER.of(self.stake).max(Amount(1));
        let large = self.backers.iter().filter(|(_, amount)| **amount >= enough);
        large.map(|(backer, _)| *backer).chain([self.account, self.owner]).collect()
    }
}

/// Whether a candidate must not verify what this provider did: one of those behind the one is behind the
/// other.
pub fn excluded(provider: &Party, candidate: &Party) -> bool {
    !provider.cluster().is_disjoint(&candidate.cluster())
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use crate::trace::Extent;
    use opengpu_types::TaskId;
    use proptest::prelude::*;

    fn of(number: u64) -> Seed {
        Seed(hash("test", &[&number.to_le_bytes()]).0)
    }

    fn part(first: u32, last: u32) -> Part {
        let extent = Extent { steps: 1 << 40, segments: last + 5 };
        Part { extent, first: SegmentIndex(first), last: SegmentIndex(last) }
    }

    fn address(number: u8) -> Address {
        Address::new([number; 20])
    }

    fn candidates(stakes: &[u128]) -> Vec<Candidate> {
        let one = |(stake, number): (&u128, u8)| Candidate {
            provider: address(number),
            stake: Amount(*stake),
        };
        stakes.iter().zip(0..).map(one).collect()
    }

    #[test]
    fn a_seed_binds_everything_in_it() {
        let lease = |task: u8, number| LeaseId { task: TaskId(Digest([task; 32])), number };
        let round = |segment, round| Occasion::Round { segment: SegmentIndex(segment), round };
        let make = |chain, beacon: u8, lease: LeaseId, root: u8, occasion| {
            seed(ChainId(chain), &Seed([beacon; 32]), &lease, &Digest([root; 32]), occasion)
        };
        let all = [
            make(1, 1, lease(1, 1), 1, Occasion::Audit),
            make(2, 1, lease(1, 1), 1, Occasion::Audit),
            make(1, 2, lease(1, 1), 1, Occasion::Audit),
            make(1, 1, lease(2, 1), 1, Occasion::Audit),
            make(1, 1, lease(1, 2), 1, Occasion::Audit),
            make(1, 1, lease(1, 1), 2, Occasion::Audit),
            make(1, 1, lease(1, 1), 1, Occasion::Again),
            make(1, 1, lease(1, 1), 1, Occasion::Others),
            make(1, 1, lease(1, 1), 1, round(0, 0)),
            make(1, 1, lease(1, 1), 1, round(1, 0)),
            make(1, 1, lease(1, 1), 1, round(0, 1)),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let pinned = "f9d6b8265278b1a0bf0d71f9041b97ae4c2668f95a7b8b7c29676b7b0a0a05f5";
        assert_eq!(Digest(all[0].0).to_string(), pinned, "a protocol change");
    }

    #[test]
    fn as_many_are_audited_as_the_rate_says() {
        let audited = |rate| (0..10_000).filter(|n| is_audited(&of(*n), rate)).count();
        assert_eq!(audited(Permille::ZERO), 0);
        assert_eq!(audited(Permille::ALL), 10_000);
        let tenth = audited(Permille::constant(100));
        assert!((880..1120).contains(&tenth), "{tenth}");
        let again = audited(Permille::constant(20));
        assert!((140..260).contains(&again), "{again}");
    }

    #[test]
    fn every_segment_is_drawn_as_often_as_any_other() {
        for (executed, count) in [(3u32, 2u32), (4, 2), (5, 2), (7, 12), (30, 4), (64, 12)] {
            let mut counts = vec![0u32; usize::try_from(executed).unwrap()];
            for number in 0..6_000 {
                for segment in segments(&of(number), &part(10, 10 + executed), count) {
                    counts[usize::try_from(segment.0 - 11).unwrap()] += 1;
                }
            }
            let wanted = 6_000 * count.min(executed.div_ceil(3)) / executed;
            for count in &counts {
                // Six standard deviations, at most.
                assert!(count.abs_diff(wanted).pow(2) < 36 * wanted, "{wanted} {counts:?}");
            }
        }
    }

    #[test]
    fn the_first_that_is_drawn_is_not_the_first_of_the_run() {
        let lowest = |number: &u64| {
            let drawn = segments(&of(*number), &part(0, 100), 4);
            drawn.first() == drawn.iter().min()
        };
        let often = (0..2_000).filter(lowest).count();
        assert!((400..600).contains(&often), "{often}");
    }

    #[test]
    fn a_part_in_which_nothing_was_executed_has_nothing_to_draw() {
        assert_eq!(segments(&of(1), &part(4, 4), 12), []);
        assert_eq!(segments(&of(1), &part(4, 9), 0), []);
        assert_eq!(segments(&of(1), &part(4, 5), 12), [SegmentIndex(5)]);
        let backwards = Part { last: SegmentIndex(3), ..part(4, 4) };
        assert_eq!(segments(&of(1), &backwards, 12), []);
    }

    #[test]
    fn verifiers_are_drawn_by_stake() {
        let some = candidates(&[Amount::whole(1).0, Amount::whole(3).0, Amount::whole(6).0]);
        let mut counts = [0u32; 3];
        for number in 0..10_000 {
            let drawn = verifiers(&of(number), &some, 1);
            counts[usize::from(drawn[0].as_bytes()[0])] += 1;
        }
        for (count, wanted) in counts.iter().zip([1_000u32, 3_000, 6_000]) {
            assert!(count.abs_diff(wanted).pow(2) < 36 * wanted, "{counts:?}");
        }
    }

    #[test]
    fn without_stake_one_weighs_next_to_nothing_but_not_nothing() {
        let drawn = |stakes: &[u128]| {
            let some = candidates(stakes);
            let first = |number: &u64| verifiers(&of(*number), &some, 1) == [address(0)];
            (0..1_000).filter(first).count()
        };
        assert_eq!(drawn(&[0, Amount::ONE.0]), 0);
        let alike = drawn(&[0, 0]);
        assert!((400..600).contains(&alike), "{alike}");
        assert_eq!(verifiers(&of(1), &candidates(&[0, Amount::CAP.0]), 2).len(), 2);
    }

    #[test]
    fn three_providers_take_twelve_places_in_turn() {
        let drawn = verifiers(&of(5), &candidates(&[0, 0, 0]), 12);
        assert_eq!(drawn.len(), 12);
        for number in 0..3 {
            assert_eq!(drawn.iter().filter(|it| **it == address(number)).count(), 4);
        }
        assert_ne!(drawn[0], drawn[1]);
        assert_eq!(verifiers(&of(5), &[], 12), []);
    }

    #[test]
    fn whoever_is_behind_a_provider_does_not_verify_it() {
        let party = |account: u8, owner: u8, backers: &[(u8, u128)]| Party {
            account: address(account),
            owner: address(owner),
            stake: Amount(100),
            backers: backers.iter().map(|(who, what)| (address(*who), Amount(*what))).collect(),
        };
        let provider = party(1, 9, &[(7, 30)]);
        let of_it = [
            party(1, 8, &[]),
            party(2, 9, &[]),
            party(9, 9, &[]),
            party(7, 7, &[]),
            party(2, 2, &[(7, 25)]),
            party(2, 2, &[(9, 99)]),
            party(2, 2, &[(1, 25)]),
        ];
        for other in of_it {
            assert!(excluded(&provider, &other), "{other:?}");
            assert!(excluded(&other, &provider), "{other:?}");
        }
        // Nobody keeps a verifier away by a gift to it.
        for other in [party(2, 2, &[]), party(2, 2, &[(7, 24), (1, 24), (9, 24)])] {
            assert!(!excluded(&provider, &other), "{other:?}");
        }
        let poor = Party { stake: Amount::ZERO, ..party(2, 2, &[(7, 0)]) };
        assert!(!excluded(&provider, &poor), "nothing is no share");
    }

    proptest! {
        #[test]
        fn what_is_drawn_was_executed_and_lies_apart(
            seed: [u8; 32], first in 0u32..1000, executed in 0u32..400, count in 0u32..200,
        ) {
            let part = part(first, first + executed);
            let drawn = segments(&Seed(seed), &part, count);
            let sorted: BTreeSet<u32> = drawn.iter().map(|index| index.0).collect();
            let sorted: Vec<u32> = sorted.into_iter().collect();
            prop_assert_eq!(sorted.len(), drawn.len(), "none twice");
            let wanted = count.min(executed.div_ceil(3));
            prop_assert_eq!(u32::try_from(drawn.len()).unwrap(), wanted);
            prop_assert!(sorted.iter().all(|index| *index > first && *index <= first + executed));
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] > 1));
        }

        #[test]
        fn verifiers_do_not_depend_on_the_order_of_candidates(
            seed: [u8; 32],
            stakes in prop::collection::vec(0..Amount::CAP.0, 1..40),
            places in 0u32..50,
        ) {
            let mut some = candidates(&stakes);
            let drawn = verifiers(&Seed(seed), &some, places);
            prop_assert_eq!(drawn.len(), usize::try_from(places).unwrap());
            let different: BTreeSet<_> = drawn.iter().collect();
            prop_assert_eq!(different.len(), some.len().min(drawn.len()));
            some.reverse();
            some.push(some[0]);
            prop_assert_eq!(verifiers(&Seed(seed), &some, places), drawn);
        }
    }
}
