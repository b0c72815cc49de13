//! What a verifier answers, and how it is sealed until all answers are fixed.
//!
//! ```text
//!   repeat segment i ──► answer ──► seal on chain ──► the provider opens leaf i ──► the seal is opened
//! ```
//!
//! - An answer is bound to the seed of the audit: nobody who did the work before has it in store, and an
//!   answer to one audit is none to another.
//! - A seal is bound to the verifier and a salt: who copies the seal of another cannot open it, and who
//!   guesses the answer cannot tell from the seal whether the guess is right.

use commonware_codec::Encode as _;
use opengpu_crypto::{Digest, Seed, hash};
use opengpu_types::{Address, ChainId, LeaseId, Segment, SegmentIndex};

/// Domain of an answer.
const ANSWER: &str = "opengpu/audit/answer/v1";
/// Domain of the seal of an answer.
const SEAL: &str = "opengpu/audit/answer-seal/v1";

/// What a segment was, in the words of one audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer(pub Digest);

impl Answer {
    /// The answer of whoever found this segment, in the audit with this seed.
    pub fn new(seed: &Seed, segment: &Segment) -> Self {
        let index = segment.index.0.to_le_bytes();
        Self(hash(ANSWER, &[&seed.0, &index, &segment.encode()]))
    }

    /// What is on chain of it until all who were asked have answered.
    pub fn seal(
        &self,
        chain: ChainId,
        lease: &LeaseId,
        index: SegmentIndex,
        verifier: &Address,
        salt: &[u8; 32],
    ) -> Digest {
        let (chain, number, index) = (chain.0.to_be_bytes(), [lease.number], index.0.to_le_bytes());
        let parts: [&[u8]; 7] = [
            &chain,
            lease.task.0.as_ref(),
            &number,
            &index,
            verifier.as_bytes(),
            salt,
            self.0.as_ref(),
        ];
        hash(SEAL, &parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{ArtifactId, Metered, TaskId};
    use std::collections::BTreeSet;

    fn segment() -> Segment {
        let state = ArtifactId::of(b"state");
        let (index, emitted) = (SegmentIndex(3), Digest([4; 32]));
        Segment { index, state, emitted, metered: Metered::default() }
    }

    #[test]
    fn an_answer_binds_the_audit_and_all_of_the_segment() {
        let (seed, segment) = (Seed([1; 32]), segment());
        let metered = Metered { fuel: 1, ..segment.metered };
        let answers = [
            Answer::new(&seed, &segment),
            Answer::new(&Seed([2; 32]), &segment),
            Answer::new(&seed, &Segment { index: SegmentIndex(4), ..segment }),
            Answer::new(&seed, &Segment { state: ArtifactId::of(b"other"), ..segment }),
            Answer::new(&seed, &Segment { emitted: Digest([5; 32]), ..segment }),
            Answer::new(&seed, &Segment { metered, ..segment }),
        ];
        assert_eq!(answers.iter().collect::<BTreeSet<_>>().len(), answers.len());
    }

    #[test]
    fn a_seal_binds_everything_in_it() {
        let seal = |chain, task: u8, number, index, verifier: u8, salt: u8, answer: u8| {
            let lease = LeaseId { task: TaskId(Digest([task; 32])), number };
            let verifier = Address::new([verifier; 20]);
            let (index, answer) = (SegmentIndex(index), Answer(Digest([answer; 32])));
            answer.seal(ChainId(chain), &lease, index, &verifier, &[salt; 32])
        };
        let seals = [
            seal(1, 1, 1, 1, 1, 1, 1),
            seal(2, 1, 1, 1, 1, 1, 1),
            seal(1, 2, 1, 1, 1, 1, 1),
            seal(1, 1, 2, 1, 1, 1, 1),
            seal(1, 1, 1, 2, 1, 1, 1),
            seal(1, 1, 1, 1, 2, 1, 1),
            seal(1, 1, 1, 1, 1, 2, 1),
            seal(1, 1, 1, 1, 1, 1, 2),
        ];
        assert_eq!(seals.iter().collect::<BTreeSet<_>>().len(), seals.len());
    }

    #[test]
    fn answer_and_seal_are_pinned() {
        let answer = Answer::new(&Seed([1; 32]), &segment());
        let lease = LeaseId { task: TaskId(Digest([2; 32])), number: 1 };
        let verifier = Address::new([3; 20]);
        let seal = answer.seal(ChainId(7), &lease, SegmentIndex(3), &verifier, &[9; 32]);
        let pinned = [
            "9b4fdeab786bc959cfe2f0d590c271db40bb79400bda9e235b545326d85308e6",
            "49b66f943adb755bb26d10f22823dadebf1350b9ea4ea24e31ae1903a60bbec2",
        ];
        assert_eq!([answer.0, seal].map(|it| it.to_string()), pinned, "a change of the protocol");
    }
}
