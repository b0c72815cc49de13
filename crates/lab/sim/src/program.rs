//! The program of the laboratory: so small that its runs are computed here, and a real module, so that the
//! referee executes what is disputed of it.
//!
//! ```text
//!   input = state 0 ──[4 steps]──► state 1 ──[4 steps]──► ... ──► state n
//! ```
//!
//! A state is the number of steps and a sum; each step adds the square of its number to the sum and emits
//! the lowest byte of it. A run may go on from a checkpoint, which takes its state and nothing else. What is
//! false in a run is the sum after the last step of one segment, and whatever follows goes on from it.

use crate::dice::Dice;
use opengpu_crypto::{Digest, hash};
use opengpu_types::{
    ArtifactId, Checkpoint, Class, Frontier, List, Metered, ProgramId, Segment, SegmentIndex, Spec,
    Text, Unit,
};
use opengpu_verify::{
    point::{End, Point},
    trace::{Extent, checkpoint},
};

/// Steps of a segment.
const EACH: u64 = 4;
/// Different inputs of the same length.
const INPUTS: u64 = 16;
const MANIFEST: &[u8] = b"name = \"sums\"";
const NAME: &str = "sums.wasm";
/// What is changed in a sum that is false.
const FALSE: u64 = 1 << 40;

const MODULE: &str = r#"(module
  (memory (export "memory") 1)
  (func $told (param $place i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $place)) (i64.const 32)) (i64.const 16)))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param i32 i32) (result i64) (call $told (local.get 0)))
  (func (export "steps") (param i32 i32) (result i64) (i64.load (local.get 0)))
  (func (export "step") (param i32 i32) (param $n i64) (result i64)
    (i64.store offset=8 (local.get 0)
      (i64.add (i64.load offset=8 (local.get 0)) (i64.mul (local.get $n) (local.get $n))))
    (call $told (local.get 0)))
  (func (export "emitted") (result i64)
    (i64.or (i64.shl (i64.const 1032) (i64.const 32)) (i64.const 1)))
  (func (export "finish") (param i32 i32) (result i64) (call $told (local.get 0))))"#;

/// The module.
pub(crate) fn module() -> Vec<u8> {
    wat::parse_str(MODULE).expect("the program is a module")
}

/// The program with this module.
pub(crate) fn program(module: &[u8]) -> ProgramId {
    ProgramId::of(MANIFEST, [(NAME, &ArtifactId::of(module))])
}

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// How many steps the run has.
    steps: u64,
    sum: u64,
}

impl State {
    /// An input of a run of so many segments.
    pub(crate) const fn input(segments: u32, kind: u64) -> Self {
        Self { steps: (segments as u64).wrapping_mul(EACH), sum: kind }
    }

    /// The input of a task of this program.
    pub(crate) fn given(spec: &Spec) -> Option<Self> {
        let mut inputs = (0..INPUTS).map(|kind| Self::input(spec.segments, kind));
        inputs.find(|input| input.address() == spec.input)
    }

    /// What whoever goes on from a state finds that nobody has: anything.
    pub(crate) fn made_up(segments: u32, address: &ArtifactId) -> Self {
        let [kind, ..] = hash("made-up", &[address.0.as_ref()]).0;
        Self::input(segments, u64::from(kind))
    }

    /// How many steps the run has.
    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }

    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (to, from) in bytes.chunks_mut(8).zip([self.steps, self.sum]) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn address(&self) -> ArtifactId {
        ArtifactId::of(&self.bytes())
    }

    /// How long the run is from such an input, in so many segments.
    pub(crate) fn extent(&self, segments: u32) -> Extent {
        Extent::new(self.steps, segments)
    }

    const fn step(self, number: u64) -> Self {
        Self { sum: self.sum.wrapping_add(number.wrapping_mul(number)), ..self }
    }

    const fn lowest(self) -> [u8; 1] {
        let [lowest, ..] = self.sum.to_le_bytes();
        [lowest]
    }
}

/// Where a run stands, with the state from which anybody goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) state: State,
    /// None at the beginning.
    pub(crate) at: Option<Checkpoint>,
}

impl Place {
    /// Before the first segment.
    pub(crate) const fn begin(input: State) -> Self {
        Self { state: input, at: None }
    }

    /// After how many segments it is.
    pub(crate) fn segment(&self) -> u32 {
        self.at.map_or(0, |at| at.index.0)
    }

    /// What honest work leads to from here: the segments until that one.
    pub(crate) fn go_on(&self, extent: Extent, until: u32) -> Self {
        let run = Run::told(extent, *self, until, 0);
        let state = run.states.last().copied().unwrap_or(self.state);
        Self { state, at: run.reached() }
    }
}

/// A run as its provider tells it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    extent: Extent,
    from: Option<Checkpoint>,
    /// The state after each segment, the one with which it begins first.
    states: Vec<State>,
    segments: Vec<Segment>,
    /// The segment that is false; zero if none is.
    faked: u32,
}

impl Run {
    /// The part of a run from a place until after a segment.
    pub(crate) fn told(extent: Extent, from: Place, until: u32, faked: u32) -> Self {
        let begin = match &from.at {
            Some(at) => at.segment(),
            None => leaf(End::beginning(from.state.address(), b"")),
        };
        let first = begin.index.0;
        let (states, segments) = (vec![from.state], vec![begin]);
        let mut run = Self { extent, from: from.at, states, segments, faked };
        for index in (first.saturating_add(1)..=until).map(SegmentIndex) {
            let Some((state, end)) = run.led_to(index, run.faked == index.0) else { break };
            run.states.push(state);
            run.segments.push(leaf(end));
        }
        run
    }

    /// Its leaves.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Where it ends.
    pub(crate) fn reached(&self) -> Option<Checkpoint> {
        checkpoint(self.from.as_ref(), &self.segments)
    }

    fn place(&self, index: SegmentIndex) -> Option<usize> {
        let first = self.segments.first()?.index.0;
        usize::try_from(index.0.checked_sub(first)?).ok()
    }

    /// The state after a segment.
    pub(crate) fn state(&self, index: SegmentIndex) -> Option<State> {
        self.states.get(self.place(index)?).copied()
    }

    /// The bytes of the state after a segment.
    pub(crate) fn bytes(&self, index: SegmentIndex) -> Option<Vec<u8>> {
        Some(self.state(index)?.bytes().to_vec())
    }

    /// Where a segment stands after so many of its steps.
    fn after(&self, index: SegmentIndex, steps: u64, is_false: bool) -> Option<(State, Point)> {
        let before = index.0.checked_sub(1).map(SegmentIndex)?;
        let mut state = self.state(before)?;
        let mut point = Point::begin(self.segments.get(self.place(before)?)?);
        let range = self.extent.steps_of(index)?;
        let length = range.end.saturating_sub(range.start);
        for number in 1..=steps.min(length) {
            state = state.step(range.start.saturating_add(number));
            if is_false && number == length {
                state.sum ^= FALSE;
            }
            point = point.step(state.address(), &state.lowest());
        }
        Some((state, point))
    }

    /// What a segment leads to from where it begins.
    fn led_to(&self, index: SegmentIndex, is_false: bool) -> Option<(State, End)> {
        let (state, point) = self.after(index, u64::MAX, is_false)?;
        let last = state.bytes();
        let finish: &[u8] = if index.0 == self.extent.segments { &last } else { &[] };
        Some((state, point.close(finish)))
    }

    /// The point of a segment after so many units of the run, as the provider tells it or as it is.
    pub(crate) fn point(&self, index: SegmentIndex, units: u64, told: bool) -> Option<Digest> {
        let is_false = told && self.faked == index.0;
        let range = self.extent.steps_of(index)?;
        if units > range.end {
            return Some(self.led_to(index, is_false)?.1.digest());
        }
        let steps = units.checked_sub(range.start)?;
        Some(self.after(index, steps, is_false)?.1.digest())
    }

    /// What whoever repeats a segment finds.
    pub(crate) fn found(&self, index: SegmentIndex) -> Option<Digest> {
        if index.0 == 0 {
            let input = self.state(index)?;
            return Some(End::beginning(input.address(), b"").found(&self.extent, input.steps));
        }
        Some(self.led_to(index, false)?.1.digest())
    }

    /// What the provider claims of a segment.
    pub(crate) fn claimed(&self, index: SegmentIndex) -> Option<Digest> {
        Some(End::of(self.segments.get(self.place(index)?)?).digest())
    }

    /// The unit of a segment before which there are so many in the run; at the beginning there is but one.
    pub(crate) fn unit(
        &self,
        (module, input): (&[u8], &State),
        index: SegmentIndex,
        number: u64,
    ) -> Option<Unit> {
        let shown = |state: &[u8], added: Frontier| {
            Some(Unit {
                manifest: List::new(MANIFEST.to_vec()).ok()?,
                name: Text::new(NAME).ok()?,
                module: List::new(module.to_vec()).ok()?,
                input: List::new(input.bytes().to_vec()).ok()?,
                state: List::new(state.to_vec()).ok()?,
                added,
            })
        };
        if index.0 == 0 {
            return shown(b"", Frontier::default());
        }
        let steps = number.checked_sub(self.extent.steps_of(index)?.start)?;
        let (state, point) = self.after(index, steps, self.faked == index.0)?;
        let (leaves, subtrees, tail) = point.added.parts();
        let (subtrees, tail) = (List::new(subtrees.to_vec()).ok()?, List::new(tail.to_vec()).ok()?);
        shown(&state.bytes(), Frontier { leaves, subtrees, tail })
    }
}

/// The leaf of a segment with this end.
fn leaf(end: End) -> Segment {
    let End { index, state, emitted, bytes_out } = end;
    let metered = Metered { fuel: 7, bytes_out, ..Metered::default() };
    Segment { index, state, emitted, metered }
}

/// Has a task run this program, on one of its inputs, if it is of a kind that can be run again.
pub(crate) fn ask(spec: &mut Spec, program: ProgramId, dice: &mut Dice) {
    if spec.class == Class::Exact {
        spec.program = program;
        spec.input = State::input(spec.segments, dice.below(INPUTS)).address();
    }
}

/// What honest work of a task leads to, without any disturbance; none if it is not of this program.
pub(crate) fn undisturbed(spec: &Spec) -> Option<Checkpoint> {
    let input = State::given(spec).filter(|_| spec.class == Class::Exact)?;
    Place::begin(input).go_on(input.extent(spec.segments), spec.segments).at
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_referee::wasm::{Limits, Part, Program};

    const SEGMENTS: u32 = 5;

    fn input() -> State {
        State::input(SEGMENTS, 3)
    }

    fn whole(faked: u32) -> Run {
        Run::told(input().extent(SEGMENTS), Place::begin(input()), SEGMENTS, faked)
    }

    #[test]
    fn the_referee_comes_to_every_state_that_is_told() {
        let module = module();
        let program = Program::check(&module, Limits::REFEREE).unwrap();
        let given = input().bytes();
        let mut state = program.init(&given).unwrap().bytes;
        assert_eq!(program.steps(&state).unwrap().0, u64::from(SEGMENTS) * EACH);
        let (run, mut emitted) = (whole(0), Vec::new());
        for index in 0..=SEGMENTS {
            assert_eq!(run.bytes(SegmentIndex(index)), Some(state.clone()), "segment {index}");
            for step in 1..=EACH {
                let number = u64::from(index) * EACH + step;
                let next = program.step(&state, number, Part::all(&given)).unwrap();
                assert_eq!(next.emitted, next.bytes[8..9]);
                (state, emitted) = (next.bytes, [emitted, next.emitted].concat());
            }
        }
        let last = run.state(SegmentIndex(SEGMENTS)).unwrap().bytes();
        assert_eq!(program.finish(&last).unwrap().bytes, last);
        assert_eq!(run.reached().unwrap().bytes_out, u64::from(SEGMENTS) * EACH + 16);
    }

    #[test]
    fn whoever_goes_on_from_a_checkpoint_comes_to_the_same_end_and_from_another_state_to_another() {
        let (extent, begin) = (input().extent(SEGMENTS), Place::begin(input()));
        let end = begin.go_on(extent, SEGMENTS);
        for cut in 0..=SEGMENTS {
            assert_eq!(begin.go_on(extent, cut).go_on(extent, SEGMENTS), end, "cut at {cut}");
        }
        let mut other = begin.go_on(extent, 2);
        other.state.sum += 1;
        assert_ne!(other.go_on(extent, SEGMENTS).at, end.at);
        let elsewhere = Place { at: begin.go_on(extent, 1).at, ..begin.go_on(extent, 2) };
        assert_ne!(elsewhere.go_on(extent, SEGMENTS).at, end.at);
    }

    #[test]
    fn a_false_segment_is_false_at_its_last_step_and_nowhere_else() {
        let run = whole(3);
        for index in (1..=SEGMENTS).map(SegmentIndex) {
            let is_false = index.0 == 3;
            assert_eq!(run.found(index) != run.claimed(index), is_false, "{index}");
            let start = run.extent.steps_of(index).unwrap().start;
            let differs: Vec<u64> = (1..=EACH + 1)
                .filter(|it| {
                    run.point(index, start + it, true) != run.point(index, start + it, false)
                })
                .collect();
            assert_eq!(differs, if is_false { vec![EACH, EACH + 1] } else { vec![] }, "{index}");
        }
    }

    #[test]
    fn whoever_tells_another_length_claims_another_beginning() {
        let longer = Extent { steps: input().steps + 1, segments: SEGMENTS };
        let run = Run::told(longer, Place::begin(input()), SEGMENTS, 0);
        let begin = SegmentIndex(0);
        assert_ne!(run.found(begin), run.claimed(begin));
        assert_eq!(whole(0).found(begin), whole(0).claimed(begin));
    }
}
