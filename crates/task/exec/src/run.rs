//! One run of a prepared program: from the input to the output, segment by segment.
//!
//! This is the whole of what a trace means, and it is the same for every back end: the child
//! process runs it, and whoever checks a segment runs [`repeat`] on the state before it.
//! The end of the output belongs to the last segment.
//!
//! A run may end after any segment, and go on from there elsewhere: nothing but the input and the state
//! is carried over. What goes on tells of the checkpoint first, for which it meters nothing, and adds to
//! the output what its own segments emit. The output of all parts together has the program's limit, so
//! no run fails or succeeds by where it was cut.

use crate::backend::{Begun, Pipe, Prepared, Span, Weighed, Work};
use crate::fault::{Fault, Grown};
use crate::program::Limits;
use crate::stop::Stop;
use opengpu_types::{ArtifactId, Checkpoint, Metered, Segment, SegmentIndex};
use opengpu_verify::point::End;
use opengpu_verify::trace::{Emitted, Extent, Part};
use std::cell::RefCell;
use std::sync::Arc;

/// Sees a run while it happens.
pub trait Observer {
    /// The run has begun and is so long.
    fn begun(&mut self, extent: Extent);
    /// Bytes of the output, in order.
    fn emitted(&mut self, bytes: &[u8]);
    /// A line that the program said while it works, which is no output.
    fn logged(&mut self, _: Pipe, _: &[u8]) {}
    /// A segment is over (the beginning is number zero), with the state after it. The first one that is
    /// told is the beginning, or the checkpoint from which the run goes on.
    fn segment(&mut self, segment: &Segment, state: &[u8]) -> Result<(), Fault>;
}

/// What a repeated segment came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The segment as found here.
    pub segment: Segment,
    /// Steps of the whole run: the beginning finds them, the others take them as given.
    pub steps: u64,
    /// The state after it.
    pub state: Vec<u8>,
    /// What it added to the output.
    pub emitted: Vec<u8>,
}

impl Repeated {
    /// Where the segment ended, as verifiers answer it; none if the bytes are not those of the segment.
    pub fn end(&self, which: &Repeat) -> Option<End> {
        let Self { segment, state, emitted, .. } = self;
        let bytes_out = u64::try_from(emitted.len()).ok()?;
        let emitted = which.emitted.then(&ArtifactId::of(emitted)).0;
        let end = End { index: which.index, state: ArtifactId::of(state), emitted, bytes_out };
        (end == End::of(segment)).then_some(end)
    }
}

/// Which part of a run is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Which segment; the beginning is zero.
    pub index: SegmentIndex,
    /// How long the run is.
    pub extent: Extent,
    /// The output before it.
    pub emitted: Emitted,
}

/// Where a run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At its beginning.
    Beginning {
        /// Segments that are wanted.
        segments: u32,
    },
    /// At a checkpoint.
    Checkpoint {
        /// Which one.
        checkpoint: Checkpoint,
        /// How long the whole run is.
        extent: Extent,
        /// The state that the checkpoint names.
        state: Vec<u8>,
    },
}

/// Runs a program from its start to a segment, or to the end. A wish to pause ends it at the checkpoint
/// before. Says which part of the run it was.
pub fn execute(
    prepared: &mut dyn Prepared,
    input: &[u8],
    start: Start,
    until: Option<SegmentIndex>,
    limits: &Limits,
    stop: &Arc<Stop>,
    observer: &mut dyn Observer,
) -> Result<Part, Fault> {
    check_input(input, limits)?;
    let Stand { extent, mut segment, mut state, mut room } = match start {
        Start::Beginning { segments } => begin(prepared, input, segments, limits, stop, observer)?,
        Start::Checkpoint { checkpoint, extent, state } => {
            go_on(&checkpoint, extent, state, limits)?
        }
    };
    let first = segment.index;
    let last = until.map_or(extent.segments, |until| until.0.min(extent.segments));
    if last < first.0 {
        let reason = format!("the run stands at segment {first}, and should end at {last}");
        return Err(Fault::Checkpoint { reason });
    }
    observer.begun(extent);
    observer.segment(&segment, &state)?;
    for index in first.0.saturating_add(1)..=last {
        stop.check()?;
        if stop.is_paused() {
            break;
        }
        let at = Repeat { index: SegmentIndex(index), extent, emitted: Emitted(segment.emitted) };
        let seen = RefCell::new(&mut *observer);
        let mut sink = |bytes: &[u8]| seen.borrow_mut().emitted(bytes);
        let mut log = |pipe, line: &[u8]| seen.borrow_mut().logged(pipe, line);
        let work = Work::new(limits, Arc::clone(stop), room, &mut sink);
        let mut work = work.logging(&mut log);
        state = prepared.advance(input, state, span(index, &extent), &mut work)?;
        (segment, room) = close(prepared, input, &state, &at, work)?;
        observer.segment(&segment, &state)?;
    }
    Ok(Part { extent, first, last: segment.index })
}

/// Where a run stands: after a segment, with the state and the room that is left for the output.
struct Stand {
    extent: Extent,
    segment: Segment,
    state: Vec<u8>,
    room: u64,
}

/// Makes the first state.
fn begin(
    prepared: &mut dyn Prepared,
    input: &[u8],
    wanted: u32,
    limits: &Limits,
    stop: &Arc<Stop>,
    observer: &mut dyn Observer,
) -> Result<Stand, Fault> {
    let mut sink = |bytes: &[u8]| observer.emitted(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), limits.output, &mut sink);
    let Begun { state, steps } = prepared.init(input, &mut work)?;
    let extent = Extent::new(steps, wanted);
    let at = Repeat { index: SegmentIndex(0), extent, emitted: Emitted::NOTHING };
    let (segment, room) = close(prepared, input, &state, &at, work)?;
    Ok(Stand { extent, segment, state, room })
}

/// Takes a state that somebody else made, if it is the one that the checkpoint names.
fn go_on(
    checkpoint: &Checkpoint,
    extent: Extent,
    state: Vec<u8>,
    limits: &Limits,
) -> Result<Stand, Fault> {
    if !(Part { first: checkpoint.index, ..Part::whole(extent) }).is_possible() {
        let Extent { steps, segments } = extent;
        return Err(Fault::checkpoint(format_args!(
            "no run of {steps} steps in {segments} segments stands at segment {}",
            checkpoint.index
        )));
    }
    let found = ArtifactId::of(&state);
    if found != checkpoint.state {
        let named = checkpoint.state;
        return Err(Fault::checkpoint(format_args!("the state is {found} and not {named}")));
    }
    let too_large = Fault::TooLarge { what: Grown::Output, limit: limits.output };
    let room = limits.output.checked_sub(checkpoint.bytes_out).ok_or(too_large)?;
    Ok(Stand { extent, segment: checkpoint.segment(), state, room })
}

/// Runs one segment again, from the state before it.
pub fn repeat(
    prepared: &mut dyn Prepared,
    input: &[u8],
    state: Vec<u8>,
    which: &Repeat,
    limits: &Limits,
    stop: &Arc<Stop>,
) -> Result<Repeated, Fault> {
    check_input(input, limits)?;
    let mut emitted = Vec::new();
    let mut sink = |bytes: &[u8]| emitted.extend_from_slice(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), limits.output, &mut sink);
    let Repeat { index, extent, .. } = which;
    let (state, steps) = if index.0 == 0 {
        let begun = prepared.init(input, &mut work)?;
        (begun.state, begun.steps)
    } else {
        (prepared.advance(input, state, span(index.0, extent), &mut work)?, extent.steps)
    };
    let (segment, _) = close(prepared, input, &state, which, work)?;
    Ok(Repeated { segment, steps, state, emitted })
}

/// Closes a segment; the last one emits the end of the output before. Says how much room is left for
/// the output.
fn close(
    prepared: &mut dyn Prepared,
    input: &[u8],
    state: &[u8],
    at: &Repeat,
    mut work: Work<'_>,
) -> Result<(Segment, u64), Fault> {
    work.check_state(state)?;
    if at.index.0 == at.extent.segments {
        prepared.finish(input, state, &mut work)?;
    }
    let (metered, added, room) = work.end();
    let emitted = at.emitted.then(&added).0;
    Ok((Segment { index: at.index, state: ArtifactId::of(state), emitted, metered }, room))
}

/// Weighs what was claimed to be the output of one segment.
pub fn weigh(
    prepared: &mut dyn Prepared,
    input: &[u8],
    claimed: &[u8],
    span: Span,
    limits: &Limits,
    stop: &Arc<Stop>,
) -> Result<(Weighed, Metered), Fault> {
    check_input(input, limits)?;
    let mut sink = |_: &[u8]| {};
    let stop = Arc::clone(stop);
    let mut work = Work::new(limits, stop, limits.output, &mut sink);
    let weighed = prepared.weigh(input, claimed, span, &mut work)?;
    work.emit(claimed)?;
    Ok((weighed, work.end().0))
}

pub(crate) fn check_input(input: &[u8], limits: &Limits) -> Result<(), Fault> {
    let length = u64::try_from(input.len()).unwrap_or(u64::MAX);
    if length > limits.input {
        let reason = format!("it has {length} bytes, at most {} are allowed", limits.input);
        return Err(Fault::Input { reason });
    }
    Ok(())
}

/// The steps of a segment: all are as long as the others, or one step longer.
pub fn span(index: u32, extent: &Extent) -> Span {
    let Extent { steps, segments } = *extent;
    let end = |index: u32| {
        // A product of 64 and 32 bits fits.
        let product = u128::from(steps).saturating_mul(u128::from(index));
        let end = product.checked_div(u128::from(segments)).unwrap_or(0);
        u64::try_from(end).unwrap_or(steps)
    };
    let first = end(index.saturating_sub(1)).saturating_add(1);
    Span { steps: first..=end(index), of: steps }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_verify::trace;
    use proptest::prelude::*;
    use std::time::Duration;

    const LIMITS: Limits =
        Limits { memory: 0, time: Duration::MAX, fuel: u64::MAX, state: 1, input: 0, output: 12 };

    /// Ten steps, each of which counts, and emits the count. The owner comes back in one of them.
    struct Counter {
        back_in: Option<u64>,
    }

    impl Prepared for Counter {
        fn init(&mut self, _: &[u8], work: &mut Work<'_>) -> Result<Begun, Fault> {
            work.emit(b"<")?;
            Ok(Begun { state: vec![0], steps: 10 })
        }

        fn advance(
            &mut self,
            _: &[u8],
            mut state: Vec<u8>,
            span: Span,
            work: &mut Work<'_>,
        ) -> Result<Vec<u8>, Fault> {
            for step in span.steps {
                if self.back_in == Some(step) {
                    work.stop.pause();
                }
                state[0] += 1;
                work.emit(&state)?;
            }
            Ok(state)
        }

        fn finish(&mut self, _: &[u8], _: &[u8], work: &mut Work<'_>) -> Result<(), Fault> {
            work.emit(b">")
        }
    }

    /// What is seen of a run.
    #[derive(Default)]
    struct Seen {
        output: Vec<u8>,
        segments: Vec<Segment>,
        state: Vec<u8>,
    }

    impl Observer for Seen {
        fn begun(&mut self, extent: Extent) {
            assert_eq!(extent, Extent { steps: 10, segments: 5 });
        }

        fn emitted(&mut self, bytes: &[u8]) {
            self.output.extend_from_slice(bytes);
        }

        fn segment(&mut self, segment: &Segment, state: &[u8]) -> Result<(), Fault> {
            self.segments.push(*segment);
            self.state = state.to_vec();
            Ok(())
        }
    }

    fn count(back_in: Option<u64>, start: Start) -> (Part, Seen) {
        let (mut seen, stop) = (Seen::default(), Arc::new(Stop::within(Duration::MAX)));
        let mut counter = Counter { back_in };
        let part = execute(&mut counter, b"", start, None, &LIMITS, &stop, &mut seen).unwrap();
        (part, seen)
    }

    #[test]
    fn a_pause_ends_a_run_with_the_segment_in_which_it_is_wished() {
        let beginning = Start::Beginning { segments: 5 };
        let (part, whole) = count(None, beginning.clone());
        assert_eq!((part.is_last(), whole.output.len()), (true, 12));
        for back_in in 1..=10u64 {
            // Two steps are a segment.
            let last = back_in.div_ceil(2);
            let (part, before) = count(Some(back_in), beginning.clone());
            assert_eq!(u64::from(part.last.0), last);
            let checkpoint = trace::checkpoint(None, &before.segments).unwrap();
            let (extent, state) = (part.extent, before.state);
            let (part, after) = count(None, Start::Checkpoint { checkpoint, extent, state });
            assert_eq!((u64::from(part.first.0), part.is_last()), (last, true));
            assert_eq!([before.output, after.output].concat(), whole.output);
            let segments = [&before.segments, &after.segments[1..]].concat();
            assert_eq!(segments, whole.segments);
        }
    }

    proptest! {
        #[test]
        fn spans_cover_every_step_once_and_none_is_empty(steps in any::<u64>(), wanted in 1u32..300) {
            let extent = Extent::new(steps, wanted);
            let segments = extent.segments;
            let mut next = 1u64;
            let (mut least, mut most) = (u64::MAX, 0);
            for index in 1..=segments {
                let span = span(index, &extent);
                prop_assert_eq!(*span.steps.start(), next);
                let length = span.steps.end() - span.steps.start() + 1;
                (least, most) = (least.min(length), most.max(length));
                next = span.steps.end().saturating_add(1);
            }
            prop_assert!(segments == 0 || (least >= 1 && most - least <= 1));
            prop_assert_eq!(next, if segments == 0 { 1 } else { steps.saturating_add(1) });
        }
    }
}
