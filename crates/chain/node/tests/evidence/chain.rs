//! What the ledger's tests played, as a chain: headers, certificates of its real seats, and a node that has
//! the blocks.

use crate::market::audited::{Court, Kind, Lie};
use commonware_codec::Encode as _;
use commonware_consensus::{
    simplex::types::{Finalize, Proposal},
    types::{Epoch as EngineEpoch, Round, View as EngineView},
};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use commonware_parallel::Sequential;
use commonware_utils::non_empty;
use opengpu_client::{
    RpcError,
    evidence::{Chronicle, CollectError, collect},
};
use opengpu_crypto::merkle;
use opengpu_light::{
    EpochStep, Evidence, EvidenceError, Finalization, FinalizedHeader, Moment, ReceiptBundle,
    Report, Scheme, Told, Trust, voters,
};
use opengpu_types::{
    Block, Digest, Epoch, Header, Height, Millis, Receipt, RuleVersion, SeatSet, SignedTransaction,
    StateCommitment, consensus_namespace,
};
use rand::{SeedableRng as _, rngs::StdRng};

/// A court whose blocks are final.
pub(crate) struct Chain {
    pub(crate) court: Court,
    /// The first block whose receipts are kept.
    pub(crate) first: Height,
    headers: Vec<Header>,
}

const fn never(_: &opengpu_types::AuditPhase) -> bool {
    false
}

/// An honest run.
pub(crate) fn upheld() -> Chain {
    Chain::played(Lie::None, Kind::Honest)
}

/// A false step, found and narrowed.
pub(crate) fn dissected() -> Chain {
    Chain::played(Lie::Steps, Kind::Honest)
}

/// A provider that does not open what it committed to.
pub(crate) fn silent() -> Chain {
    let mut court = Court::new(Lie::None, Kind::Honest);
    court.play(|phase| *phase == opengpu_types::AuditPhase::Opening);
    court.until(never);
    Chain::of(court)
}

impl Chain {
    pub(crate) fn played(lie: Lie, kind: Kind) -> Self {
        let mut court = Court::new(lie, kind);
        court.play(never);
        Self::of(court)
    }

    pub(crate) fn of(court: Court) -> Self {
        let recorded = court.bazaar.network.recorded.as_ref().unwrap();
        let mut headers: Vec<Header> = Vec::new();
        for block in recorded {
            let leaves: Vec<_> = block.receipts.iter().map(Receipt::digest).collect();
            let context = &block.context;
            headers.push(Header {
                chain: context.chain,
                rules: RuleVersion(1),
                upgrade: None,
                height: context.height,
                epoch: block.seats.epoch,
                view: context.view,
                parent_view: context.parent_view,
                leader: context.leader,
                parent: headers.last().map_or(Digest([0; 32]), Header::digest),
                time: context.time,
                beacon: context.beacon,
                state: StateCommitment {
                    root: Digest([1; 32]),
                    log_root: Digest([2; 32]),
                    log_start: 0,
                    log_end: 1,
                },
                transactions: Block::transactions_root(&block.transactions),
                receipts: merkle::root(&leaves),
                next_seats: block.next_seats,
            });
        }
        Self { court, first: Height(1), headers }
    }

    fn recorded(&self, height: Height) -> &crate::support::Recorded {
        let place = usize::try_from(height.0).unwrap() - 1;
        &self.court.bazaar.network.recorded.as_ref().unwrap()[place]
    }

    /// A header with the votes of three of its four seats.
    pub(crate) fn finalized(&self, height: Height) -> FinalizedHeader {
        let header = self.headers[usize::try_from(height.0).unwrap() - 1].clone();
        let seats = &self.recorded(height).seats;
        let voters = voters(seats).unwrap();
        let namespace = consensus_namespace(header.chain);
        let schemes: Vec<_> = (0..3)
            .map(PrivateKey::from_seed)
            .map(|key| {
                assert!(voters.position(&key.public_key()).is_some());
                Scheme::signer(&namespace, voters.clone(), key).unwrap()
            })
            .collect();
        let round = Round::new(EngineEpoch::new(header.epoch.0), EngineView::new(header.view.0));
        let parent = EngineView::new(header.parent_view.0);
        let proposal = Proposal::new(round, parent, header.digest());
        let vote = |scheme| Finalize::sign(scheme, proposal.clone()).unwrap();
        let votes: Vec<_> = schemes.iter().map(vote).collect();
        let votes = Finalization::from_finalizes(&schemes[0], non_empty![@&votes], &Sequential);
        let certificate = votes.unwrap().encode().to_vec();
        FinalizedHeader { header, descendants: Vec::new(), certificate }
    }

    fn seats(&self, epoch: Epoch) -> Option<&SeatSet> {
        let recorded = self.court.bazaar.network.recorded.as_ref().unwrap();
        recorded.iter().map(|block| &block.seats).find(|seats| seats.epoch == epoch)
    }

    pub(crate) fn trust(&self) -> Trust {
        let chain = self.headers[0].chain;
        Trust { chain, seats: self.seats(Epoch(0)).unwrap().clone() }
    }

    pub(crate) fn collect(&self) -> Result<Evidence, CollectError> {
        let network = &self.court.bazaar.network;
        let about = (network.genesis.chain, &network.genesis.parameters.market);
        let task = self.court.bazaar.task(self.court.task());
        collect(self, about, (&task, self.court.id))
    }

    pub(crate) fn verify(&self, evidence: &Evidence) -> Result<Report, EvidenceError> {
        let parameters = &self.court.bazaar.network.genesis.parameters.market;
        evidence.verify(&mut StdRng::seed_from_u64(1), self.trust(), parameters)
    }

    /// Gives evidence exactly the blocks that it needs.
    pub(crate) fn supply(&self, evidence: &mut Evidence) {
        let needed = evidence.needed();
        evidence.blocks = needed.into_iter().map(|height| self.finalized(height)).collect();
        let last = evidence.blocks.last().unwrap().header.epoch;
        evidence.steps.retain(|step| step.seats.epoch <= last);
    }

    /// Tells the same things in the blocks of this chain: with its receipts and certificates.
    pub(crate) fn retell(&self, evidence: &mut Evidence) {
        let again = |told: &mut Told| {
            let height = told.receipt.height;
            let receipts = &self.recorded(height).receipts;
            let leaves: Vec<_> = receipts.iter().map(Receipt::digest).collect();
            told.receipt = receipts[usize::try_from(told.receipt.index).unwrap()].clone();
            told.proof = merkle::prove(&leaves, told.receipt.index).unwrap();
        };
        again(&mut evidence.submitted.told);
        again(&mut evidence.committed.told);
        for moment in &mut evidence.course {
            match moment {
                Moment::Passed(_) => {}
                Moment::Told { told, .. } => again(told),
                Moment::Said(statement) => again(&mut statement.told),
            }
        }
        for block in &mut evidence.blocks {
            *block = self.finalized(block.header.height);
        }
        for step in &mut evidence.steps {
            step.finalized = self.finalized(step.finalized.header.height);
        }
    }
}

impl Chronicle for Chain {
    fn span(&self) -> Result<(Height, Height), RpcError> {
        Ok((self.first, self.headers.last().unwrap().height))
    }

    fn time(&self, height: Height) -> Result<Millis, RpcError> {
        Ok(self.recorded(height).context.time)
    }

    fn receipts(&self, height: Height) -> Result<Vec<Receipt>, RpcError> {
        Ok(self.recorded(height).receipts.clone())
    }

    fn transactions(&self, height: Height) -> Result<Vec<SignedTransaction>, RpcError> {
        Ok(self.recorded(height).transactions.clone())
    }

    fn bundle(&self, height: Height, from: Epoch) -> Result<Vec<u8>, RpcError> {
        let finalized = self.finalized(height);
        let to = finalized.header.epoch;
        let steps = (from.0..to.0).map(|epoch| {
            // Any block of an epoch announces the seats of the next one.
            let header = self.headers.iter().rfind(|it| it.epoch == Epoch(epoch)).unwrap();
            let seats = self.seats(Epoch(epoch + 1)).unwrap().clone();
            EpochStep { finalized: self.finalized(header.height), seats }
        });
        let receipts = &self.recorded(height).receipts;
        let leaves: Vec<_> = receipts.iter().map(Receipt::digest).collect();
        let (receipt, proof) = (receipts[0].clone(), merkle::prove(&leaves, 0).unwrap());
        Ok(ReceiptBundle { steps: steps.collect(), finalized, receipt, proof }.to_bytes())
    }
}
