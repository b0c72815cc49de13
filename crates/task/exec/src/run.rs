//! One run of a prepared program: from the input to the output, segment by segment.
//!
//! This is the whole of what a trace means, and it is the same for every back end: the child
//! process runs it, and whoever checks a segment runs [`repeat`] on the state before it.

use crate::backend::{Prepared, Span, Weighed, Work};
use crate::fault::Fault;
use crate::program::Limits;
use crate::stop::Stop;
use opengpu_types::{ArtifactId, Metered, Segment, SegmentIndex};
use opengpu_verify::trace::Emitted;
use std::sync::Arc;

/// Sees a run while it happens.
pub trait Observer {
    /// The run has begun and has this many segments.
    fn begun(&mut self, segments: u32);
    /// Bytes of the output, in order.
    fn emitted(&mut self, bytes: &[u8]);
    /// A segment is over (the beginning is number zero), with the state after it.
    fn segment(&mut self, segment: &Segment, state: &[u8]) -> Result<(), Fault>;
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Steps that it took.
    pub steps: u64,
    /// The chain of the whole output.
    pub output: Emitted,
    /// What the end of the output took.
    pub metered: Metered,
}

/// What a repeated segment came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The segment as found here.
    pub segment: Segment,
    /// The state after it.
    pub state: Vec<u8>,
    /// What it added to the output.
    pub emitted: Vec<u8>,
}

/// Runs a program from the beginning to the end.
pub fn execute(
    prepared: &mut dyn Prepared,
    input: &[u8],
    wanted: u32,
    limits: &Limits,
    stop: &Arc<Stop>,
    observer: &mut dyn Observer,
) -> Result<Finished, Fault> {
    check_input(input, limits)?;
    let mut room = limits.output;
    let mut emitted = Emitted::NOTHING;
    let mut sink = |bytes: &[u8]| observer.emitted(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), emitted, room, &mut sink);
    let begun = prepared.init(input, &mut work)?;
    work.check_state(&begun.state)?;
    let mut metered;
    (metered, emitted, room) = work.end();
    let (mut state, steps) = (begun.state, begun.steps);
    let segments = segments(steps, wanted);
    observer.begun(segments);
    observer.segment(&segment(0, &state, emitted, metered), &state)?;
    for index in 1..=segments {
        stop.check()?;
        let mut sink = |bytes: &[u8]| observer.emitted(bytes);
        let mut work = Work::new(limits, Arc::clone(stop), emitted, room, &mut sink);
        state = prepared.advance(input, state, span(index, segments, steps), &mut work)?;
        work.check_state(&state)?;
        (metered, emitted, room) = work.end();
        observer.segment(&segment(index, &state, emitted, metered), &state)?;
    }
    let mut sink = |bytes: &[u8]| observer.emitted(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), emitted, room, &mut sink);
    prepared.finish(input, &state, &mut work)?;
    let (metered, output, _) = work.end();
    Ok(Finished { steps, output, metered })
}

/// Which part of a run is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Which segment; the beginning is zero.
    pub index: SegmentIndex,
    /// Segments of the run.
    pub segments: u32,
    /// Steps of the run.
    pub steps: u64,
    /// The output before it.
    pub emitted: Emitted,
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
    let mut output = Vec::new();
    let mut sink = |bytes: &[u8]| output.extend_from_slice(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), which.emitted, limits.output, &mut sink);
    let index = which.index.0;
    let state = if index == 0 {
        prepared.init(input, &mut work)?.state
    } else {
        let span = span(index, which.segments, which.steps);
        prepared.advance(input, state, span, &mut work)?
    };
    work.check_state(&state)?;
    let (metered, emitted, _) = work.end();
    let segment = segment(index, &state, emitted, metered);
    Ok(Repeated { segment, state, emitted: output })
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
    let mut work = Work::new(limits, stop, Emitted::NOTHING, limits.output, &mut sink);
    let weighed = prepared.weigh(input, claimed, span, &mut work)?;
    work.emit(claimed)?;
    Ok((weighed, work.end().0))
}

fn check_input(input: &[u8], limits: &Limits) -> Result<(), Fault> {
    let length = u64::try_from(input.len()).unwrap_or(u64::MAX);
    if length > limits.input {
        let reason = format!("it has {length} bytes, at most {} are allowed", limits.input);
        return Err(Fault::Input { reason });
    }
    Ok(())
}

fn segment(index: u32, state: &[u8], emitted: Emitted, metered: Metered) -> Segment {
    let state = ArtifactId::of(state);
    Segment { index: SegmentIndex(index), state, emitted: emitted.0, metered }
}

/// How many segments a run of so many steps has: as many as wanted, but none is empty.
pub fn segments(steps: u64, wanted: u32) -> u32 {
    u32::try_from(steps).unwrap_or(u32::MAX).min(wanted)
}

/// The steps of a segment: all are as long as the others, or one step longer.
pub fn span(index: u32, segments: u32, steps: u64) -> Span {
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_cover_every_step_once_and_none_is_empty(steps in any::<u64>(), wanted in 1u32..300) {
            let segments = segments(steps, wanted);
            let mut next = 1u64;
            let (mut least, mut most) = (u64::MAX, 0);
            for index in 1..=segments {
                let span = span(index, segments, steps);
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
