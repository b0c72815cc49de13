//! What a chain says of the audit of one task: who was drawn, what was said, how it ended, and how many
//! bytes that took.
//!
//! Blocks come in as they are read back, from a node or from a ledger in memory; nothing here asks anybody.

use commonware_codec::EncodeSize as _;
use opengpu_types::{
    Address, Audit, ChainId, Event, Height, LeaseId, MarketOperation, Operation, Receipt,
    SignedTransaction, TaskId, Verdict,
};

/// A lease of the task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) lease: LeaseId,
    pub(super) provider: Address,
    pub(super) verdict: Option<Verdict>,
    pub(super) at: Height,
}

/// The story of one task.
#[derive(Clone, Debug)]
pub(super) struct Story {
    chain: ChainId,
    task: TaskId,
    /// Who got a lease of it.
    pub(super) providers: Vec<Address>,
    /// When the first commitment was there.
    pub(super) committed: Option<Height>,
    /// When somebody first said that a segment is another one.
    pub(super) objected: Option<Height>,
    /// Who was drawn, in all draws.
    pub(super) verifiers: Vec<Address>,
    /// How the audit stood at its end.
    pub(super) audit: Option<Audit>,
    pub(super) closed: Vec<Closed>,
    /// Transactions that belong to the audit.
    pub(super) count: usize,
    /// Their bytes, as they were signed.
    pub(super) transactions: usize,
    /// Bytes of their receipts, and of what blocks told of the audit by themselves.
    pub(super) receipts: usize,
}

impl Story {
    pub(super) const fn new(chain: ChainId, task: TaskId) -> Self {
        Self {
            chain,
            task,
            providers: Vec::new(),
            committed: None,
            objected: None,
            verifiers: Vec::new(),
            audit: None,
            closed: Vec::new(),
            count: 0,
            transactions: 0,
            receipts: 0,
        }
    }

    /// Reads the next block.
    pub(super) fn read(
        &mut self,
        height: Height,
        receipts: &[Receipt],
        transactions: &[SignedTransaction],
    ) {
        let own: Vec<_> =
            transactions.iter().filter(|it| self.is_about(&it.transaction.operations)).collect();
        for signed in &own {
            self.count = self.count.saturating_add(1);
            self.transactions = self.transactions.saturating_add(signed.encode_size());
            if signed.transaction.operations.iter().any(objects) {
                self.objected = self.objected.or(Some(height));
            }
        }
        let ids: Vec<_> = own.iter().map(|it| it.transaction.id(self.chain)).collect();
        for receipt in receipts {
            if receipt.transaction.is_some_and(|id| ids.contains(&id)) {
                self.receipts = self.receipts.saturating_add(receipt.encode_size());
            }
            for event in &receipt.events {
                self.hear(height, event, receipt.transaction.is_none());
            }
        }
    }

    /// Whether an operation is said in the audit.
    fn is_about(&self, operations: &[Operation]) -> bool {
        operations.iter().filter_map(audited).any(|lease| lease.task == self.task)
    }

    fn hear(&mut self, height: Height, event: &Event, by_block: bool) {
        match event {
            Event::LeaseOpened { lease, provider, .. } if lease.task == self.task => {
                self.providers.push(*provider);
            }
            Event::Committed { lease, .. } if lease.task == self.task => {
                self.committed = self.committed.or(Some(height));
            }
            Event::AuditDrawn { lease, verifiers, .. } if lease.task == self.task => {
                self.verifiers.extend(verifiers.iter().copied());
                self.told(event, by_block);
            }
            Event::StatePosted { lease, .. } if lease.task == self.task => {
                self.told(event, by_block);
            }
            Event::AuditClosed { lease, audit, .. } if lease.task == self.task => {
                self.audit = Some((**audit).clone());
                self.told(event, by_block);
            }
            Event::LeaseClosed { lease, provider, verdict, .. } if lease.task == self.task => {
                let (lease, provider, verdict) = (*lease, *provider, *verdict);
                self.closed.push(Closed { lease, provider, verdict, at: height });
            }
            _ => {}
        }
    }

    /// What a block tells by itself has no receipt of its own; what a transaction did is in its receipt.
    fn told(&mut self, event: &Event, by_block: bool) {
        let size = if by_block { event.encode_size() } else { 0 };
        self.receipts = self.receipts.saturating_add(size);
    }

    /// Segments that were drawn and repeated, without the beginning.
    pub(super) fn segments(&self) -> usize {
        let seats = self.audit.iter().flat_map(|audit| &audit.seats);
        seats.flat_map(|seat| &seat.duties).filter(|duty| duty.index.0 > 0).count()
    }

    /// When the first lease was closed.
    pub(super) fn ended(&self) -> Option<Height> {
        self.closed.first().map(|it| it.at)
    }
}

/// The lease in whose audit an operation is said, if it is one of an audit.
const fn audited(operation: &Operation) -> Option<LeaseId> {
    let Operation::Market(operation) = operation else { return None };
    match operation {
        MarketOperation::AnswerAudit { lease, .. }
        | MarketOperation::PostState { lease, .. }
        | MarketOperation::OpenLeaves { lease, .. }
        | MarketOperation::RevealAnswers { lease, .. }
        | MarketOperation::DisputeSegment { lease, .. }
        | MarketOperation::MoveDispute { lease, .. }
        | MarketOperation::ShowUnit { lease, .. } => Some(*lease),
        _ => None,
    }
}

/// Whether somebody says with it that a segment is another one. Who reveals another beginning shows no
/// leaf before it, and is seen when it shows the unit.
fn objects(operation: &Operation) -> bool {
    match operation {
        Operation::Market(MarketOperation::RevealAnswers { reveals, .. }) => {
            reveals.iter().any(|reveal| reveal.before.is_some())
        }
        Operation::Market(
            MarketOperation::DisputeSegment { .. }
            | MarketOperation::MoveDispute { .. }
            | MarketOperation::ShowUnit { .. },
        ) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Keypair;
    use opengpu_types::{
        Amount, AuditLeaf, AuditReveal, Authorization, Digest, List, Nonce, Outcome, Segment,
        SegmentIndex, Text, Transaction, Weight,
    };

    const CHAIN: ChainId = ChainId(7);
    const OURS: LeaseId = LeaseId { task: TaskId(Digest([1; 32])), number: 0 };
    const OTHER: LeaseId = LeaseId { task: TaskId(Digest([2; 32])), number: 0 };

    fn reveal(lease: LeaseId, objects: bool) -> MarketOperation {
        let digest = Digest([3; 32]);
        let segment = Segment {
            index: SegmentIndex(3),
            state: opengpu_types::ArtifactId(digest),
            emitted: digest,
            metered: opengpu_types::Metered::default(),
        };
        let leaf = AuditLeaf { segment, siblings: List::empty() };
        let before = objects.then_some(leaf);
        let reveal = AuditReveal { index: SegmentIndex(4), answer: digest, salt: [5; 32], before };
        let reveals = List::new(vec![reveal]).unwrap();
        MarketOperation::RevealAnswers { lease, tree: digest, reveals }
    }

    fn signed(operation: MarketOperation) -> SignedTransaction {
        let keypair = Keypair::ed25519([1; 32]);
        let transaction = Transaction {
            sender: keypair.address(),
            nonce: Nonce(1),
            valid_until: Height(1),
            max_fee: Amount::ZERO,
            tip: Amount::ZERO,
            sponsor: None,
            operations: List::new(vec![Operation::Market(operation)]).unwrap(),
            memo: Text::default(),
        };
        let signature = keypair.sign_bytes(&transaction.signing_message(CHAIN));
        let signer = Authorization { key: keypair.public_key(), signature };
        SignedTransaction { transaction, signer, sponsor: None }
    }

    fn receipt(of: Option<&SignedTransaction>, events: Vec<Event>) -> Receipt {
        Receipt {
            height: Height(5),
            index: 0,
            transaction: of.map(|it| it.transaction.id(CHAIN)),
            outcome: Outcome::Applied,
            fee: Amount::ZERO,
            weight: Weight(1),
            events: List::new(events).unwrap(),
        }
    }

    #[test]
    fn bytes_are_those_of_the_own_audit_and_of_no_other() {
        let (ours, other) = (signed(reveal(OURS, false)), signed(reveal(OTHER, false)));
        let posted = Event::StatePosted { lease: OURS, segment: 4 };
        let block = receipt(None, vec![posted.clone(), Event::TaskEdited { task: OURS.task }]);
        let receipts = [
            block,
            receipt(Some(&ours), vec![posted.clone()]),
            receipt(Some(&other), vec![Event::StatePosted { lease: OTHER, segment: 4 }]),
        ];
        let mut story = Story::new(CHAIN, OURS.task);
        story.read(Height(5), &receipts, &[other, ours.clone()]);
        assert_eq!((story.count, story.transactions), (1, ours.encode_size()));
        // The event of the block by itself, and the receipt with its event; none counts twice.
        assert_eq!(story.receipts, posted.encode_size() + receipts[1].encode_size());
        assert_eq!(story.objected, None, "nobody has objected");
    }

    #[test]
    fn an_objection_is_a_reveal_with_the_leaf_before_and_the_first_one_counts() {
        let mut story = Story::new(CHAIN, OURS.task);
        story.read(Height(5), &[], &[signed(reveal(OTHER, true)), signed(reveal(OURS, false))]);
        assert_eq!(story.objected, None);
        story.read(Height(6), &[], &[signed(reveal(OURS, true))]);
        story.read(Height(7), &[], &[signed(reveal(OURS, true))]);
        assert_eq!(story.objected, Some(Height(6)));
    }

    #[test]
    fn the_story_tells_who_had_the_lease_when_it_was_committed_to_and_how_it_ended() {
        let provider = Keypair::ed25519([2; 32]).address();
        let (root, output) = (Digest([4; 32]), opengpu_types::ArtifactId(Digest([5; 32])));
        let opened =
            |lease| Event::LeaseOpened { lease, provider, rate: Amount::ONE, most: Amount::ONE };
        let committed = Event::Committed { lease: OURS, root, output };
        let closed = Event::LeaseClosed {
            lease: OURS,
            provider,
            reason: opengpu_types::CloseReason::Refuted,
            verdict: Some(Verdict::Refuted),
            root: Some(root),
            output: Some(output),
            time: opengpu_types::Millis(1),
            paid: Amount::ZERO,
        };
        let mut story = Story::new(CHAIN, OURS.task);
        story.read(Height(5), &[receipt(None, vec![opened(OTHER), opened(OURS)])], &[]);
        story.read(Height(8), &[receipt(None, vec![committed])], &[]);
        story.read(Height(9), &[receipt(None, vec![closed])], &[]);
        assert_eq!(story.providers, [provider]);
        assert_eq!((story.committed, story.ended()), (Some(Height(8)), Some(Height(9))));
        assert_eq!(story.closed[0].verdict, Some(Verdict::Refuted));
    }
}
