//! The output of a task, put together from what its leases added, and held against the chain. Pure.
//!
//! A lease that was lost has added what its last checkpoint tells of; the next one goes on there. What
//! is on chain of such a part is a chain over what each segment added, of the last part its hash.

use opengpu_types::{
    ArtifactId, Checkpoint, Class, Commitment, Ending, Lease, Segment, Task, TaskId, Verdict,
};
use opengpu_verify::trace::{self, Emitted, Extent, Owner, Trace};

/// What one lease has sent, segment by segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Which segment was over after how many of them.
    pub cuts: Vec<(Segment, u64)>,
    /// All that the lease added, as it was fetched after its end.
    pub whole: Option<Vec<u8>>,
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
    /// All that the lease added, if it is here and is this.
    pub fn all(&self, wanted: &ArtifactId) -> Option<&[u8]> {
        let both = self.whole.iter().chain([&self.bytes]);
        both.map(Vec::as_slice).find(|bytes| ArtifactId::of(bytes) == *wanted)
    }

    /// Whether all that a lease committed to is here.
    pub fn serves(&self, lease: &Lease) -> bool {
        let Some(commitment) = lease.commitment else { return true };
        let wanted = lease.opened.unwrap_or(commitment.output);
        // What another lease went on from is cut there, so the ends of its segments are needed.
        let at_end = commitment.reached.index.0 == commitment.segments;
        (at_end && self.all(&wanted).is_some())
            || self.until(lease.from.as_ref(), &commitment.reached).is_some()
    }

    /// The trace of a lease, if its provider committed to these segments and to these bytes: then the
    /// root in the receipt covers the leaf of each of them.
    pub fn trace(&self, task: TaskId, lease: &Lease) -> Option<Trace> {
        let Commitment { steps, segments, reached, root, .. } = lease.commitment?;
        let owner = Owner { task: task.0, provider: lease.provider };
        let last = self.cuts.iter().position(|(it, _)| it.index == reached.index)?;
        let (cuts, (_, end)) = (self.cuts.get(..=last)?, self.cuts.get(last)?);
        let told: Vec<_> = cuts.iter().map(|(segment, _)| *segment).collect();
        let bytes = self.bytes.get(..usize::try_from(*end).ok()?)?;
        trace::added(lease.from.as_ref(), &told, bytes)?;
        let trace = Trace::new(&owner, Extent { steps, segments }, lease.from, told).ok()?;
        (trace.root() == root).then_some(trace)
    }

    /// The bytes until a checkpoint, if they are those that it tells of.
    fn until(&self, from: Option<&Checkpoint>, until: &Checkpoint) -> Option<&[u8]> {
        let (mut emitted, mut begin) = (from.map_or(Emitted::NOTHING, |it| Emitted(it.emitted)), 0);
        for (segment, end) in &self.cuts {
            // The first one repeats where it goes on.
            if from.is_some_and(|from| from.index == segment.index) {
                continue;
            }
            let end = usize::try_from(*end).ok()?;
            emitted = emitted.then(&ArtifactId::of(self.bytes.get(begin..end)?));
            begin = end;
            if segment.index == until.index {
                return (emitted.0 == until.emitted).then(|| self.bytes.get(..end)).flatten();
            }
        }
        None
    }
}

/// A lease that added a part of the output, by its number, and where that part is cut.
type Contributor<'a> = (u8, &'a Lease, Option<Checkpoint>);

/// Whether a lease has come to the end, and nobody doubts it. Of copies only those count that were found
/// to be equal.
fn is_complete(task: &Task, lease: &Lease) -> bool {
    let believed = match task.spec.class {
        Class::Replicate(_) => lease.verdict == Some(Verdict::Upheld),
        _ => lease.verdict != Some(Verdict::Refuted),
    };
    let at_end =
        |it: Commitment| it.ending == Ending::Completed && it.reached.index.0 == it.segments;
    believed && lease.commitment.is_some_and(at_end)
}

/// Which leases made the output that ends with this one, which comes first.
fn contributors<'a>(
    task: &'a Task,
    (number, last): (u8, &'a Lease),
) -> Result<Vec<Contributor<'a>>, Unfit> {
    let mut found = vec![(number, last, None)];
    let mut from = last.from;
    while let Some(cut) = from {
        let before = (0u8..).zip(&task.leases).find(|(_, it)| {
            it.commitment.is_some_and(|commitment| commitment.reached == cut)
                && it.from.is_none_or(|begin| begin.index < cut.index)
        });
        let (number, lease) = before.ok_or(Unfit::Unfinished)?;
        found.push((number, lease, Some(cut)));
        from = lease.from;
    }
    Ok(found)
}

/// The output of a task, from what each of its leases sent: of the first lease that came to the end and
/// whose parts are all here.
pub fn join(task: &Task, mut sent: impl FnMut(u8) -> Option<Sent>) -> Result<Vec<u8>, Unfit> {
    let mut why = Unfit::Unfinished;
    let numbered = (0u8..).zip(&task.leases);
    for last in numbered.filter(|(_, lease)| is_complete(task, lease)) {
        match contributors(task, last).and_then(|all| join_parts(all, &mut sent)) {
            Ok(output) => return Ok(output),
            Err(unfit) => why = unfit,
        }
    }
    Err(why)
}

fn join_parts(
    contributors: Vec<Contributor<'_>>,
    sent: &mut impl FnMut(u8) -> Option<Sent>,
) -> Result<Vec<u8>, Unfit> {
    let mut parts = Vec::new();
    for (number, lease, cut) in contributors {
        let sent = sent(number).ok_or(Unfit::Missing(number))?;
        let part = match cut {
            Some(cut) => sent.until(lease.from.as_ref(), &cut),
            None => {
                let wanted = lease.opened.or_else(|| Some(lease.commitment?.output));
                wanted.and_then(|wanted| sent.all(&wanted))
            }
        };
        parts.push(part.ok_or(Unfit::Other(number))?.to_vec());
    }
    parts.reverse();
    Ok(parts.concat())
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
pub(crate) mod tests {
    use super::*;
    use opengpu_types::{
        Address, Amount, Contact, LeasePhase, List, Millis, Money, SegmentIndex, SessionKey,
        TaskPhase, Text, Usage,
    };

    /// What segments of a whole run add.
    const ADDED: [&[u8]; 4] = [b"", b"ab", b"", b"cde"];

    fn checkpoint(index: u32) -> Checkpoint {
        let until = usize::try_from(index).unwrap();
        let emitted = ADDED[..=until]
            .iter()
            .fold(Emitted::NOTHING, |emitted, added| emitted.then(&ArtifactId::of(added)));
        let bytes_out = ADDED[..=until].concat().len().try_into().unwrap();
        let state = ArtifactId::of(&index.to_be_bytes());
        Checkpoint { index: SegmentIndex(index), state, emitted: emitted.0, bytes_out }
    }

    /// A lease that goes on after a segment and has come to another one.
    pub(crate) fn lease(from: Option<u32>, reached: u32) -> Lease {
        let begin = from.map_or(0, |from| usize::try_from(from).unwrap() + 1);
        let output = ADDED[begin..=usize::try_from(reached).unwrap()].concat();
        let ending = if reached == 3 { Ending::Completed } else { Ending::Open };
        let commitment = Commitment {
            root: checkpoint(reached).emitted,
            steps: 3,
            segments: 3,
            reached: checkpoint(reached),
            output: ArtifactId::of(&output),
            usage: Usage::default(),
            ending,
        };
        Lease {
            provider: Address::ZERO,
            offer: 0,
            rate: Amount(1),
            most: Amount(1),
            lock: Amount::ZERO,
            paid: Amount::ZERO,
            predicted: Millis(1),
            session: SessionKey([1; 32]),
            began: Millis(1),
            from: from.map(checkpoint),
            commitment: Some(commitment),
            committed: Millis(2),
            signed: Millis(0),
            opened: None,
            verdict: None,
            phase: LeasePhase::Running,
        }
    }

    fn sent(from: Option<u32>, reached: u32) -> Sent {
        let (mut bytes, mut cuts) = (Vec::new(), Vec::new());
        if let Some(from) = from {
            cuts.push((checkpoint(from).segment(), 0));
        }
        for index in from.map_or(0, |from| from + 1)..=reached {
            let added = ADDED[usize::try_from(index).unwrap()];
            bytes.extend_from_slice(added);
            let mut segment = checkpoint(index).segment();
            segment.metered.bytes_out = u64::try_from(added.len()).unwrap();
            cuts.push((segment, u64::try_from(bytes.len()).unwrap()));
        }
        Sent { bytes, cuts, whole: None }
    }

    pub(crate) fn task(leases: Vec<Lease>) -> Task {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = folder.join("../../../examples/sha256-search");
        let program = opengpu_exec::Program::open(&program).unwrap();
        let budget = Money::tokens(Amount::whole(1));
        let sealing = opengpu_crypto::SealPublicKey([2; 32]);
        Task {
            client: Address::ZERO,
            contact: Contact { session: SessionKey([1; 32]), sealing, relay: Text::default() },
            spec: crate::Wishes::new(budget).spec(&program, ArtifactId::of(b""), Amount::ONE),
            budget,
            deposited: Amount::whole(1),
            paid: Amount::ZERO,
            refunded: Amount::ZERO,
            lock: Amount::ZERO,
            submitted: Millis(1),
            phase: TaskPhase::Running,
            leases: List::new(leases).unwrap(),
            checkpoint: None,
            ending: None,
            seeking: Millis(1),
            alarm: Millis(1),
            reserve: Amount::ZERO,
        }
    }

    #[test]
    fn one_lease_is_held_against_its_hash() {
        let task = task(vec![lease(None, 3)]);
        assert_eq!(join(&task, |_| Some(sent(None, 3))), Ok(b"abcde".to_vec()));
        let mut other = sent(None, 3);
        other.bytes[4] = b'x';
        assert_eq!(join(&task, |_| Some(other.clone())), Err(Unfit::Other(0)));
        assert_eq!(join(&task, |_| None), Err(Unfit::Missing(0)));
    }

    #[test]
    fn every_leaf_is_covered_by_the_root_that_was_committed_to() {
        let id = TaskId(opengpu_crypto::Digest([4; 32]));
        for (from, reached) in [(None, 3), (Some(1), 3), (None, 1)] {
            let (mut lease, sent) = (lease(from, reached), sent(from, reached));
            assert!(sent.trace(id, &lease).is_none(), "another root");
            let segments = sent.cuts.iter().map(|(segment, _)| *segment).collect();
            let owner = Owner { task: id.0, provider: lease.provider };
            let extent = Extent { steps: 3, segments: 3 };
            let root = Trace::new(&owner, extent, lease.from, segments).unwrap().root();
            lease.commitment.as_mut().unwrap().root = root;
            assert_eq!(sent.trace(id, &lease).unwrap().segments().len(), sent.cuts.len());
            let mut other = sent.clone();
            other.cuts.last_mut().unwrap().0.metered.fuel = 9;
            assert!(other.trace(id, &lease).is_none(), "metered otherwise");
            if let Some(byte) = other.bytes.first_mut() {
                other.cuts = sent.cuts;
                *byte ^= 1;
                assert!(other.trace(id, &lease).is_none(), "other bytes");
            }
        }
    }

    #[test]
    fn parts_of_lost_leases_are_cut_and_checked_by_their_chain() {
        let task = task(vec![lease(None, 1), lease(Some(1), 2), lease(Some(2), 3)]);
        // The first one told more than it committed to.
        let parts = |number| match number {
            0 => Some(sent(None, 3)),
            1 => Some(sent(Some(1), 2)),
            _ => Some(sent(Some(2), 3)),
        };
        assert_eq!(join(&task, parts), Ok(b"abcde".to_vec()));
        assert!(sent(None, 3).serves(&lease(None, 1)), "it may have told more");
        assert!(!sent(None, 0).serves(&lease(None, 1)));
        assert!(!Sent::default().serves(&lease(None, 0)), "nothing was added, and no end is known");
        let other = |number| {
            let mut sent = parts(number)?;
            if number == 0 {
                sent.bytes[0] = b'x';
            }
            Some(sent)
        };
        assert_eq!(join(&task, other), Err(Unfit::Other(0)));
        let short = |number| if number == 0 { Some(sent(None, 0)) } else { parts(number) };
        assert_eq!(join(&task, short), Err(Unfit::Other(0)));
    }

    #[test]
    fn of_copies_only_an_equal_one_counts_and_any_of_them_will_do() {
        let with = |verdicts: [Option<Verdict>; 3]| {
            let mut task =
                task(verdicts.map(|verdict| Lease { verdict, ..lease(None, 3) }).to_vec());
            task.spec.class = Class::Replicate(3);
            task
        };
        let [upheld, doubted] = [Verdict::Upheld, Verdict::Inconclusive].map(Some);
        let here = |_| Some(sent(None, 3));
        assert_eq!(join(&with([doubted; 3]), here), Err(Unfit::Unfinished));
        let agreed = with([doubted, upheld, upheld]);
        // The first of them does not give it.
        let last = |number| (number == 2).then(|| sent(None, 3));
        assert_eq!(join(&agreed, last), Ok(b"abcde".to_vec()));
        let mut failed = lease(None, 3);
        failed.commitment.as_mut().unwrap().ending = Ending::Failed;
        assert_eq!(join(&task(vec![failed]), here), Err(Unfit::Unfinished));
    }

    #[test]
    fn what_was_fetched_in_the_end_counts_if_it_is_right_and_harms_nothing_if_not() {
        let task = task(vec![lease(None, 3)]);
        let fetched = |whole: &[u8]| Sent { whole: Some(whole.to_vec()), ..Sent::default() };
        assert_eq!(join(&task, |_| Some(fetched(b"abcde"))), Ok(b"abcde".to_vec()));
        assert_eq!(join(&task, |_| Some(fetched(b"other"))), Err(Unfit::Other(0)));
        let both = Sent { whole: Some(b"other".to_vec()), ..sent(None, 3) };
        assert_eq!(join(&task, |_| Some(both.clone())), Ok(b"abcde".to_vec()));
    }

    #[test]
    fn a_task_without_an_end_has_no_output() {
        assert_eq!(join(&task(vec![lease(None, 2)]), |_| None), Err(Unfit::Unfinished));
        let mut refuted = lease(None, 3);
        refuted.verdict = Some(Verdict::Refuted);
        assert_eq!(join(&task(vec![refuted]), |_| None), Err(Unfit::Unfinished));
        // What the last one goes on from must be somebody's.
        assert_eq!(join(&task(vec![lease(Some(2), 3)]), |_| None), Err(Unfit::Unfinished));
    }
}
