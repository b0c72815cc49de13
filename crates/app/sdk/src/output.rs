//! The output of a task, put together from what its leases added, and held against the chain. Pure.
//!
//! A lease that was lost has added what its last checkpoint tells of; the next one goes on there. What
//! is on chain of such a part is a chain over what each segment added, of the last part its hash.

use opengpu_types::{ArtifactId, Checkpoint, Lease, SegmentIndex, Task, Verdict};
use opengpu_verify::trace::Emitted;

/// What one lease has sent, segment by segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Which segment was over after how many of them.
    pub cuts: Vec<(SegmentIndex, u64)>,
}

/// Why parts are not the output of a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No lease has come to the end.
    #[error("no lease of the task has come to the end")]
    Unfinished,
    /// What a lease added is not here.
    #[error("what lease {0} added to the output is not here")]
    Missing(u8),
    /// It is not what the provider committed to.
    #[error("what lease {0} added is not what its provider committed to on chain")]
    Other(u8),
}

impl Sent {
    /// The bytes until a checkpoint, if they are those that it tells of.
    fn until(&self, from: Option<&Checkpoint>, until: &Checkpoint) -> Option<&[u8]> {
        let (mut emitted, mut begin) = (from.map_or(Emitted::NOTHING, |it| Emitted(it.emitted)), 0);
        for (segment, end) in &self.cuts {
            // The first one repeats where it goes on.
            if from.is_some_and(|from| from.index == *segment) {
                continue;
            }
            let end = usize::try_from(*end).ok()?;
            emitted = emitted.then(&ArtifactId::of(self.bytes.get(begin..end)?));
            begin = end;
            if *segment == until.index {
                return (emitted.0 == until.emitted).then(|| self.bytes.get(..end)).flatten();
            }
        }
        None
    }
}

/// A lease that added a part of the output, by its number, and where that part is cut.
type Contributor<'a> = (u8, &'a Lease, Option<Checkpoint>);

/// Which leases made the output of a task that has come to its end, the last one first.
fn contributors(task: &Task) -> Result<Vec<Contributor<'_>>, Unfit> {
    let numbered = || (0u8..).zip(&task.leases);
    let complete = |lease: &Lease| {
        lease.commitment.is_some_and(|it| it.reached.index.0 == it.segments)
            && lease.verdict != Some(Verdict::Refuted)
    };
    let (number, last) = numbered().find(|(_, it)| complete(it)).ok_or(Unfit::Unfinished)?;
    let mut found = vec![(number, last, None)];
    let mut from = last.from;
    while let Some(cut) = from {
        let before = numbered().find(|(_, it)| {
            it.commitment.is_some_and(|commitment| commitment.reached == cut)
                && it.from.is_none_or(|begin| begin.index < cut.index)
        });
        let (number, lease) = before.ok_or(Unfit::Unfinished)?;
        found.push((number, lease, Some(cut)));
        from = lease.from;
    }
    Ok(found)
}

/// The output of a task, from what each of its leases sent.
pub fn join(task: &Task, mut sent: impl FnMut(u8) -> Option<Sent>) -> Result<Vec<u8>, Unfit> {
    let mut parts = Vec::new();
    for (number, lease, cut) in contributors(task)? {
        let sent = sent(number).ok_or(Unfit::Missing(number))?;
        let part = match cut {
            Some(cut) => {
                let part = sent.until(lease.from.as_ref(), &cut);
                part.map(<[u8]>::to_vec).ok_or(Unfit::Other(number))?
            }
            None => {
                let wanted = lease.opened.or_else(|| Some(lease.commitment?.output));
                if wanted != Some(ArtifactId::of(&sent.bytes)) {
                    return Err(Unfit::Other(number));
                }
                sent.bytes
            }
        };
        parts.push(part);
    }
    parts.reverse();
    Ok(parts.concat())
}
