//! The work: a small program that the referee executes, and runs of it, true and false.
//!
//! Runs are computed here without an interpreter, which [`Work::new`] holds against the referee's once. What
//! is false in a segment is the state after its last step; the next segment goes on from it.

use super::chain::Fault;
use opengpu_crypto::Digest;
use opengpu_referee::wasm::{Limits, Part as Bytes, Program};
use opengpu_types::{
    ArtifactId, Frontier, List, Metered, ProgramId, Segment, SegmentIndex, Text, Unit,
};
use opengpu_verify::{
    point::{End, Point},
    trace::Extent,
};
use std::collections::BTreeSet;

/// Segments of a run.
pub(super) const SEGMENTS: u32 = 256;
/// Steps of a segment.
const EACH: u64 = 4;
const STEPS: u64 = SEGMENTS as u64 * EACH;
const MANIFEST: &[u8] = b"name = \"squares\"";
const NAME: &str = "squares.wasm";
/// What is changed in a state that is false.
const FALSE: u64 = 1 << 40;
/// Adds the square of each step's number to the state, and emits its lowest byte.
const SQUARES: &str = r#"(module
  (memory (export "memory") 1)
  (func $told (param $place i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.const 8)))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param i32 i32) (result i64) (call $told (local.get 0)))
  (func (export "steps") (param i32 i32) (result i64) (i64.load (local.get 0)))
  (func (export "step") (param i32 i32) (param $n i64) (result i64)
    (i64.store (local.get 0)
      (i64.add (i64.load (local.get 0)) (i64.mul (local.get $n) (local.get $n))))
    (call $told (local.get 0)))
  (func (export "emitted") (result i64)
    (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const 1)))
  (func (export "finish") (param i32 i32) (result i64) (call $told (local.get 0))))"#;

/// What is run.
#[derive(Debug)]
pub(super) struct Work {
    module: Vec<u8>,
    truth: Run,
}

/// A run as its provider tells it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The state after each segment.
    states: Vec<u64>,
    pub(super) segments: Vec<Segment>,
    pub(super) faked: BTreeSet<u32>,
}

pub(super) const fn extent() -> Extent {
    Extent { steps: STEPS, segments: SEGMENTS }
}

const fn step(state: u64, number: u64) -> u64 {
    state.wrapping_add(number.wrapping_mul(number))
}

fn address(state: u64) -> ArtifactId {
    ArtifactId::of(&state.to_le_bytes())
}

fn lowest(state: u64) -> [u8; 1] {
    let [lowest, ..] = state.to_le_bytes();
    [lowest]
}

impl Work {
    /// The program, and its true run; the referee must find the same.
    pub(super) fn new() -> Result<Self, Fault> {
        let module = wat::parse_str(SQUARES).map_err(|_| Fault::Missing("module"))?;
        let truth = Run::told(BTreeSet::new());
        let found = referee(&module).ok_or(Fault::Missing("run of the referee"))?;
        let same = found == truth.states;
        same.then_some(Self { module, truth }).ok_or(Fault::Missing("agreement with the referee"))
    }

    pub(super) fn program(&self) -> ProgramId {
        ProgramId::of(MANIFEST, [(NAME, &ArtifactId::of(&self.module))])
    }

    pub(super) fn input() -> ArtifactId {
        address(STEPS)
    }

    /// A run in which these segments are false.
    pub(super) fn run(&self, faked: BTreeSet<u32>) -> Run {
        if faked.is_empty() { self.truth.clone() } else { Run::told(faked) }
    }

    /// The unit of a segment before which there are so many.
    pub(super) fn unit(&self, run: &Run, index: SegmentIndex, number: u64) -> Option<Unit> {
        let (state, point) = run.before(index, number)?;
        let (leaves, subtrees, tail) = point.added.parts();
        Some(Unit {
            manifest: List::new(MANIFEST.to_vec()).ok()?,
            name: Text::new(NAME).ok()?,
            module: List::new(self.module.clone()).ok()?,
            input: List::new(STEPS.to_le_bytes().to_vec()).ok()?,
            state: List::new(state.to_le_bytes().to_vec()).ok()?,
            added: Frontier {
                leaves,
                subtrees: List::new(subtrees.to_vec()).ok()?,
                tail: List::new(tail.to_vec()).ok()?,
            },
        })
    }
}

/// The states after each segment, by the referee's interpreter.
fn referee(module: &[u8]) -> Option<Vec<u64>> {
    let program = Program::check(module, Limits::REFEREE).ok()?;
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
    let input = STEPS.to_le_bytes();
    let mut state = program.init(&input).ok()?.bytes;
    let mut states = vec![number(&state)?];
    for step in 1..=STEPS {
        let given = program.step(&state, step, Bytes::all(&input)).ok()?;
        (given.emitted.first() == given.bytes.first()).then_some(())?;
        state = given.bytes;
        if step.is_multiple_of(EACH) {
            states.push(number(&state)?);
        }
    }
    Some(states)
}

impl Run {
    fn told(faked: BTreeSet<u32>) -> Self {
        let begin = End::beginning(address(STEPS), b"");
        let mut run = Self { states: vec![STEPS], segments: vec![leaf(begin)], faked };
        for index in (1..=SEGMENTS).map(SegmentIndex) {
            let Some((state, end)) = run.segment(index, run.faked.contains(&index.0)) else {
                break;
            };
            run.states.push(state);
            run.segments.push(leaf(end));
        }
        run
    }

    /// The segment before, and the state with which a segment begins.
    fn begins(&self, index: SegmentIndex) -> Option<(&Segment, u64)> {
        let place = usize::try_from(index.0.checked_sub(1)?).ok()?;
        Some((self.segments.get(place)?, *self.states.get(place)?))
    }

    /// What a segment leads to from where it begins.
    fn segment(&self, index: SegmentIndex, is_false: bool) -> Option<(u64, End)> {
        let (state, point) = self.after(index, EACH, is_false)?;
        let last = state.to_le_bytes();
        let finish: &[u8] = if index.0 == SEGMENTS { &last } else { &[] };
        Some((state, point.close(finish)))
    }

    /// Where a segment stands after so many of its steps.
    fn after(&self, index: SegmentIndex, steps: u64, is_false: bool) -> Option<(u64, Point)> {
        let (before, mut state) = self.begins(index)?;
        let mut point = Point::begin(before);
        let start = extent().steps_of(index)?.start;
        for number in 1..=steps.min(EACH) {
            state = step(state, start.saturating_add(number));
            if is_false && number == EACH {
                state ^= FALSE;
            }
            point = point.step(address(state), &lowest(state));
        }
        Some((state, point))
    }

    /// Where a segment stands before the unit that has so many before it in the run.
    fn before(&self, index: SegmentIndex, number: u64) -> Option<(u64, Point)> {
        let start = extent().steps_of(index)?.start;
        let own = self.faked.contains(&index.0);
        self.after(index, number.checked_sub(start)?, own)
    }

    /// The point of a segment after so many units of the run, as the provider tells it or as it is.
    pub(super) fn point(&self, index: SegmentIndex, units: u64, told: bool) -> Option<Digest> {
        let is_false = told && self.faked.contains(&index.0);
        let steps = units.checked_sub(extent().steps_of(index)?.start)?;
        if steps > EACH {
            return Some(self.segment(index, is_false)?.1.digest());
        }
        Some(self.after(index, steps, is_false)?.1.digest())
    }

    /// What whoever repeats a segment finds.
    pub(super) fn found(&self, index: SegmentIndex) -> Option<Digest> {
        if index.0 == 0 {
            return Some(End::beginning(address(STEPS), b"").found(&extent(), STEPS));
        }
        Some(self.segment(index, false)?.1.digest())
    }

    /// What the provider claims of a segment, as an answer would say it.
    pub(super) fn claimed(&self, index: SegmentIndex) -> Option<Digest> {
        if index.0 == 0 {
            return self.found(index);
        }
        let place = usize::try_from(index.0).ok()?;
        Some(End::of(self.segments.get(place)?).digest())
    }

    /// The state after a segment.
    pub(super) fn state(&self, index: SegmentIndex) -> Option<Vec<u8>> {
        let state = self.states.get(usize::try_from(index.0).ok()?)?;
        Some(state.to_le_bytes().to_vec())
    }
}

/// The leaf of a segment with this end.
fn leaf(end: End) -> Segment {
    let End { index, state, emitted, bytes_out } = end;
    let metered = Metered { fuel: 7, bytes_out, ..Metered::default() };
    Segment { index, state, emitted, metered }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_false_segment_is_false_at_its_last_step_and_nowhere_else() {
        let work = Work::new().unwrap();
        let run = work.run(BTreeSet::from([3, 4]));
        for index in (1..=6).map(SegmentIndex) {
            let is_false = run.faked.contains(&index.0);
            assert_eq!(run.found(index) != run.claimed(index), is_false, "{index:?}");
            let start = extent().steps_of(index).unwrap().start;
            let differs: Vec<u64> = (1..=EACH + 1)
                .filter(|it| {
                    run.point(index, start + it, true) != run.point(index, start + it, false)
                })
                .collect();
            assert_eq!(differs, if is_false { vec![4, 5] } else { vec![] }, "{index:?}");
        }
        let unit = work.unit(&run, SegmentIndex(3), 8 + 3).unwrap();
        assert_eq!(unit.added.tail.len(), 3);
    }
}
