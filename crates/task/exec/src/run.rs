//! One run of a prepared program: from the input to the output, segment by segment.
//!
//! This is the whole of what a trace means, and it is the same for every back end: the child
//! process runs it, and whoever checks a segment runs [`repeat`] on the state before it.
//! The end of the output belongs to the last segment.

use crate::backend::{Begun, Prepared, Span, Weighed, Work};
use crate::fault::Fault;
use crate::program::Limits;
use crate::stop::Stop;
use opengpu_types::{ArtifactId, Metered, Segment, SegmentIndex};
use opengpu_verify::trace::{Emitted, Extent};
use std::sync::Arc;

/// Sees a run while it happens.
pub trait Observer {
    /// The run has begun and is so long.
    fn begun(&mut self, extent: Extent);
    /// Bytes of the output, in order.
    fn emitted(&mut self, bytes: &[u8]);
    /// A segment is over (the beginning is number zero), with the state after it.
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

/// Runs a program from the beginning to the end.
pub fn execute(
    prepared: &mut dyn Prepared,
    input: &[u8],
    wanted: u32,
    limits: &Limits,
    stop: &Arc<Stop>,
    observer: &mut dyn Observer,
) -> Result<Extent, Fault> {
    check_input(input, limits)?;
    let mut sink = |bytes: &[u8]| observer.emitted(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), limits.output, &mut sink);
    let Begun { mut state, steps } = prepared.init(input, &mut work)?;
    let extent = Extent::new(steps, wanted);
    let mut at = Repeat { index: SegmentIndex(0), extent, emitted: Emitted::NOTHING };
    let (mut segment, mut room) = close(prepared, input, &state, &at, work)?;
    observer.begun(extent);
    observer.segment(&segment, &state)?;
    for index in 1..=extent.segments {
        stop.check()?;
        at = Repeat { index: SegmentIndex(index), extent, emitted: Emitted(segment.emitted) };
        let mut sink = |bytes: &[u8]| observer.emitted(bytes);
        let mut work = Work::new(limits, Arc::clone(stop), room, &mut sink);
        state = prepared.advance(input, state, span(index, &extent), &mut work)?;
        (segment, room) = close(prepared, input, &state, &at, work)?;
        observer.segment(&segment, &state)?;
    }
    Ok(extent)
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

fn check_input(input: &[u8], limits: &Limits) -> Result<(), Fault> {
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
    use proptest::prelude::*;

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
