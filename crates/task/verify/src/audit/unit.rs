//! The unit that is left of a dispute, executed by the referee: in the block that shows it, and by anybody
//! who checks afterwards what was found.
//!
//! What is shown is checked before anything is executed, and what is executed always decides: so nobody
//! makes a block execute something for nothing.

use opengpu_crypto::{ContentFrontier, Digest, hash};
use opengpu_referee::wasm::{Fault, Given, Limits, Part as Bytes, Program};
use opengpu_types::{ArtifactId, Failure, Frontier, ProgramId, SegmentIndex, Spec, Step, Unit};

use super::{Audit, Dispute};
use crate::dissection::{Dissection, Ended};
use crate::point::{End, Point};
use crate::trace::Extent;

/// Domain of what no provider can have claimed.
const STOPPED: &str = "opengpu/dissection/stopped/v1";

/// What a unit leads to.
enum Found {
    /// To this point.
    Point(Digest),
    /// To none: the program stops itself here.
    Stops,
    /// Nobody can tell: it is more than the referee executes.
    Unknown,
}

/// The point after the unit that is shown; what is claimed if nobody can tell, which the challenger then
/// has lost.
pub(super) fn execute(
    unit: &Unit,
    spec: &Spec,
    audit: &Audit,
    dispute: &Dispute,
) -> Result<Digest, Failure> {
    let program =
        ProgramId::of(&unit.manifest, [(unit.name.as_str(), &ArtifactId::of(&unit.module))]);
    if program != spec.program || ArtifactId::of(&unit.input) != spec.input {
        return Err(Failure::BadUnit);
    }
    let extent = audit.subject.part.extent;
    let leaf = audit.leaves.get(&dispute.index).ok_or(Failure::WrongPhase)?;
    let (claimed, found) = match &dispute.dissection {
        None => (End::of(leaf).digest(), begin(unit, &extent)),
        Some(Dissection { ended: Some(Ended::Narrowed(step)), .. }) => {
            let point = point(unit, audit, dispute.index).ok_or(Failure::BadUnit)?;
            if point.digest() != step.before {
                return Err(Failure::BadUnit);
            }
            (step.claimed, go_on(unit, &point, &extent, step))
        }
        Some(_) => return Err(Failure::WrongPhase),
    };
    Ok(match found {
        Found::Point(after) => after,
        Found::Stops => hash(STOPPED, &[claimed.as_ref()]),
        Found::Unknown => claimed,
    })
}

/// The point before the unit.
fn point(unit: &Unit, audit: &Audit, index: SegmentIndex) -> Option<Point> {
    let before = audit.leaves.get(&SegmentIndex(index.0.checked_sub(1)?))?;
    let Frontier { leaves, subtrees, tail } = &unit.added;
    let added = ContentFrontier::of_parts(*leaves, subtrees.to_vec(), tail.to_vec())?;
    let state = ArtifactId::of(&unit.state);
    Some(Point { index, state, emitted: before.emitted, added })
}

/// The beginning: the first state, and how many steps follow from it.
fn begin(unit: &Unit, extent: &Extent) -> Found {
    let Ok(program) = Program::check(&unit.module, Limits::REFEREE) else { return Found::Unknown };
    let found = program.init(&unit.input).and_then(|first| {
        let (steps, _) = program.steps(&first.bytes)?;
        let finish = match steps {
            0 => program.finish(&first.bytes)?.bytes,
            _ => Vec::new(),
        };
        let end = End::beginning(ArtifactId::of(&first.bytes), &finish);
        Ok(end.found(extent, steps))
    });
    sort(found)
}

/// A step, or the closing of the segment.
fn go_on(unit: &Unit, point: &Point, extent: &Extent, step: &Step) -> Found {
    let Ok(program) = Program::check(&unit.module, Limits::REFEREE) else { return Found::Unknown };
    let Some(steps) = extent.steps_of(point.index) else { return Found::Unknown };
    if step.number < steps.end {
        let number = step.number.saturating_add(1);
        let given = program.step(&unit.state, number, Bytes::all(&unit.input));
        return sort(given.map(|Given { bytes, emitted, .. }| {
            point.step(ArtifactId::of(&bytes), &emitted).digest()
        }));
    }
    if point.index.0 < extent.segments {
        return Found::Point(point.close(b"").digest());
    }
    sort(program.finish(&unit.state).map(|last| point.close(&last.bytes).digest()))
}

/// A program that stops itself leads nowhere on every machine; what is over a limit of the referee may lead
/// somewhere on another one.
fn sort(found: Result<Digest, Fault>) -> Found {
    match found {
        Ok(point) => Found::Point(point),
        Err(Fault::Trap(_) | Fault::Input | Fault::Steps { .. }) => Found::Stops,
        Err(
            Fault::Argument { .. }
            | Fault::Fuel
            | Fault::Depth
            | Fault::Memory
            | Fault::Given { .. },
        ) => Found::Unknown,
    }
}
