//! A dispute from a committed segment to the unit that is wrong, with points of a run.
//!
//! Whatever a provider claims wrongly (a state, the output, fuel, or only the segment itself), an honest
//! challenger ends at a unit whose repetition does not give what is claimed, and a challenger that lies
//! ends at one whose repetition does.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it fails"
)]

use opengpu_crypto::Digest;
use opengpu_types::{ArtifactId, Metered, Millis, Segment, SegmentIndex};
use opengpu_verify::{
    dissection::{Dissection, Ended, Move, Step},
    point::Point,
    trace::Extent,
};

/// Five segments of 300 steps; the third is disputed.
const EXTENT: Extent = Extent { steps: 1_500, segments: 5 };
const FIRST: u64 = 600;
const STEPS: usize = 300;

/// What of a step is told wrongly.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    State,
    Output,
    Fuel,
    Closing,
}

fn before() -> Segment {
    let (index, state) = (SegmentIndex(2), ArtifactId::of(b"state"));
    Segment { index, state, emitted: Digest([7; 32]), metered: Metered::default() }
}

/// The rule of the run: what a step makes of a point.
fn step(point: &Point, lie: Option<Lie>) -> Point {
    let mut state = ArtifactId::of(point.state.0.as_ref());
    let mut output = vec![state.0.as_ref()[0]; usize::from(state.0.as_ref()[1])];
    let mut took = Metered { fuel: 3, ..Metered::default() };
    match lie {
        Some(Lie::State) => state = ArtifactId::of(b"invented"),
        Some(Lie::Output) => output.push(0),
        Some(Lie::Fuel) => took.fuel += 1,
        Some(Lie::Closing) | None => {}
    }
    point.step(state, &output, &took).unwrap()
}

/// All points of the segment, and the segment, as told by whoever lies at a step.
fn told(lie: Option<(Lie, usize)>) -> (Vec<Point>, Segment) {
    let mut points = vec![Point::begin(&before())];
    for at in 0..STEPS {
        let here = lie.filter(|(_, place)| *place == at).map(|(lie, _)| lie);
        points.push(step(points.last().unwrap(), here));
    }
    let mut segment = points.last().unwrap().close();
    if lie.is_some_and(|(lie, _)| lie == Lie::Closing) {
        segment.emitted = Digest([9; 32]);
    }
    (points, segment)
}

/// The digests after 0, 1, ... units.
fn digests((points, segment): &(Vec<Point>, Segment)) -> Vec<Digest> {
    points.iter().map(Point::digest).chain([Point::end(segment)]).collect()
}

fn place(units: u64) -> usize {
    usize::try_from(units - FIRST).unwrap()
}

/// Plays it out; the challenger disputes the first end that its own digests do not have.
fn play(provider: &(Vec<Point>, Segment), challenger: &[Digest]) -> Step {
    let stated = digests(provider);
    let (now, clock) = (Millis(0), Millis(1_000));
    let mut dissection = Dissection::open(EXTENT, &before(), &provider.1, now, clock).unwrap();
    for _ in 0..3 {
        let ends = dissection.ends();
        let points = ends.iter().map(|end| stated[place(*end)]).collect();
        dissection.apply(Move::State(points), now).unwrap();
        let differs = |end: &u64| stated[place(*end)] != challenger[place(*end)];
        let first = u8::try_from(ends.iter().position(differs).unwrap()).unwrap();
        if let Some(Ended::Narrowed(step)) = dissection.apply(Move::Dispute(first), now).unwrap() {
            return step;
        }
    }
    panic!("three rounds are enough")
}

/// What a referee finds after the unit, from the point before it that both agree on.
fn repeat(points: &[Point], Step { number, before, .. }: Step) -> Digest {
    let point = &points[place(number)];
    assert_eq!(point.digest(), before, "both agree on it");
    if place(number) == STEPS { Point::end(&point.close()) } else { step(point, None).digest() }
}

#[test]
fn whatever_is_claimed_wrongly_ends_at_the_unit_that_is_wrong() {
    let honest = told(None);
    for lie in [Lie::State, Lie::Output, Lie::Fuel] {
        for at in [0, 1, 18, 150, STEPS - 1] {
            let liar = told(Some((lie, at)));
            let step = play(&liar, &digests(&honest));
            assert_eq!(place(step.number), at, "{lie:?}");
            assert_ne!(repeat(&liar.0, step), step.claimed, "{lie:?} at {at}");
        }
    }
    let liar = told(Some((Lie::Closing, 0)));
    let step = play(&liar, &digests(&honest));
    assert_eq!(place(step.number), STEPS);
    assert_ne!(repeat(&liar.0, step), step.claimed);
}

#[test]
fn a_challenger_that_lies_ends_at_a_unit_that_is_right() {
    let honest = told(None);
    for lie in [Lie::State, Lie::Output, Lie::Fuel, Lie::Closing] {
        let step = play(&honest, &digests(&told(Some((lie, 77)))));
        assert_eq!(repeat(&honest.0, step), step.claimed, "{lie:?}");
    }
}
