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
//! - An answer says where the segment ended ([`End`]) and nothing that is metered: what a dissection would
//!   end at is what answers differ about, so nobody disputes what the referee cannot decide.

use opengpu_crypto::{Digest, Seed, hash};
use opengpu_types::{Address, ChainId, LeaseId, SegmentIndex};

use crate::point::End;

/// Domain of an answer.
const ANSWER: &str = "opengpu/audit/answer/v2";
/// Domain of the seal of an answer.
const SEAL: &str = "opengpu/audit/answer-seal/v1";

/// Where a segment ended, in the words of one audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer(pub Digest);

impl Answer {
    /// The answer of whoever found that a segment ends like this, in the audit with this seed.
    pub fn new(seed: &Seed, end: &End) -> Self {
        Self::of(seed, &end.digest())
    }

    /// The answer of whoever found this: the end of a segment, or what [`End::found`] says of a beginning.
    pub fn of(seed: &Seed, found: &Digest) -> Self {
        Self(hash(ANSWER, &[&seed.0, found.as_ref()]))
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
    use opengpu_types::{ArtifactId, TaskId};
    use std::collections::BTreeSet;

    fn end() -> End {
        let state = ArtifactId::of(b"state");
        End { index: SegmentIndex(3), state, emitted: Digest([4; 32]), bytes_out: 5 }
    }

    #[test]
    fn an_answer_binds_the_audit_and_all_of_the_end() {
        let (seed, end) = (Seed([1; 32]), end());
        let answers = [
            Answer::new(&seed, &end),
            Answer::new(&Seed([2; 32]), &end),
            Answer::new(&seed, &End { index: SegmentIndex(4), ..end }),
            Answer::new(&seed, &End { state: ArtifactId::of(b"other"), ..end }),
            Answer::new(&seed, &End { emitted: Digest([5; 32]), ..end }),
            Answer::new(&seed, &End { bytes_out: 6, ..end }),
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
        let answer = Answer::new(&Seed([1; 32]), &end());
        let lease = LeaseId { task: TaskId(Digest([2; 32])), number: 1 };
        let verifier = Address::new([3; 20]);
        let seal = answer.seal(ChainId(7), &lease, SegmentIndex(3), &verifier, &[9; 32]);
        let pinned = [
            "38c56fb1d8c0b846da21df22f70a85e3b39232631a439ed741dd083130d330c6",
            "3b293fc982623448acf726f408b805a9f65dfcea3f05efc758bffd0b7e3650b0",
        ];
        assert_eq!([answer.0, seal].map(|it| it.to_string()), pinned, "a change of the protocol");
    }
}
