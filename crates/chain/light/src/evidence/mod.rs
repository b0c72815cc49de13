//! The evidence of one audit: why a lease was paid, or its provider slashed, as one file.
//!
//! ```text
//!   seats that are trusted ──► blocks that are final
//!                                ├─ SubmitTask ──► the spec, the client            ┐
//!                                ├─ CommitTrace ─► the commitment, the provider    ├─ facts
//!                                ├─ (CommitTrace of an earlier lease ─► from where)┘
//!                                ├─ beacon, AuditDrawn ──┐
//!                                ├─ what parties said ───┼─► the rules once more, at the times of the blocks;
//!                                ├─ deadlines that passed┘   the referee executes the unit that is shown
//!                                └─ AuditClosed ◄─── must be what comes out
//! ```
//!
//! Every transaction is there as it was signed: under the transactions' root of its block, with its receipt,
//! which has its id and says that it took effect. Nothing that was said is believed: the rules of
//! [`opengpu_verify::audit`] hear it again and must come to the same certificate, to the bit.
//!
//! **Taken from the quorum**, because nothing on chain shows it afterwards:
//!
//! - who could be drawn: the candidates with their stakes. That the lottery chose the commitment and which
//!   segments went to whom follows from the beacon; that these verifiers and no others did not;
//! - the rate, and how much of a slash is the lock and how much the stake. How it is shared is checked;
//! - what the lease is paid. What verifiers get of it is checked;
//! - that a key speaks for its account. That it signed is checked;
//! - for a lease that was lost, when, and with it which beacon was the one two heights later;
//! - which checkpoint of the task a lease went on from, where several have the same number;
//! - how long a beacon was looked for in vain when nobody could be drawn.
//!
//! **What a file can leave out unnoticed**: moves of a dispute that was lost by silence anyway, if another
//! dispute follows it. Everything else that was said is in the certificate, or decides what is.
//!
//! The parameters are those of the genesis, which never change.

mod error;
mod frame;
mod replay;
mod report;

pub use error::EvidenceError;
pub use replay::Replay;
pub use report::{At, Closing, Facts, Happening, Report, Slash, Waited, What};

use crate::{
    bundle::{EpochStep, FinalizedHeader, Trust},
    error::{Link, VerifyError},
};
use opengpu_crypto::{MerkleProof, verify};
use opengpu_types::{
    Address, ChainId, Checkpoint, Commitment, Event, Header, Height, LeaseId, MarketOperation,
    MarketParameters, Operation, Outcome, Receipt, SignedTransaction, Spec, TaskId,
};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};

/// A receipt with its place under the receipts' root of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The receipt, which names its block.
    pub receipt: Receipt,
    /// Its place.
    pub proof: MerkleProof,
}

/// A transaction as it was signed, with its receipt and its place under the transactions' root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What became of it.
    pub told: Told,
    /// The transaction.
    pub transaction: SignedTransaction,
    /// Its place.
    pub proof: MerkleProof,
}

/// One thing that happened in an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A deadline passed, and the audit went on.
    Passed(Height),
    /// The block itself told something: who was drawn, or the end of the audit.
    Told {
        /// Its own receipt.
        told: Told,
        /// The height whose beacon was the seed, for a draw.
        seed: Option<Height>,
    },
    /// A party said something.
    Said(Box<Statement>),
}

/// All that was said in one audit, with everything that is needed to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// From genesis to the epoch of the last block.
    pub steps: Vec<EpochStep>,
    /// Blocks that are needed, by height: each once.
    pub blocks: Vec<FinalizedHeader>,
    /// Which lease was audited.
    pub lease: LeaseId,
    /// Where the task was submitted.
    pub submitted: Statement,
    /// Where the checkpoint was committed to from which the lease went on.
    pub origin: Option<Statement>,
    /// Where the provider committed to what it did.
    pub committed: Statement,
    /// What happened, in order; the last of it is the end.
    pub course: Vec<Moment>,
}

/// Blocks that are final, by height.
struct Blocks<'a> {
    chain: ChainId,
    headers: BTreeMap<Height, &'a Header>,
}

impl Evidence {
    /// Checks every link and replays the audit; what the chain found of the lease follows from what was said
    /// if this succeeds.
    pub fn verify(
        &self,
        rng: &mut impl CryptoRng,
        trust: Trust,
        parameters: &MarketParameters,
    ) -> Result<Report, EvidenceError> {
        let chain = trust.chain;
        let headers = self.finalized(rng, trust)?;
        let blocks = Blocks { chain, headers };
        self.check_links(&blocks)?;
        self.replayed(&blocks, parameters)
    }

    /// As [`Self::verify`] for who trusts where the evidence is from: the audit is replayed, and nothing else
    /// is checked.
    pub fn retrace(
        &self,
        chain: ChainId,
        parameters: &MarketParameters,
    ) -> Result<Report, EvidenceError> {
        let headers = self.blocks.iter().map(|it| (it.header.height, &it.header)).collect();
        self.replayed(&Blocks { chain, headers }, parameters)
    }

    fn replayed(
        &self,
        blocks: &Blocks<'_>,
        parameters: &MarketParameters,
    ) -> Result<Report, EvidenceError> {
        let chain = blocks.chain;
        let facts = self.facts(chain)?;
        let last = self.course.last().ok_or(EvidenceError::Unfinished)?.receipt();
        let last = last.ok_or(EvidenceError::Unfinished)?;
        let closing = Closing::of(last, self.lease).ok_or(EvidenceError::Unfinished)?;
        let rate = closing.certificate.rate;
        let mut replay = Replay::new(chain, facts, rate, *parameters)?;
        for moment in &self.course {
            self.replay(&mut replay, blocks, moment)?;
        }
        replay.close(blocks.at(last.height)?, closing)
    }

    /// The headers, each made final by the seats of its epoch; nothing else may be there.
    fn finalized(
        &self,
        rng: &mut impl CryptoRng,
        mut trust: Trust,
    ) -> Result<BTreeMap<Height, &Header>, EvidenceError> {
        let begin = trust.seats.epoch;
        let known = |step: &&EpochStep| step.finalized.header.epoch < begin;
        let mut steps = self.steps.iter().skip_while(known).peekable();
        let mut headers = BTreeMap::new();
        let mut before = Height(0);
        for block in &self.blocks {
            let (height, epoch) = (block.header.height, block.header.epoch);
            if height <= before {
                return Err(EvidenceError::IdleBlock { height });
            }
            before = height;
            while trust.seats.epoch < epoch
                && let Some(step) = steps.next()
            {
                trust.take(rng, step)?;
            }
            let verified = block.verify(rng, &trust);
            verified.map_err(|error| EvidenceError::Block { height, error })?;
            headers.insert(height, &block.header);
        }
        match steps.next() {
            Some(step) => Err(EvidenceError::IdleStep { epoch: step.seats.epoch }),
            None => Ok(headers),
        }
    }

    /// Each receipt and each transaction is in its block, in order, and each block is needed.
    fn check_links(&self, blocks: &Blocks<'_>) -> Result<(), EvidenceError> {
        blocks.statement(&self.submitted)?;
        let mut last = self.submitted.place();
        let facts = self.origin.iter().chain([&self.committed]);
        for statement in facts {
            blocks.statement(statement)?;
            let place = statement.place();
            if place < last {
                return Err(EvidenceError::Misplaced { height: place.0 });
            }
            last = place;
        }
        for moment in &self.course {
            match moment {
                Moment::Passed(_) => {}
                // What a transaction did is told with who signed it.
                Moment::Told { told, .. } if told.receipt.index > 0 => {
                    return Err(EvidenceError::Misplaced { height: told.receipt.height });
                }
                Moment::Told { told, .. } => blocks.told(told)?,
                Moment::Said(statement) => blocks.statement(statement)?,
            }
            let place = moment.place();
            if place <= last {
                return Err(EvidenceError::Misplaced { height: place.0 });
            }
            last = place;
        }
        let needed = self.needed();
        let idle = blocks.headers.keys().find(|height| !needed.contains(height));
        idle.map_or(Ok(()), |height| Err(EvidenceError::IdleBlock { height: *height }))
    }

    /// The heights of all blocks that are needed, in order.
    pub fn needed(&self) -> BTreeSet<Height> {
        let facts = self.origin.iter().chain([&self.submitted, &self.committed]);
        let mut needed: BTreeSet<_> = facts.map(|statement| statement.place().0).collect();
        for moment in &self.course {
            needed.insert(moment.place().0);
            if let Moment::Told { seed: Some(height), .. } = moment {
                needed.insert(*height);
            }
        }
        needed
    }

    /// What the audit is about, from the transactions that made it. Whether they are on chain is another
    /// question: see [`Self::verify`].
    pub fn facts(&self, chain: ChainId) -> Result<Facts, EvidenceError> {
        let lease = self.lease;
        let (height, index) = self.submitted.place();
        let task = EvidenceError::OtherTask { height, index };
        let spec = self.submitted.submits(chain, lease.task).ok_or(task.clone())?;
        let opened = self.submitted.told.receipt.events.iter().find_map(|event| match event {
            Event::TaskOpened { task, client, lock, .. } if *task == lease.task => {
                Some((*client, *lock))
            }
            _ => None,
        });
        let (client, lock) = opened.ok_or(task)?;
        let (committed, index) = self.committed.place();
        let commitment = self.committed.commits(lease);
        let other = EvidenceError::OtherCommitment { height: committed, index };
        let (commitment, ended) = commitment.ok_or(other)?;
        let from = self.from()?;
        let provider = self.committed.transaction.transaction.sender;
        let spec = spec.clone();
        Ok(Facts { lease, client, spec, lock, provider, from, commitment, committed, ended })
    }

    /// From where the lease went on.
    fn from(&self) -> Result<Option<Checkpoint>, EvidenceError> {
        let Some(origin) = &self.origin else { return Ok(None) };
        let LeaseId { task, number } = self.lease;
        let mut earlier = (0..number).map(|number| LeaseId { task, number });
        let commitment = earlier.find_map(|lease| origin.commits(lease));
        let (commitment, _) = commitment.ok_or(EvidenceError::OtherOrigin)?;
        Ok(Some(commitment.reached))
    }

    fn replay(
        &self,
        replay: &mut Replay,
        blocks: &Blocks<'_>,
        moment: &Moment,
    ) -> Result<(), EvidenceError> {
        let (height, index) = moment.place();
        let at = blocks.at(height)?;
        if replay.finding().is_some() {
            return Err(EvidenceError::OtherEnd { height });
        }
        match moment {
            Moment::Passed(_) => replay.passed(at)?,
            Moment::Told { told, seed } => match (told.drawn(self.lease), seed) {
                (Some(drawn), _) => {
                    let seed = seed.map(|height| blocks.header(height)).transpose()?;
                    replay.drawn(at, seed.map(|it| (it.height, &it.beacon)), drawn)?;
                }
                (None, None) => replay.passed(at)?,
                (None, Some(_)) => return Err(EvidenceError::OtherSeed { height }),
            },
            Moment::Said(statement) => {
                let said = statement.said(self.lease);
                if said.is_empty() {
                    return Err(EvidenceError::Foreign { height, index });
                }
                let sender = statement.transaction.transaction.sender;
                for said in said {
                    replay.said((at, index), sender, said)?;
                }
            }
        }
        // The end is told where it happens, and nowhere else.
        let closed = moment.receipt().and_then(|receipt| Closing::of(receipt, self.lease));
        if replay.finding().is_some() == closed.is_some() {
            return Ok(());
        }
        match (replay.finding(), closed.map(|closed| closed.certificate.phase)) {
            (None, None) | (Some(_), _) => Err(EvidenceError::OtherEnd { height }),
            (None, Some(_)) => Err(EvidenceError::Unfinished),
        }
    }
}

impl Told {
    /// Who was drawn for the audit of a lease, if this tells of it.
    pub fn drawn(&self, id: LeaseId) -> Option<(u8, &[Address])> {
        self.receipt.events.iter().find_map(|event| match event {
            Event::AuditDrawn { lease, draw, verifiers } if *lease == id => {
                Some((*draw, &**verifiers))
            }
            _ => None,
        })
    }
}

impl Statement {
    /// Block, and place in it.
    const fn place(&self) -> (Height, u32) {
        (self.told.receipt.height, self.told.receipt.index)
    }

    fn operations(&self) -> impl Iterator<Item = &MarketOperation> {
        self.transaction.transaction.operations.iter().filter_map(|operation| match operation {
            Operation::Market(operation) => Some(operation),
            _ => None,
        })
    }

    /// What it says in the audit of a lease.
    pub fn said(&self, lease: LeaseId) -> Vec<&MarketOperation> {
        self.operations().filter(|operation| operation.audit() == Some(lease)).collect()
    }

    /// The spec of a task that it submits.
    pub fn submits(&self, chain: ChainId, task: TaskId) -> Option<&Spec> {
        let transaction = &self.transaction.transaction;
        let id = transaction.id(chain);
        (0u8..).zip(&transaction.operations).find_map(|(number, operation)| match operation {
            Operation::Market(MarketOperation::SubmitTask { spec, .. })
                if TaskId::of(&id, number) == task =>
            {
                Some(&**spec)
            }
            _ => None,
        })
    }

    /// What it commits to for a lease, and whether the lease ended with that.
    pub fn commits(&self, id: LeaseId) -> Option<(Commitment, bool)> {
        let made = self.operations().filter_map(|operation| match operation {
            MarketOperation::CommitTrace { lease, commitment, .. } if *lease == id => {
                Some(*commitment)
            }
            _ => None,
        });
        let commitment = made.last()?;
        let ended = self.told.receipt.events.iter().any(|event| {
            matches!(event, Event::Committed { lease, root, .. }
                if *lease == id && *root == commitment.root)
        });
        Some((commitment, ended))
    }
}

impl Moment {
    /// Block, and place in it: what a block does by itself comes first.
    const fn place(&self) -> (Height, u32) {
        match self {
            Self::Passed(height) => (*height, 0),
            Self::Told { told, .. } => (told.receipt.height, told.receipt.index),
            Self::Said(statement) => statement.place(),
        }
    }

    const fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Passed(_) => None,
            Self::Told { told, .. } => Some(&told.receipt),
            Self::Said(statement) => Some(&statement.told.receipt),
        }
    }
}

impl Blocks<'_> {
    fn header(&self, height: Height) -> Result<&Header, EvidenceError> {
        self.headers.get(&height).copied().ok_or(EvidenceError::NoBlock { height })
    }

    fn at(&self, height: Height) -> Result<At, EvidenceError> {
        Ok(At { height, time: self.header(height)?.time })
    }

    /// A receipt that is in its block.
    fn told(&self, told: &Told) -> Result<(), EvidenceError> {
        let Told { receipt, proof } = told;
        let height = receipt.height;
        let header = self.header(height)?;
        let placed =
            proof.index == receipt.index && proof.verify(&header.receipts, &receipt.digest());
        unless(placed, height, Link::Receipt)
    }

    /// A transaction that is in its block, was signed, and took effect.
    fn statement(&self, statement: &Statement) -> Result<(), EvidenceError> {
        let Statement { told, transaction: signed, proof } = statement;
        self.told(told)?;
        let (height, index) = statement.place();
        let chain = self.chain;
        if told.receipt.transaction != Some(signed.transaction.id(chain)) {
            return Err(EvidenceError::OtherTransaction { height, index });
        }
        let header = self.header(height)?;
        // The first receipt is that of the block itself.
        let placed = proof.index.checked_add(1) == Some(index)
            && proof.verify(&header.transactions, &signed.witness());
        unless(placed, height, Link::Transaction)?;
        let message = signed.transaction.signing_message(chain);
        let unsigned =
            signed.authorizations().any(|by| verify(&by.key, &message, &by.signature).is_err());
        if unsigned {
            return Err(EvidenceError::Unsigned { height, index });
        }
        if told.receipt.outcome == Outcome::Applied {
            Ok(())
        } else {
            Err(EvidenceError::Failed { height, index })
        }
    }
}

fn unless(placed: bool, height: Height, leaf: Link) -> Result<(), EvidenceError> {
    let error = VerifyError::NotIncluded { leaf };
    if placed { Ok(()) } else { Err(EvidenceError::Block { height, error }) }
}
