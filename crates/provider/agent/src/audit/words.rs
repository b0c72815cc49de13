//! Words as operations of the chain, with what of the record or of a run belongs to them.
//!
//! Whatever cannot be put together is not said: it is told by none, and the phase goes on without it.

use super::Word;
use opengpu_exec::{Program, look};
use opengpu_types::{
    Audit, AuditLeaf, AuditReply, AuditReveal, Digest, DisputeMove, Frontier, LeaseId, List,
    MarketOperation, SegmentIndex, Text, Unit,
};
use opengpu_verify::audit::Reveal;
use opengpu_verify::dissection::Move;

/// A leaf with its way to the root on chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Merkle root over all leaves.
    pub tree: Digest,
    /// The leaf.
    pub leaf: AuditLeaf,
}

/// Where leaves and states come from.
pub trait Material {
    /// The leaf of a segment: of our own lease, or the one that we were served.
    fn leaf(&self, index: SegmentIndex) -> Option<Leaf>;
    /// The state after a segment of our own lease.
    fn state(&self, index: SegmentIndex) -> Option<Vec<u8>>;
}

/// The operation of a word; none for what is shown, which is [`evidence`].
pub fn operation(lease: LeaseId, word: &Word, from: &dyn Material) -> Option<MarketOperation> {
    Some(match word {
        Word::Answer(replies) => {
            let replies =
                replies.iter().map(|(index, reply)| AuditReply { index: *index, reply: *reply });
            MarketOperation::AnswerAudit { lease, replies: List::new(replies.collect()).ok()? }
        }
        Word::Reveal(reveals) => {
            let mut tree = Digest([0; 32]);
            let reveals = reveals.iter().map(|reveal| shown(reveal, from, &mut tree));
            let reveals = List::new(reveals.collect::<Option<_>>()?).ok()?;
            MarketOperation::RevealAnswers { lease, tree, reveals }
        }
        Word::Move(Move::State(points)) => {
            let said = DisputeMove::State(List::new(points.clone()).ok()?);
            MarketOperation::MoveDispute { lease, said }
        }
        Word::Move(Move::Dispute(interval)) => {
            MarketOperation::MoveDispute { lease, said: DisputeMove::Dispute(*interval) }
        }
        Word::Show { .. } => return None,
        Word::Open(indices) => {
            let leaves: Vec<_> =
                indices.iter().map(|index| from.leaf(*index)).collect::<Option<_>>()?;
            let tree = leaves.first()?.tree;
            let leaves = leaves.into_iter().map(|leaf| leaf.leaf).collect();
            MarketOperation::OpenLeaves { lease, tree, leaves: List::new(leaves).ok()? }
        }
        Word::Post(index) => {
            let before = SegmentIndex(index.0.checked_sub(1)?);
            let Leaf { tree, leaf } = from.leaf(before)?;
            let state: List<u8, { Audit::MAX_STATE }> = List::new(from.state(before)?).ok()?;
            MarketOperation::PostState { lease, tree, before: leaf, state: state.into() }
        }
    })
}

/// A reveal; one that objects brings the leaf before.
fn shown(reveal: &Reveal, from: &dyn Material, tree: &mut Digest) -> Option<AuditReveal> {
    let before = match reveal.before {
        None => None,
        Some(segment) => {
            let found = from.leaf(segment.index).filter(|found| found.leaf.segment == segment)?;
            *tree = found.tree;
            Some(found.leaf)
        }
    };
    let Reveal { index, answer, salt, .. } = *reveal;
    Some(AuditReveal { index, answer: answer.0, salt, before })
}

/// A unit of a program as it is shown, with its manifest and its module; the beginning if there is none. None
/// if the program has other files than its module, or if something is larger than the chain takes.
pub fn evidence(
    program: &Program,
    (manifest, module): (Vec<u8>, Vec<u8>),
    input: &[u8],
    unit: Option<&look::Unit>,
) -> Option<Unit> {
    let mut files = program.files().keys();
    let name = files.next().filter(|_| files.next().is_none())?;
    let (state, added) = match unit {
        None => (Vec::new(), Frontier::default()),
        Some(unit) => (unit.state.clone(), frontier(unit)?),
    };
    Some(Unit {
        manifest: List::new(manifest).ok()?,
        name: Text::new(name.clone()).ok()?,
        module: List::new(module).ok()?,
        input: List::new(input.to_vec()).ok()?,
        state: List::new(state).ok()?,
        added,
    })
}

fn frontier(unit: &look::Unit) -> Option<Frontier> {
    let (leaves, subtrees, tail) = unit.before.added.parts();
    let (subtrees, tail) = (List::new(subtrees.to_vec()).ok()?, List::new(tail.to_vec()).ok()?);
    Some(Frontier { leaves, subtrees, tail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::{ContentFrontier, Digest};
    use opengpu_exec::look::Reads;
    use opengpu_exec::program::MANIFEST;
    use opengpu_types::{ArtifactId, Metered, ProgramId, Segment, TaskId};
    use opengpu_verify::answer::Answer;
    use opengpu_verify::point::Point;
    use std::collections::{BTreeMap, BTreeSet};

    const LEASE: LeaseId = LeaseId { task: TaskId(Digest([1; 32])), number: 0 };

    fn segment(index: u32) -> Segment {
        let (index, state, emitted) = (SegmentIndex(index), ArtifactId::of(b"s"), Digest([4; 32]));
        Segment { index, state, emitted, metered: Metered::default() }
    }

    /// Leaves of a tree, and the state after the third segment.
    struct Shelf;

    impl Material for Shelf {
        fn leaf(&self, index: SegmentIndex) -> Option<Leaf> {
            let leaf = AuditLeaf { segment: segment(index.0), siblings: List::empty() };
            (index.0 < 8).then_some(Leaf { tree: Digest([5; 32]), leaf })
        }

        fn state(&self, index: SegmentIndex) -> Option<Vec<u8>> {
            (index.0 == 3).then(|| b"s".to_vec())
        }
    }

    #[test]
    fn only_an_objection_brings_the_leaf_before_and_what_is_not_there_is_not_said() {
        let reveal = |before| {
            let (index, answer) = (SegmentIndex(4), Answer(Digest([7; 32])));
            Word::Reveal(vec![Reveal { index, answer, salt: [8; 32], before }])
        };
        let told = |word: Word| operation(LEASE, &word, &Shelf);
        let Some(MarketOperation::RevealAnswers { reveals, .. }) = told(reveal(None)) else {
            panic!("an answer is opened")
        };
        assert_eq!(reveals[0].before, None);
        let objection = told(reveal(Some(segment(3))));
        let Some(MarketOperation::RevealAnswers { tree, reveals, .. }) = objection else {
            panic!("an objection is opened")
        };
        assert_eq!(reveals[0].before.as_ref().map(|leaf| leaf.segment), Some(segment(3)));
        assert_eq!(tree, Digest([5; 32]));
        let other = Segment { emitted: Digest([9; 32]), ..segment(3) };
        assert_eq!(told(reveal(Some(other))), None, "the leaf is another one");
        let posted = told(Word::Post(SegmentIndex(4)));
        let Some(MarketOperation::PostState { before, state, .. }) = posted else {
            panic!("it is posted")
        };
        assert_eq!((before.segment, state.to_vec()), (segment(3), b"s".to_vec()));
        assert_eq!(told(Word::Post(SegmentIndex(5))), None, "the state is gone");
        assert_eq!(told(Word::Post(SegmentIndex(0))), None, "nothing is before the beginning");
        let indices = BTreeSet::from([SegmentIndex(2), SegmentIndex(4)]);
        let Some(MarketOperation::OpenLeaves { leaves, .. }) = told(Word::Open(indices)) else {
            panic!("they are opened")
        };
        assert_eq!(leaves.len(), 2);
        let Some(MarketOperation::AnswerAudit { replies, .. }) =
            told(Word::Answer(BTreeMap::from([(SegmentIndex(1), opengpu_types::Reply::Unserved)])))
        else {
            panic!("it is answered")
        };
        assert_eq!(replies[0].index, SegmentIndex(1));
    }

    #[test]
    fn a_unit_is_shown_with_a_program_that_has_its_module_alone() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = "name = 'a'\nkind = 'wasm'\ncode = 'a.wasm'\nclass = 'exact'\n";
        std::fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        std::fs::write(folder.path().join("a.wasm"), b"code").unwrap();
        let program = Program::open(folder.path()).unwrap();
        let before = Point::begin(&segment(2)).step(ArtifactId::of(b"t"), &[7; 3_000]);
        let unit = look::Unit {
            number: 9,
            before: before.clone(),
            state: b"t".to_vec(),
            reads: Reads::default(),
            emitted: Vec::new(),
            after: Ok(Digest([0; 32])),
        };
        let bytes = || (manifest.as_bytes().to_vec(), b"code".to_vec());
        let shown = evidence(&program, bytes(), b"input", Some(&unit)).unwrap();
        let files = [(shown.name.as_str(), &ArtifactId::of(&shown.module))];
        assert_eq!(ProgramId::of(&shown.manifest, files), program.id);
        assert_eq!(
            (shown.input.to_vec(), shown.state.to_vec()),
            (b"input".to_vec(), b"t".to_vec())
        );
        let Frontier { leaves, subtrees, tail } = shown.added;
        let added = ContentFrontier::of_parts(leaves, subtrees.to_vec(), tail.to_vec());
        assert_eq!(added, Some(before.added));
        // The beginning is shown without a state; of more files nothing is shown.
        let begun = evidence(&program, bytes(), b"input", None).unwrap();
        assert_eq!((begun.state.len(), begun.added), (0, Frontier::default()));
        std::fs::write(folder.path().join("b"), b"more").unwrap();
        let more = format!("{manifest}files = ['b']\n");
        std::fs::write(folder.path().join(MANIFEST), more).unwrap();
        let program = Program::open(folder.path()).unwrap();
        assert_eq!(evidence(&program, bytes(), b"input", None), None);
    }
}
