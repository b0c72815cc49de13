//! A dispute from a committed segment to the unit that is wrong, with points of a run.
//!
//! Whatever a provider claims wrongly (a state, the output, or only the end of the segment), an honest
//! challenger ends at a unit whose repetition does not give what is claimed, and a challenger that lies
//! ends at one whose repetition does. What a meter counts changes none of it.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it fails"
)]

use opengpu_crypto::{Digest, Seed};
use opengpu_types::{ArtifactId, Metered, Millis, Segment, SegmentIndex, Step};
use opengpu_verify::{
    answer::Answer,
    dissection::{Dissection, Ended, Move},
    point::{End, Point},
    trace::Extent,
};

/// What is told wrongly: of a step, or of the end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    State,
    Output,
    Closing,
    Length,
}

/// What a step gives: its state, and what it emits; or `finish`: the end of the output.
#[derive(Clone)]
struct Given {
    bytes: Vec<u8>,
    emitted: Vec<u8>,
    fuel: u64,
}

/// A segment that is disputed: what its steps give, and what `finish` emits after them.
struct Run {
    extent: Extent,
    before: Segment,
    steps: Vec<Given>,
    finish: Given,
}

/// All points of a segment, and the segment that is committed to.
struct Told {
    points: Vec<Point>,
    segment: Segment,
}

impl Told {
    /// The digests after 0, 1, ... units.
    fn digests(&self) -> Vec<Digest> {
        let end = End::of(&self.segment).digest();
        self.points.iter().map(Point::digest).chain([end]).collect()
    }

    fn answer(&self) -> Answer {
        Answer::new(&Seed([3; 32]), &End::of(&self.segment))
    }
}

impl Run {
    /// The third of five segments of 300 steps.
    fn made_up() -> Self {
        let nothing = Given { bytes: Vec::new(), emitted: Vec::new(), fuel: 0 };
        let next = |given: &Given| {
            let bytes = ArtifactId::of(&given.bytes).0.as_ref().to_vec();
            let emitted = vec![bytes[0]; usize::from(bytes[1])];
            Some(Given { bytes, emitted, fuel: 3 })
        };
        let steps = std::iter::successors(next(&nothing), next).take(300).collect();
        let extent = Extent { steps: 1_500, segments: 5 };
        Self { extent, before: before(2, &nothing), steps, finish: nothing }
    }

    /// The second and last segment of a program that the referee's interpreter has run: 20 of 40 steps, and
    /// `finish`. A test of the referee finds the same record.
    fn recorded() -> Self {
        let record = include_str!("../../referee/tests/recorded/squares.txt");
        let mut lines: Vec<Given> = record.lines().map(read).collect();
        let finish = lines.pop().unwrap();
        let steps = lines.split_off(21);
        let before = before(1, lines.last().unwrap());
        Self { extent: Extent { steps: 40, segments: 2 }, before, steps, finish }
    }

    /// As whoever executes it tells it, with a meter, and with a lie at a step.
    fn told(&self, meter: fn(u64) -> u64, lie: Option<(Lie, usize)>) -> Told {
        let mut points = vec![Point::begin(&self.before)];
        let mut fuel = meter(self.finish.fuel);
        for (at, given) in self.steps.iter().enumerate() {
            let Given { mut bytes, mut emitted, fuel: took } = given.clone();
            match lie {
                // From there on every state is another.
                Some((Lie::State, place)) if place <= at => bytes.push(0),
                Some((Lie::Output, place)) if place == at => emitted.push(0),
                _ => {}
            }
            fuel += meter(took);
            points.push(points.last().unwrap().step(ArtifactId::of(&bytes), &emitted));
        }
        let end = points.last().unwrap().close(&self.finish.bytes);
        let End { index, state, mut emitted, mut bytes_out } = end;
        match lie {
            Some((Lie::Closing, _)) => emitted = Digest([9; 32]),
            Some((Lie::Length, _)) => bytes_out += 1,
            _ => {}
        }
        let metered = Metered { fuel, bytes_out, ..Metered::default() };
        Told { points, segment: Segment { index, state, emitted, metered } }
    }

    fn place(&self, units: u64) -> usize {
        let before = self.extent.steps_of(SegmentIndex(self.before.index.0 + 1)).unwrap().start;
        usize::try_from(units - before).unwrap()
    }

    /// Plays it out; the challenger disputes the first end that its own digests do not have.
    fn play(&self, provider: &Told, challenger: &Told) -> Step {
        let (stated, known) = (provider.digests(), challenger.digests());
        let (now, clock) = (Millis(0), Millis(1_000));
        let mut dissection =
            Dissection::open(self.extent, &self.before, &provider.segment, now, clock).unwrap();
        for _ in 0..3 {
            let ends = dissection.ends();
            let points = ends.iter().map(|end| stated[self.place(*end)]).collect();
            dissection.apply(Move::State(points), now).unwrap();
            let differs = |end: &u64| stated[self.place(*end)] != known[self.place(*end)];
            let first = u8::try_from(ends.iter().position(differs).unwrap()).unwrap();
            let ended = dissection.apply(Move::Dispute(first), now).unwrap();
            if let Some(Ended::Narrowed(step)) = ended {
                return step;
            }
        }
        panic!("three rounds are enough")
    }

    /// What a referee finds after the unit, from the point before it that both agree on.
    fn repeat(&self, provider: &Told, Step { number, before, .. }: Step) -> Digest {
        let point = &provider.points[self.place(number)];
        assert_eq!(point.digest(), before, "both agree on it");
        match self.steps.get(self.place(number)) {
            Some(Given { bytes, emitted, .. }) => {
                point.step(ArtifactId::of(bytes), emitted).digest()
            }
            None => point.close(&self.finish.bytes).digest(),
        }
    }
}

/// The segment before, which gave this.
fn before(index: u32, given: &Given) -> Segment {
    let (index, state) = (SegmentIndex(index), ArtifactId::of(&given.bytes));
    Segment { index, state, emitted: Digest([7; 32]), metered: Metered::default() }
}

/// A line of a record: bytes that were given, what was emitted as a byte and how often, fuel.
fn read(line: &str) -> Given {
    let words: Vec<&str> = line.split(' ').collect();
    let [bytes, byte, count, fuel] = words.try_into().unwrap();
    let octet = |hex: &str| u8::from_str_radix(hex, 16).unwrap();
    let bytes = (0..bytes.len()).step_by(2).map(|at| octet(&bytes[at..at + 2])).collect();
    let emitted = vec![octet(byte); count.parse().unwrap()];
    Given { bytes, emitted, fuel: fuel.parse().unwrap() }
}

fn interpreter(fuel: u64) -> u64 {
    fuel
}

/// What a compiler counts of the same work is another number.
fn compiler(fuel: u64) -> u64 {
    fuel / 3 + 1
}

#[test]
fn whatever_is_claimed_wrongly_ends_at_the_unit_that_is_wrong() {
    for run in [Run::made_up(), Run::recorded()] {
        let (honest, steps) = (run.told(interpreter, None), run.steps.len());
        for lie in [Lie::State, Lie::Output] {
            for at in [0, 1, 18, steps / 2, steps - 1] {
                let liar = run.told(compiler, Some((lie, at)));
                let step = run.play(&liar, &honest);
                assert_eq!(run.place(step.number), at, "{lie:?}");
                assert_ne!(run.repeat(&liar, step), step.claimed, "{lie:?} at {at}");
            }
        }
        for lie in [Lie::Closing, Lie::Length] {
            let liar = run.told(compiler, Some((lie, 0)));
            let step = run.play(&liar, &honest);
            assert_eq!(run.place(step.number), steps);
            assert_ne!(run.repeat(&liar, step), step.claimed, "{lie:?}");
        }
    }
}

#[test]
fn a_challenger_that_lies_ends_at_a_unit_that_is_right() {
    for run in [Run::made_up(), Run::recorded()] {
        let honest = run.told(compiler, None);
        for lie in [Lie::State, Lie::Output, Lie::Closing, Lie::Length] {
            let step = run.play(&honest, &run.told(interpreter, Some((lie, 17))));
            assert_eq!(run.repeat(&honest, step), step.claimed, "{lie:?}");
        }
    }
}

#[test]
fn two_meters_find_the_same_points_and_the_same_answer() {
    let run = Run::recorded();
    let (provider, referee) = (run.told(compiler, None), run.told(interpreter, None));
    assert_ne!(provider.segment, referee.segment, "a leaf keeps what was metered");
    assert_eq!(provider.digests(), referee.digests());
    assert_eq!(provider.answer(), referee.answer());
    let liar = run.told(compiler, Some((Lie::State, 5)));
    assert_ne!(liar.answer(), referee.answer());
}
