//! What an executor tells of a run, held against what was asked of it.
//!
//! An executor may have been taken over by what it runs. So the part of the run that it tells of must be
//! the one that was asked for, from the first segment on; it ends early only if somebody wished so; and
//! segments, output and usage must fit together. Whether the work was done is not seen here: that is what
//! the trace is for.

use super::ticket::Outcome;
use crate::protocol::{News, Standing};
use crate::usage::Usage;
use opengpu_types::{Checkpoint, Segment, SegmentIndex};
use opengpu_verify::trace::{self, Extent, Part};

/// What was asked of an executor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Segments that are wanted, if it begins.
    segments: u32,
    /// Where it goes on, in a run of this length.
    from: Option<(Checkpoint, Extent)>,
    /// The segment after which it ends.
    until: Option<SegmentIndex>,
}

impl Asked {
    pub(super) fn new(segments: u32, from: Option<&Standing>, until: Option<SegmentIndex>) -> Self {
        let from = from.map(|standing| (standing.checkpoint, standing.extent));
        Self { segments, from, until }
    }

    /// Bytes of the output before.
    pub(super) fn emitted_before(&self) -> u64 {
        self.from.map_or(0, |(checkpoint, _)| checkpoint.bytes_out)
    }

    /// The part of a run of this length, if the run can be so long.
    fn part(&self, found: Extent) -> Option<Part> {
        let (first, extent) = match self.from {
            Some((checkpoint, extent)) => (checkpoint.index, extent),
            None => (SegmentIndex(0), Extent::new(found.steps, self.segments)),
        };
        let end = SegmentIndex(extent.segments);
        let last = self.until.map_or(end, |until| until.min(end));
        (found == extent).then_some(Part { extent, first, last }).filter(Part::is_possible)
    }
}

/// What was told so far.
#[derive(Debug)]
pub(super) struct Told {
    asked: Asked,
    part: Option<Part>,
    segments: Vec<Segment>,
    output: Vec<u8>,
}

impl Told {
    pub(super) const fn new(asked: Asked) -> Self {
        Self { asked, part: None, segments: Vec::new(), output: Vec::new() }
    }

    /// Takes news of a run on its way, or says what is wrong with them.
    pub(super) fn hear(&mut self, news: &News) -> Result<(), &'static str> {
        match news {
            News::Begun { steps, segments } => {
                self.begun(Extent { steps: *steps, segments: *segments })
            }
            News::Segment(segment) => self.segment(*segment),
            News::Emitted(bytes) => {
                self.output.extend_from_slice(bytes);
                Ok(())
            }
            News::Logged(_)
            | News::Finished { .. }
            | News::Repeated { .. }
            | News::Weighed { .. }
            | News::Looked { .. }
            | News::Failed { .. } => Ok(()),
            News::Stands { .. } => Err("it told of a look that nobody asked for"),
        }
    }

    /// The run is so long.
    fn begun(&mut self, extent: Extent) -> Result<(), &'static str> {
        if self.part.is_some() {
            return Err("it began twice");
        }
        self.part = self.asked.part(extent);
        self.part.map(drop).ok_or("it told of another run than was asked for")
    }

    /// The next segment is over.
    fn segment(&mut self, segment: Segment) -> Result<(), &'static str> {
        let part = self.part.ok_or("it told of a segment before it began")?;
        let place = u32::try_from(self.segments.len()).ok();
        if part.place(segment.index) != place {
            return Err("it told of other segments than were asked for");
        }
        let given = self.asked.from.filter(|_| self.segments.is_empty());
        if given.is_some_and(|(checkpoint, _)| checkpoint.segment() != segment) {
            return Err("it does not go on from the checkpoint that it was given");
        }
        self.segments.push(segment);
        Ok(())
    }

    /// It ended well. A run that was paused may have ended early.
    pub(super) fn finished(self, usage: Usage, paused: bool) -> Result<Outcome, &'static str> {
        let Self { asked, part, segments, output } = self;
        let from = asked.from.map(|(checkpoint, _)| checkpoint);
        let (part, end) = part.zip(segments.last()).ok_or("it ended before it began")?;
        if end.index != part.last && !paused {
            return Err("it ended before the segment that was asked for");
        }
        if !usage.fits(&segments) {
            return Err("its usage is not that of its segments");
        }
        if trace::added(from.as_ref(), &segments, &output).is_none() {
            return Err("the output does not match its segments");
        }
        Ok(Outcome { output, part: Part { last: end.index, ..part }, from, segments, usage })
    }
}
