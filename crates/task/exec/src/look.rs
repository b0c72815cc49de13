//! A look into one segment: where it stands between two of its units, for audits and dissections.
//!
//! ```text
//!   state before ──► unit ──► unit ── ... ──► closing        the executor tells states and output,
//!                 └─ point ┘└─ point ┘      └─ end           its supervisor makes the points
//! ```
//!
//! The units of a segment are its steps and, as the last one, its closing (docs/spec/proof-of-sync.md). They
//! are counted as a dissection does it: by the number of units of the run before them.
//!
//! - Nothing of the leaf of the segment itself is needed: who looks has the leaf before, the state that it
//!   names, the program and the input.
//! - A unit that fails ends the look: there is no point after it, whoever repeats it.
//! - Only programs of kind `wasm` in class `exact` are looked into: of others no referee repeats a unit.
//! - The beginning has no units: whoever checks it repeats it as a whole ([`crate::Supervisor::repeat`]).

use crate::backend::{Prepared, Span, Work};
use crate::fault::{Fault, Grown};
use crate::program::Limits;
use crate::run::check_input;
use crate::stop::Stop;
use opengpu_crypto::{ContentFrontier, Digest};
use opengpu_referee::wasm::Limits as Referee;
use opengpu_types::{ArtifactId, Segment, SegmentIndex};
use opengpu_verify::point::{End, Point};
use opengpu_verify::trace::Extent;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// Points of one look, at most.
pub const MOST_POINTS: usize = 1 << 16;

/// Which segment is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The leaf of the segment before it.
    pub before: Segment,
    /// How long the run is.
    pub extent: Extent,
}

impl Inside {
    /// Its number; none if no segment of the run follows.
    pub fn index(&self) -> Option<SegmentIndex> {
        self.units().map(|_| SegmentIndex(self.before.index.0.saturating_add(1)))
    }

    /// Its units, each as the number of units before it; the last one is the closing. None if no segment
    /// of the run follows the one before.
    pub fn units(&self) -> Option<Range<u64>> {
        let index = SegmentIndex(self.before.index.0.checked_add(1)?);
        let Range { start, end } =
            self.extent.steps_of(index).filter(|_| self.extent.is_possible())?;
        Some(start..end.checked_add(1)?)
    }
}

/// What is wanted of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// The points after so many units, in ascending sequence.
    Points(Vec<u64>),
    /// What a referee needs for this unit.
    Unit(u64),
}

impl Wanted {
    /// The units that are run for it; none if they are not units of the segment.
    fn within(&self, units: &Range<u64>) -> Option<Range<u64>> {
        let end = match self {
            Self::Points(ends) => {
                let rising = ends.windows(2).all(|pair| pair.first() < pair.last());
                let few = ends.len() <= MOST_POINTS;
                ends.first().filter(|first| rising && few && **first > units.start)?;
                *ends.last()?
            }
            Self::Unit(unit) => unit.checked_add(1).filter(|_| *unit >= units.start)?,
        };
        (end <= units.end).then_some(units.start..end)
    }

    /// Whether it is told where the segment stands after a unit that makes it so many.
    fn tells(&self, units: u64) -> bool {
        match self {
            Self::Points(ends) => ends.binary_search(&units).is_ok(),
            Self::Unit(unit) => Some(units) == unit.checked_add(1),
        }
    }
}

/// Points of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    /// What is stated of them, in sequence: as many as were wanted, or until the unit that failed. The
    /// digest after the closing is that of the end.
    pub digests: Vec<Digest>,
    /// The end of the segment, if it was wanted and reached.
    pub end: Option<End>,
    /// The unit that failed, if one did.
    pub failed: Option<(u64, Fault)>,
}

/// One unit, as a challenger shows it to the referee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Units of the run before it.
    pub number: u64,
    /// Where the segment stands before it.
    pub before: Point,
    /// The state before it.
    pub state: Vec<u8>,
    /// The part of the input that it reads.
    pub reads: Reads,
    /// What it emits; nothing if it fails.
    pub emitted: Vec<u8>,
    /// What is stated of the point after it, or why there is none.
    pub after: Result<Digest, Fault>,
}

/// The part of an input that a unit reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Where it begins in the input.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Sees a segment while it is looked into.
pub trait Watcher {
    /// Bytes that were added to the output.
    fn emitted(&mut self, bytes: &[u8]);
    /// The segment stands here after so many units; all that was emitted until here was told.
    fn stands(&mut self, units: u64, state: ArtifactId);
}

/// What an executor says at the end of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// The state before the wanted unit and what that reads of the input.
    pub shown: Option<(Vec<u8>, Reads)>,
    /// The unit that failed, and why.
    pub failed: Option<(u64, Fault)>,
}

/// Looks into a segment. It runs no further than what is wanted.
pub fn look(
    prepared: &mut dyn Prepared,
    (input, mut state): (&[u8], Vec<u8>),
    inside: &Inside,
    wanted: &Wanted,
    (limits, stop): (&Limits, &Arc<Stop>),
    watcher: &mut dyn Watcher,
) -> Result<Looked, Fault> {
    check_input(input, limits)?;
    let none = || Fault::checkpoint("there is no such segment, or no such unit in it");
    let units = inside.units().ok_or_else(none)?;
    let run = wanted.within(&units).ok_or_else(none)?;
    let (found, named) = (ArtifactId::of(&state), inside.before.state);
    if found != named {
        return Err(Fault::checkpoint(format_args!("the state is {found} and not {named}")));
    }
    let closing = units.end.saturating_sub(1);
    let last = inside.index().map(|index| index.0) == Some(inside.extent.segments);
    let seen = RefCell::new(watcher);
    let mut sink = |bytes: &[u8]| seen.borrow_mut().emitted(bytes);
    let mut work = Work::new(limits, Arc::clone(stop), limits.output, &mut sink);
    let (mut shown, of) = (None, inside.extent.steps);
    for unit in run {
        if *wanted == Wanted::Unit(unit) {
            seen.borrow_mut().stands(unit, ArtifactId::of(&state));
            shown = Some(state.clone());
        }
        let next = unit.saturating_add(1);
        work.read(None);
        let done = if unit < closing {
            let steps = next..=next;
            prepared.advance(input, std::mem::take(&mut state), Span { steps, of }, &mut work)
        } else if last {
            prepared.finish(input, &state, &mut work).map(|()| std::mem::take(&mut state))
        } else {
            Ok(std::mem::take(&mut state))
        };
        let done = done.and_then(|state| work.check_state(&state).map(|()| state));
        state = match done {
            Ok(state) => state,
            Err(fault) if fault.is_found_by_all() => {
                let shown = shown.map(|state| show(state, input, work.has_read())).transpose()?;
                return Ok(Looked { shown, failed: Some((unit, fault)) });
            }
            Err(fault) => return Err(fault),
        };
        if wanted.tells(next) {
            seen.borrow_mut().stands(next, ArtifactId::of(&state));
        }
    }
    let shown = shown.map(|state| show(state, input, work.has_read())).transpose()?;
    Ok(Looked { shown, failed: None })
}

/// What of a unit is shown, if a referee takes so much.
fn show(
    state: Vec<u8>,
    input: &[u8],
    read: Option<Range<usize>>,
) -> Result<(Vec<u8>, Reads), Fault> {
    let limit = Referee::REFEREE.state;
    let too_large = |what| {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        Fault::TooLarge { what, limit }
    };
    if state.len() > limit {
        return Err(too_large(Grown::State));
    }
    let Some(range) = read else { return Ok((state, Reads::default())) };
    let offset = u64::try_from(range.start).unwrap_or(u64::MAX);
    let bytes = input.get(range).unwrap_or_default();
    if bytes.len() > limit {
        let reason = format!("a step reads more than the {limit} bytes that a referee takes");
        return Err(Fault::Input { reason });
    }
    Ok((state, Reads { offset, bytes: bytes.to_vec() }))
}

/// What is heard of a look, held against what was asked. An executor may have been taken over by what it
/// runs: what it tells must fit together. Whether it is true is not seen here.
#[derive(Debug)]
pub(crate) struct Heard {
    inside: Inside,
    wanted: Wanted,
    units: Range<u64>,
    added: ContentFrontier,
    points: Vec<Point>,
    /// What was emitted since the last point, if it is of the unit that is wanted.
    emitted: Vec<u8>,
}

impl Heard {
    /// Nothing is heard yet; none if nothing can be.
    pub(crate) fn new(inside: Inside, wanted: Wanted) -> Option<Self> {
        let units = wanted.within(&inside.units()?)?;
        let (added, points, emitted) = (ContentFrontier::default(), Vec::new(), Vec::new());
        Some(Self { inside, wanted, units, added, points, emitted })
    }

    /// Bytes were added to the output.
    pub(crate) fn emitted(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.added.update(bytes);
        if matches!(self.wanted, Wanted::Unit(_)) && !self.points.is_empty() {
            self.emitted.extend_from_slice(bytes);
            if self.emitted.len() > Referee::REFEREE.state {
                return Err("a unit emits more than a referee takes");
            }
        }
        Ok(())
    }

    /// The segment stands here after so many units.
    pub(crate) fn stands(&mut self, units: u64, state: ArtifactId) -> Result<(), &'static str> {
        if Some(units) != self.next() {
            return Err("it told of another point than was asked for");
        }
        let point = Point { state, added: self.added.clone(), ..Point::begin(&self.inside.before) };
        if units == self.units.start && point != Point::begin(&self.inside.before) {
            return Err("it did not begin with the state that it was given");
        }
        self.points.push(point);
        Ok(())
    }

    /// The place of the next point.
    fn next(&self) -> Option<u64> {
        let told = self.points.len();
        match &self.wanted {
            Wanted::Points(ends) => ends.get(told).copied(),
            Wanted::Unit(unit) if told < 2 => unit.checked_add(u64::try_from(told).ok()?),
            Wanted::Unit(_) => None,
        }
    }

    /// Whether all was told, or all until the unit that failed.
    fn is_whole(&self, failed: Option<u64>) -> bool {
        match (self.next(), failed) {
            (None, None) => true,
            (Some(next), Some(failed)) => self.units.contains(&failed) && failed < next,
            _ => false,
        }
    }

    /// What was stated of the points, the end among them.
    fn digests(&self) -> (Vec<Digest>, Option<End>) {
        let closed = self.inside.units().map(|units| units.end);
        let places = (0..).map_while(|place| match &self.wanted {
            Wanted::Points(ends) => ends.get(place).copied(),
            Wanted::Unit(unit) => unit.checked_add(u64::try_from(place).ok()?),
        });
        let mut end = None;
        let digests = self.points.iter().zip(places).map(|(point, place)| {
            if Some(place) != closed {
                return point.digest();
            }
            // What the closing has emitted is in the frontier already.
            end.insert(point.close(b"")).digest()
        });
        (digests.collect(), end)
    }

    /// The points that were wanted.
    pub(crate) fn points(self, looked: Looked) -> Result<Points, &'static str> {
        if !self.is_whole(looked.failed.as_ref().map(|(unit, _)| *unit)) {
            return Err("it told of fewer points than were asked for");
        }
        let (digests, end) = self.digests();
        Ok(Points { digests, end, failed: looked.failed })
    }

    /// The unit that was wanted.
    pub(crate) fn unit(self, looked: Looked) -> Result<Unit, &'static str> {
        let Looked { shown, failed } = looked;
        let Wanted::Unit(number) = self.wanted else { return Err("no unit was asked for") };
        if !self.is_whole(failed.as_ref().map(|(unit, _)| *unit)) {
            return Err("it told of fewer points than were asked for");
        }
        let (digests, _) = self.digests();
        let before = self.points.into_iter().next().ok_or("it failed before the unit")?;
        let (state, reads) = shown.ok_or("it showed nothing of the unit")?;
        if ArtifactId::of(&state) != before.state {
            return Err("the state that it showed is another");
        }
        let after = match (digests.get(1), failed) {
            (_, Some((_, fault))) => Err(fault),
            (Some(digest), None) => Ok(*digest),
            (None, None) => return Err("it told of fewer points than were asked for"),
        };
        let emitted = if after.is_ok() { self.emitted } else { Vec::new() };
        Ok(Unit { number, before, state, reads, emitted, after })
    }
}
