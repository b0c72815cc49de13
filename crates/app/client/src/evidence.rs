//! The evidence of an audit, put together from the blocks of a node.
//!
//! ```text
//!   blocks from the commitment to the end ──► what was said in the audit
//!                                                  │ the rules, once more
//!                                                  ▼
//!   deadlines that passed, beacons that decided ──► Evidence ──► anybody, offline
//! ```
//!
//! Nothing here is trusted: [`Evidence::verify`] checks what comes out. When a deadline passed is in no
//! block: it follows from the rules, to the block that rang the alarm. That is nearly always the first one a
//! quarter of a second of block time later; where the certificate says otherwise, earlier blocks are tried.

use crate::{Rpc, RpcError};
use opengpu_crypto::{MerkleProof, merkle};
use opengpu_light::{
    At, Closing, EpochStep, Evidence, EvidenceError, Facts, FinalizedHeader, Moment, ReceiptBundle,
    Replay, Statement, Told, What,
};
use opengpu_types::{
    BeaconRecord, Block, ChainId, Epoch, Event, Height, LeaseId, LeasePhase, MarketParameters,
    Millis, Outcome, Receipt, SegmentIndex, SignedTransaction, Task,
};
use opengpu_verify::audit;
use std::{cell::RefCell, collections::BTreeMap};

/// Milliseconds between the times at which alarms ring.
const TICK: u64 = 250;

/// Whoever has the blocks.
pub trait Chronicle {
    /// The first block whose receipts it has, and the last block.
    fn span(&self) -> Result<(Height, Height), RpcError>;
    /// The time of a block.
    fn time(&self, height: Height) -> Result<Millis, RpcError>;
    /// All receipts of a block, its own first.
    fn receipts(&self, height: Height) -> Result<Vec<Receipt>, RpcError>;
    /// All transactions of a block.
    fn transactions(&self, height: Height) -> Result<Vec<SignedTransaction>, RpcError>;
    /// A block's own receipt with its proofs, from the seats of an epoch on, as exported bytes.
    fn bundle(&self, height: Height, from: Epoch) -> Result<Vec<u8>, RpcError>;
}

impl Chronicle for Rpc {
    fn span(&self) -> Result<(Height, Height), RpcError> {
        let status = self.status()?;
        Ok((status.recorded_from, status.height))
    }

    fn time(&self, height: Height) -> Result<Millis, RpcError> {
        Ok(self.block(Some(height))?.time)
    }

    fn receipts(&self, height: Height) -> Result<Vec<Receipt>, RpcError> {
        Self::receipts(self, height)
    }

    fn transactions(&self, height: Height) -> Result<Vec<SignedTransaction>, RpcError> {
        Self::transactions(self, height)
    }

    fn bundle(&self, height: Height, from: Epoch) -> Result<Vec<u8>, RpcError> {
        self.receipt_at(height, 0, from)
    }
}

/// Why there is no evidence of an audit.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The node does not answer as needed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The task has no such lease.
    #[error("the task has no lease {number}: {}", match .leases {
        0 => "it has none".to_owned(),
        leases => format!("it has {leases}, counted from 0"),
    })]
    NoLease {
        /// The one that was asked for.
        number: u8,
        /// How many there are.
        leases: usize,
    },
    /// The network audits nothing like this.
    #[error("the task is not audited: {why}")]
    NotCovered {
        /// Why not.
        why: &'static str,
    },
    /// The lease ended without an audit.
    #[error("lease {number} was not audited")]
    NotAudited {
        /// Which.
        number: u8,
    },
    /// It has not ended.
    #[error("the audit of lease {number} still runs")]
    Running {
        /// Which.
        number: u8,
    },
    /// The lease is still at work.
    #[error(
        "lease {number} still runs, and is audited when its provider has committed to what it did"
    )]
    Working {
        /// Which.
        number: u8,
    },
    /// The node has forgotten the blocks.
    #[error("this node has blocks from {first} on, and the audit is older")]
    NotKept {
        /// The first that it has.
        first: Height,
    },
    /// The blocks do not tell what they must.
    #[error("the blocks of this node do not lead to the end of the audit")]
    Unfit(#[from] EvidenceError),
}

/// Which leases of a task have been audited, are audited now, or will be.
pub fn audited(task: &Task, parameters: &MarketParameters) -> Vec<u8> {
    if !parameters.audits.are_on() || !audit::covers(&task.spec) {
        return Vec::new();
    }
    let ran = task.leases.iter().map(|lease| match lease.phase {
        LeasePhase::Audited { .. } => true,
        LeasePhase::Closed { .. } => lease.commitment.is_some() && lease.verdict.is_some(),
        _ => false,
    });
    (0u8..).zip(ran).filter(|(_, ran)| *ran).map(|(number, _)| number).collect()
}

/// The evidence of the audit of one lease of a task, as a node has both.
pub fn collect(
    source: &impl Chronicle,
    (chain, parameters): (ChainId, &MarketParameters),
    (task, lease): (&Task, LeaseId),
) -> Result<Evidence, CollectError> {
    let number = lease.number;
    if !parameters.audits.are_on() {
        return Err(CollectError::NotCovered { why: "audits are off on this network" });
    }
    if !audit::covers(&task.spec) {
        let why = "only exact tasks in WebAssembly that anyone may see are";
        return Err(CollectError::NotCovered { why });
    }
    let leases = task.leases.len();
    let found = task.leases.get(usize::from(number));
    let found = found.ok_or(CollectError::NoLease { number, leases })?;
    match found.phase {
        LeasePhase::Closed { .. } if found.verdict.is_some() && found.commitment.is_some() => {}
        LeasePhase::Closed { .. } => return Err(CollectError::NotAudited { number }),
        LeasePhase::Audited { .. } => return Err(CollectError::Running { number }),
        _ => return Err(CollectError::Working { number }),
    }
    let archive = Archive::new(source, chain, lease)?;
    let submitted = archive.find(task.submitted, |it| it.submits(chain, lease.task).is_some())?;
    let origin = match found.from {
        None => None,
        Some(from) => {
            let makes = |it: &Statement, number| {
                let earlier = LeaseId { task: lease.task, number };
                it.commits(earlier).is_some_and(|(made, _)| made.reached == from)
            };
            let mut earlier = (0..number).zip(&task.leases).filter(|(_, it)| {
                it.commitment.is_some_and(|commitment| commitment.reached == from)
            });
            let (number, earlier) = earlier.next_back().ok_or(EvidenceError::OtherOrigin)?;
            Some(archive.find(earlier.committed, |it| makes(it, number))?)
        }
    };
    let committed = archive.find(found.committed, |it| it.commits(lease).is_some())?;
    archive.evidence(parameters, Made { submitted, origin, committed })
}

/// The transactions that made what is audited.
struct Made {
    submitted: Statement,
    origin: Option<Statement>,
    committed: Statement,
}

/// One block with what it tells of an audit.
struct Page {
    at: At,
    own: Receipt,
    proof: MerkleProof,
    said: Vec<Statement>,
}

impl Page {
    /// The end of the audit, if it is here.
    fn closing(&self, lease: LeaseId) -> Option<Closing> {
        let said = self.said.iter().map(|statement| &statement.told.receipt);
        said.chain([&self.own]).find_map(|receipt| Closing::of(receipt, lease))
    }
}

/// The blocks of a node, as far as they are needed.
struct Archive<'a, S> {
    source: &'a S,
    chain: ChainId,
    lease: LeaseId,
    first: Height,
    last: Height,
    headers: RefCell<BTreeMap<Height, FinalizedHeader>>,
}

impl<'a, S: Chronicle> Archive<'a, S> {
    fn new(source: &'a S, chain: ChainId, lease: LeaseId) -> Result<Self, CollectError> {
        let (first, last) = source.span()?;
        let headers = RefCell::new(BTreeMap::new());
        Ok(Self { source, chain, lease, first: first.max(Height(1)), last, headers })
    }

    /// The block of a time: times of blocks grow.
    fn height_at(&self, time: Millis) -> Result<Height, CollectError> {
        let (mut low, mut high) = (self.first.0, self.last.0);
        if time < self.source.time(self.first)? {
            return Err(CollectError::NotKept { first: self.first });
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.source.time(Height(middle))? < time {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        Ok(Height(low))
    }

    /// The last transaction like this in the block of a time.
    fn find(
        &self,
        time: Millis,
        wanted: impl Fn(&Statement) -> bool,
    ) -> Result<Statement, CollectError> {
        let height = self.height_at(time)?;
        let receipts = self.source.receipts(height)?;
        let statements = self.statements(height, &receipts)?;
        let found = statements.into_iter().rev().find(|it| wanted(it));
        found.ok_or_else(|| EvidenceError::NoBlock { height }.into())
    }

    /// The transactions of a block that took effect, with their places.
    fn statements(
        &self,
        height: Height,
        receipts: &[Receipt],
    ) -> Result<Vec<Statement>, CollectError> {
        let transactions = self.source.transactions(height)?;
        let leaves: Vec<_> = receipts.iter().map(Receipt::digest).collect();
        let witnesses: Vec<_> = transactions.iter().map(SignedTransaction::witness).collect();
        let placed = |(place, transaction): (u32, SignedTransaction)| {
            let proof = merkle::prove(&witnesses, place)?;
            let index = place.checked_add(1)?;
            let receipt = receipts.get(usize::try_from(index).ok()?)?.clone();
            if receipt.outcome != Outcome::Applied {
                return None;
            }
            let told = Told { receipt, proof: merkle::prove(&leaves, index)? };
            Some(Statement { told, transaction, proof })
        };
        let most = u32::try_from(Block::MAX_TRANSACTIONS).unwrap_or(u32::MAX);
        Ok((0..most).zip(transactions).filter_map(placed).collect())
    }

    /// A block with what it tells of the audit.
    fn page(&self, height: Height) -> Result<Page, CollectError> {
        let receipts = self.source.receipts(height)?;
        let mut said = match receipts.len() {
            0 | 1 => Vec::new(),
            _ => self.statements(height, &receipts)?,
        };
        said.retain(|statement| !statement.said(self.lease).is_empty());
        let leaves: Vec<_> = receipts.iter().map(Receipt::digest).collect();
        let proof = merkle::prove(&leaves, 0).ok_or(EvidenceError::NoBlock { height })?;
        let own = receipts.into_iter().next().ok_or(EvidenceError::NoBlock { height })?;
        let at = At { height, time: self.source.time(height)? };
        Ok(Page { at, own, proof, said })
    }

    /// All blocks from the commitment to the end of the audit.
    fn pages(&self, from: Height) -> Result<Vec<Page>, CollectError> {
        let mut pages = Vec::new();
        for height in (from.0..=self.last.0).map(Height) {
            let page = self.page(height)?;
            let closing = page.closing(self.lease);
            pages.push(page);
            if closing.is_some() {
                return Ok(pages);
            }
        }
        Err(CollectError::NotAudited { number: self.lease.number })
    }

    /// A header with its certificate.
    fn header(&self, height: Height) -> Result<FinalizedHeader, CollectError> {
        if let Some(found) = self.headers.borrow().get(&height) {
            return Ok(found.clone());
        }
        let found = self.bundle(height, None)?.finalized;
        self.headers.borrow_mut().insert(height, found.clone());
        Ok(found)
    }

    fn bundle(&self, height: Height, from: Option<Epoch>) -> Result<ReceiptBundle, CollectError> {
        let bytes = self.source.bundle(height, from.unwrap_or(Epoch(0)))?;
        let bundle = ReceiptBundle::from_bytes(&bytes);
        Ok(bundle.map_err(|error| EvidenceError::Block { height, error })?)
    }

    fn evidence(
        &self,
        parameters: &MarketParameters,
        made: Made,
    ) -> Result<Evidence, CollectError> {
        let facts = made.facts(self.chain, self.lease)?;
        let pages = self.pages(facts.committed)?;
        let closing = pages.last().and_then(|page| page.closing(self.lease));
        let closing = closing.ok_or(EvidenceError::Unfinished)?;
        let mut refused = None;
        // Alarms that rang early are rare, and two of them in one audit rarer.
        for early in std::iter::once(None).chain((0..self.deadlines(&pages)).map(Some)) {
            let replay =
                Replay::new(self.chain, facts.clone(), closing.certificate.rate, *parameters)?;
            match self.course(replay, (&pages, &closing), early) {
                Ok(course) => return self.gather(made, course),
                Err(CollectError::Unfit(error)) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(EvidenceError::Unfinished).into())
    }

    /// More deadlines than can have passed between what was said.
    fn deadlines(&self, pages: &[Page]) -> usize {
        let said: usize = pages.iter().map(|page| page.said.len()).sum();
        said.saturating_add(8)
    }

    /// What happened, in order, if the alarm of one of the deadlines rang early.
    fn course(
        &self,
        mut replay: Replay,
        (pages, closing): (&[Page], &Closing),
        early: Option<usize>,
    ) -> Result<Vec<Moment>, CollectError> {
        let (mut course, mut passed) = (Vec::new(), 0_usize);
        for page in pages {
            let at = page.at;
            let told = || Told { receipt: page.own.clone(), proof: page.proof.clone() };
            let closes = Closing::of(&page.own, self.lease).is_some();
            let draws = page.own.events.iter().any(
                |event| matches!(event, Event::AuditDrawn { lease, .. } if *lease == self.lease),
            );
            let rings = replay.due().is_some_and(|due| {
                let rung = if early == Some(passed) { due } else { rung(due) };
                rung <= at.time
            });
            if draws {
                let told = told();
                let seed = self.draw(&mut replay, at, &told, closing)?;
                course.push(Moment::Told { told, seed });
            } else if closes {
                replay.passed(at)?;
                course.push(Moment::Told { told: told(), seed: None });
            } else if rings {
                passed = passed.saturating_add(1);
                replay.passed(at)?;
                course.push(Moment::Passed(at.height));
            }
            for statement in &page.said {
                let index = statement.told.receipt.index;
                let sender = statement.transaction.transaction.sender;
                for said in statement.said(self.lease) {
                    replay.said((at, index), sender, said)?;
                }
                course.push(Moment::Said(Box::new(statement.clone())));
            }
        }
        let end = pages.last().map(|page| page.at).ok_or(EvidenceError::Unfinished)?;
        replay.close(end, closing.clone())?;
        Ok(course)
    }

    /// Replays a draw with the beacon that decided it; says of which height that is.
    fn draw(
        &self,
        replay: &mut Replay,
        at: At,
        told: &Told,
        closing: &Closing,
    ) -> Result<Option<Height>, CollectError> {
        let other = EvidenceError::OtherDraw { height: at.height };
        let (drawn, wanted) = told.drawn(self.lease).zip(replay.wanted()).ok_or(other)?;
        if replay.knows_seed() {
            let kept = at.height.0.saturating_sub(wanted.0) < u64::from(BeaconRecord::KEPT);
            let height = if kept { wanted } else { at.height };
            let header = self.header(height)?.header;
            replay.drawn(at, Some((height, &header.beacon)), drawn)?;
            return Ok(Some(height));
        }
        if drawn.1.is_empty() {
            replay.drawn(at, None, drawn)?;
            return Ok(None);
        }
        // When the lease was lost is told by nothing but the draw itself, which follows soon.
        let lowest = wanted.0.max(at.height.0.saturating_sub(u64::from(BeaconRecord::KEPT)));
        for height in (lowest..=at.height.0).rev().map(Height) {
            let (header, mut tried) = (self.header(height)?.header, replay.clone());
            if tried.drawn(at, Some((height, &header.beacon)), drawn).is_ok()
                && agrees(&tried, closing)
            {
                *replay = tried;
                return Ok(Some(height));
            }
        }
        Err(EvidenceError::OtherSeed { height: at.height }.into())
    }

    /// The evidence, with the blocks that it needs and the steps to their seats.
    fn gather(&self, made: Made, course: Vec<Moment>) -> Result<Evidence, CollectError> {
        let Made { submitted, origin, committed } = made;
        let (steps, blocks, lease) = (Vec::new(), Vec::new(), self.lease);
        let mut evidence = Evidence { steps, blocks, lease, submitted, origin, committed, course };
        let needed = evidence.needed();
        let mut from = Epoch(0);
        for height in needed {
            // Each answer leads on from the epoch of the one before.
            let known = self.headers.borrow().get(&height).cloned();
            let epoch = known.as_ref().map(|known| known.header.epoch);
            let finalized = match known {
                Some(known) if epoch == Some(from) => known,
                _ => {
                    let bundle = self.bundle(height, Some(from))?;
                    evidence.steps.extend(bundle.steps);
                    bundle.finalized
                }
            };
            from = finalized.header.epoch;
            evidence.blocks.push(finalized);
        }
        Ok(evidence)
    }
}

impl Made {
    fn facts(&self, chain: ChainId, lease: LeaseId) -> Result<Facts, EvidenceError> {
        let Self { submitted, origin, committed } = self;
        let (steps, blocks, course) = (Vec::<EpochStep>::new(), Vec::new(), Vec::new());
        let (submitted, origin) = (submitted.clone(), origin.clone());
        let committed = committed.clone();
        Evidence { steps, blocks, lease, submitted, origin, committed, course }.facts(chain)
    }
}

/// When the alarm of a deadline rings, if nothing else rings before.
fn rung(due: Millis) -> Millis {
    Millis(due.0.div_ceil(TICK).saturating_mul(TICK))
}

/// Whether a first draw is that of the certificate.
fn agrees(replay: &Replay, closing: &Closing) -> bool {
    let Some(What::Drawn { seats, .. }) = replay.course().last().map(|it| &it.what) else {
        return true;
    };
    let first = closing.certificate.seats.iter().filter(|seat| seat.draw == 1);
    let first = first.map(|seat| {
        let duties: Vec<SegmentIndex> = seat.duties.iter().map(|duty| duty.index).collect();
        (seat.verifier, duties)
    });
    first.eq(seats.iter().cloned())
}
