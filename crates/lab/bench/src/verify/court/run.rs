//! A run that the referee can repeat, true or false, computed here without an interpreter.
//!
//! What is false is the state after the last step of every segment; the next segment goes on from it.

use opengpu_crypto::Digest;
use opengpu_types::{
    ArtifactId, Frontier, List, Metered, ProgramId, Segment, SegmentIndex, Text, Unit,
};
use opengpu_verify::{
    point::{End, Point},
    trace::Extent,
};

/// Segments of a run.
pub(super) const SEGMENTS: u32 = 256;
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

/// A run as its provider tells it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    module: Vec<u8>,
    pub(super) extent: Extent,
    is_false: bool,
    /// The state after each segment.
    states: Vec<u64>,
    pub(super) segments: Vec<Segment>,
}

const fn step(state: u64, number: u64) -> u64 {
    state.wrapping_add(number.wrapping_mul(number))
}

fn address(state: u64) -> ArtifactId {
    ArtifactId::of(&state.to_le_bytes())
}

impl Run {
    /// Of so many steps in each segment; none if the module cannot be made.
    pub(super) fn new(each: u64, is_false: bool) -> Option<Self> {
        let module = wat::parse_str(SQUARES).ok()?;
        let extent = Extent { steps: u64::from(SEGMENTS).checked_mul(each)?, segments: SEGMENTS };
        let begin = End::beginning(address(extent.steps), b"");
        let (states, segments) = (vec![extent.steps], vec![leaf(begin)]);
        let mut run = Self { module, extent, is_false, states, segments };
        for index in (1..=SEGMENTS).map(SegmentIndex) {
            let (state, end) = run.segment(index, is_false)?;
            run.states.push(state);
            run.segments.push(leaf(end));
        }
        Some(run)
    }

    pub(super) fn program(&self) -> ProgramId {
        ProgramId::of(MANIFEST, [(NAME, &ArtifactId::of(&self.module))])
    }

    pub(super) fn input(&self) -> ArtifactId {
        address(self.extent.steps)
    }

    /// What a segment leads to from where it begins.
    fn segment(&self, index: SegmentIndex, is_false: bool) -> Option<(u64, End)> {
        let steps = self.extent.steps_of(index)?;
        let (state, point) = self.after(index, steps.end, is_false)?;
        let last = state.to_le_bytes();
        let finish: &[u8] = if index.0 == SEGMENTS { &last } else { &[] };
        Some((state, point.close(finish)))
    }

    /// Where a segment stands after so many steps of the run.
    fn after(&self, index: SegmentIndex, until: u64, is_false: bool) -> Option<(u64, Point)> {
        let place = usize::try_from(index.0.checked_sub(1)?).ok()?;
        let mut state = *self.states.get(place)?;
        let mut point = Point::begin(self.segments.get(place)?);
        let steps = self.extent.steps_of(index)?;
        for done in steps.start..until {
            state = step(state, done.saturating_add(1));
            if is_false && done.saturating_add(1) == steps.end {
                state ^= FALSE;
            }
            let [lowest, ..] = state.to_le_bytes();
            point = point.step(address(state), &[lowest]);
        }
        Some((state, point))
    }

    /// The point of a segment after so many units of the run, as the provider tells it or as it is.
    pub(super) fn point(&self, index: SegmentIndex, units: u64, told: bool) -> Option<Digest> {
        let is_false = told && self.is_false;
        if units > self.extent.steps_of(index)?.end {
            return Some(self.segment(index, is_false)?.1.digest());
        }
        Some(self.after(index, units, is_false)?.1.digest())
    }

    /// What whoever repeats a segment finds.
    pub(super) fn found(&self, index: SegmentIndex) -> Option<Digest> {
        if index.0 == 0 {
            let beginning = End::beginning(address(self.extent.steps), b"");
            return Some(beginning.found(&self.extent, self.extent.steps));
        }
        Some(self.segment(index, false)?.1.digest())
    }

    /// The unit of a segment before which there are so many.
    pub(super) fn unit(&self, index: SegmentIndex, number: u64) -> Option<Unit> {
        let (state, point) = self.after(index, number, self.is_false)?;
        let (leaves, subtrees, tail) = point.added.parts();
        Some(Unit {
            manifest: List::new(MANIFEST.to_vec()).ok()?,
            name: Text::new(NAME).ok()?,
            module: List::new(self.module.clone()).ok()?,
            input: List::new(self.extent.steps.to_le_bytes().to_vec()).ok()?,
            state: List::new(state.to_le_bytes().to_vec()).ok()?,
            added: Frontier {
                leaves,
                subtrees: List::new(subtrees.to_vec()).ok()?,
                tail: List::new(tail.to_vec()).ok()?,
            },
        })
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
    use opengpu_referee::wasm::{Limits, Part, Program};

    #[test]
    fn a_true_run_is_what_the_referee_computes() {
        let run = Run::new(5, false).unwrap();
        let program = Program::check(&run.module, Limits::REFEREE).unwrap();
        let input = run.extent.steps.to_le_bytes();
        let mut state = program.init(&input).unwrap().bytes;
        for number in 1..=run.extent.steps {
            state = program.step(&state, number, Part::all(&input)).unwrap().bytes;
        }
        let last = run.states.last().unwrap().to_le_bytes();
        assert_eq!(state, last);
    }

    #[test]
    fn a_false_segment_is_false_from_its_last_step_on() {
        let run = Run::new(5, true).unwrap();
        let start = run.extent.steps_of(SegmentIndex(3)).unwrap().start;
        let differs = |unit: &u64| {
            let point = |told| run.point(SegmentIndex(3), start + unit, told);
            point(true) != point(false)
        };
        let differing: Vec<u64> = (0..=6).filter(differs).collect();
        assert_eq!(differing, [5, 6], "the last step and the closing");
    }
}
