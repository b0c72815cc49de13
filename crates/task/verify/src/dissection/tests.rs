//! Two sides that play, honest or not.

#![expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]

use super::*;
use opengpu_types::{ArtifactId, Metered, SegmentIndex};
use proptest::prelude::*;

const CLOCK: Millis = Millis(1_000);

/// The point after so many units; from the wrong one on a lie has others.
fn point(units: u64, wrong: Option<u64>) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&units.to_le_bytes());
    bytes[8] = u8::from(wrong.is_some_and(|wrong| units > wrong));
    Digest(bytes)
}

/// A dissection of these units, of which the wrong one is claimed wrongly, without a closing of its own.
fn begun(from: u64, to: u64, wrong: u64) -> Dissection {
    Dissection {
        from,
        to,
        closing: false,
        before: point(from, None),
        claimed: point(to, Some(wrong)),
        stated: None,
        since: Millis(0),
        provider: CLOCK,
        challenger: CLOCK,
        ended: None,
    }
}

fn statement(of: &Dissection, wrong: u64) -> Move {
    Move::State(of.ends().into_iter().map(|end| point(end, Some(wrong))).collect())
}

/// Plays until the end; the rounds that it took, and the end.
fn play(mut dissection: Dissection, wrong: u64) -> (u32, Ended) {
    for round in 1.. {
        let said = statement(&dissection, wrong);
        assert_eq!(dissection.apply(said, Millis(0)), Ok(None));
        let ends = dissection.ends();
        let first = ends.iter().position(|end| *end > wrong).unwrap();
        let named = Move::Dispute(u8::try_from(first).unwrap());
        if let Some(ended) = dissection.apply(named, Millis(0)).unwrap() {
            return (round, ended);
        }
    }
    unreachable!("every round narrows")
}

fn segments(before: u32, after: u32) -> (Segment, Segment) {
    let state = ArtifactId::of(b"state");
    let (emitted, metered) = (Digest([1; 32]), Metered { fuel: 5, ..Metered::default() });
    let segment = |index| Segment { index: SegmentIndex(index), state, emitted, metered };
    (segment(before), segment(after))
}

#[test]
fn a_segment_of_4096_steps_takes_three_rounds_with_its_closing() {
    let (before, claimed) = segments(6, 7);
    let extent = Extent { steps: 4096 * 10, segments: 10 };
    let opened = Dissection::open(extent, &before, &claimed, Millis(5), CLOCK).unwrap();
    assert_eq!((opened.from, opened.to), (6 * 4096, 7 * 4096 + 1));
    assert_eq!(opened.before, Point::begin(&before).digest());
    assert_eq!(opened.claimed, End::of(&claimed).digest());
    assert_eq!(opened.ends().len(), 17);
    assert_eq!(opened.deadline(), Some(Millis(1_005)));
    for (wrong, rounds) in [(6 * 4096, 3), (6 * 4096 + 77, 3), (7 * 4096 - 1, 3), (7 * 4096, 1)] {
        let claimed = point(opened.to, Some(wrong));
        let before = point(opened.from, None);
        let opened = Dissection { before, claimed, since: Millis(0), ..opened.clone() };
        let (took, ended) = play(opened, wrong);
        let (before, claimed) = (point(wrong, None), point(wrong + 1, Some(wrong)));
        assert_eq!(ended, Ended::Narrowed(Step { number: wrong, before, claimed }));
        assert_eq!(took, rounds);
    }
}

#[test]
fn only_a_segment_and_the_one_before_it_are_opened() {
    let extent = Extent { steps: 20, segments: 10 };
    for (before, after) in [(3, 3), (3, 5), (4, 3), (10, 11), (u32::MAX, 0)] {
        let (one, other) = segments(before, after);
        let opened = Dissection::open(extent, &one, &other, Millis(0), CLOCK);
        assert_eq!(opened, Err(OpenError::NoSuccession { before, after }));
    }
}

#[test]
fn a_move_that_is_not_allowed_is_refused_and_changes_nothing() {
    let mut dissection = begun(0, 100, 40);
    let refuse = |dissection: &mut Dissection, said: Move, why| {
        let before = dissection.clone();
        assert_eq!(dissection.apply(said, Millis(500)), Err(why));
        assert_eq!(*dissection, before);
    };
    let Move::State(points) = statement(&dissection, 40) else { unreachable!() };
    refuse(&mut dissection, Move::Dispute(0), MoveError::NotYourTurn);
    let short = points[1..].to_vec();
    refuse(&mut dissection, Move::State(short), MoveError::Length { stated: 15, intervals: 16 });
    let long = [points.clone(), vec![points[15]]].concat();
    refuse(&mut dissection, Move::State(long), MoveError::Length { stated: 17, intervals: 16 });
    let mut other = points.clone();
    other[15] = point(100, None);
    refuse(&mut dissection, Move::State(other), MoveError::OtherEnd);
    dissection.apply(Move::State(points.clone()), Millis(500)).unwrap();
    refuse(&mut dissection, Move::State(points), MoveError::NotYourTurn);
    let none = MoveError::NoInterval { interval: 16, intervals: 16 };
    refuse(&mut dissection, Move::Dispute(16), none);
    dissection.tick(Millis(u64::MAX)).unwrap();
    refuse(&mut dissection, Move::Dispute(1), MoveError::Ended);
}

#[test]
fn silence_until_the_clock_runs_out_loses() {
    let mut dissection = begun(0, 100, 40);
    assert_eq!(dissection.tick(Millis(999)), None);
    let said = statement(&dissection, 40);
    assert_eq!(dissection.clone().apply(said.clone(), Millis(1_000)), Err(MoveError::Late));
    let mut silent = dissection.clone();
    assert_eq!(silent.tick(Millis(1_000)), Some(Ended::Silent(Side::Provider)));
    assert_eq!(silent.tick(Millis(9_000)), None, "it ends once");
    assert_eq!((silent.turn(), silent.deadline()), (None, None));
    dissection.apply(said, Millis(999)).unwrap();
    assert_eq!(dissection.tick(Millis(1_998)), None);
    assert_eq!(dissection.tick(Millis(1_999)), Some(Ended::Silent(Side::Challenger)));
}

#[test]
fn a_clock_runs_in_the_turns_of_its_side_alone_and_is_never_wound_up() {
    let mut dissection = begun(0, 10_000, 40);
    dissection.apply(statement(&dissection, 40), Millis(300)).unwrap();
    dissection.apply(Move::Dispute(0), Millis(900)).unwrap();
    assert_eq!((dissection.provider, dissection.challenger), (Millis(700), Millis(400)));
    assert_eq!(dissection.deadline(), Some(Millis(1_600)));
    // Block time does not go back; if it did, nobody would gain by it.
    dissection.apply(statement(&dissection, 40), Millis(100)).unwrap();
    assert_eq!((dissection.provider, dissection.since), (Millis(700), Millis(900)));
}

proptest! {
    #[test]
    fn the_one_wrong_unit_is_found_whatever_the_length(
        from in 0u64..=u64::MAX, length in 2u64.., at in any::<prop::sample::Index>(),
    ) {
        let to = from.saturating_add(length);
        prop_assume!(to - from >= 2);
        let wrong = from + at.index(usize::try_from(to - from).unwrap()) as u64;
        let (rounds, ended) = play(begun(from, to, wrong), wrong);
        let (before, claimed) = (point(wrong, None), point(wrong + 1, Some(wrong)));
        prop_assert_eq!(ended, Ended::Narrowed(Step { number: wrong, before, claimed }));
        let mut most = 1;
        let mut reach = 16u128;
        while reach < u128::from(to - from) {
            (reach, most) = (reach * 16, most + 1);
        }
        prop_assert!(rounds <= most, "{} rounds for {}", rounds, to - from);
    }

    #[test]
    fn a_challenger_that_lies_ends_at_a_step_that_is_right(
        length in 2u64..100_000, named in prop::collection::vec(any::<u8>(), 20),
    ) {
        // All points are true, and it disputes what it likes: the referee then finds what was claimed.
        let mut dissection = Dissection { claimed: point(length, None), ..begun(0, length, 0) };
        for named in named {
            let said = Move::State(dissection.ends().into_iter().map(|at| point(at, None)).collect());
            dissection.apply(said, Millis(1)).unwrap();
            let ways = u8::try_from(dissection.ends().len()).unwrap();
            if let Some(ended) = dissection.apply(Move::Dispute(named % ways), Millis(1)).unwrap() {
                let Ended::Narrowed(Step { number, before, claimed }) = ended else { panic!() };
                prop_assert_eq!((before, claimed), (point(number, None), point(number + 1, None)));
                return Ok(());
            }
        }
        prop_assert!(false, "never ended");
    }
}
