//! The chain of an agent over the RPC of a node.
//!
//! What a provider owes for an open lease is sent free of fees; everything else is paid by the account,
//! or by a sponsor that was named. Operations go one after the other, so that their numbers do.
//! A node that is away is an error of that moment only: nothing here ends with it.

use opengpu_agent::chain::{Chain, ChainError, Final};
use opengpu_client::{
    Draft, Facts, Rpc, Signatory, Signer, TransactionBuilder,
    api::{Progress, Submission, SubmissionStatus},
    wait_until_final,
};
use opengpu_types::{
    Address, Amount, ChainId, Entry, Event, Height, Key, MarketOperation, MarketParameters,
    Operation, Outcome, Receipt, Transaction, TransactionId,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Blocks that an operation may wait: what is repeated must not come twice much later.
const VALID_FOR: u64 = 120;
/// How long an operation may take to be final.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often an operation gets another number when somebody else has taken its own.
const TRIES: u32 = 3;

/// The account of a provider on the chain of a node.
pub(crate) struct NodeChain {
    rpc: Rpc,
    id: ChainId,
    owner: Signatory,
    sponsor: Option<Signatory>,
    /// The newest height that is known.
    seen: AtomicU64,
    /// Held from the number of an operation to its end.
    turn: Mutex<()>,
}

impl NodeChain {
    /// The chain of a node that answers now, for the owner of an account.
    pub(crate) fn open(
        rpc: Rpc,
        owner: Signatory,
        sponsor: Option<Signatory>,
    ) -> Result<Self, opengpu_client::RpcError> {
        let status = rpc.status()?;
        let seen = AtomicU64::new(status.height.0);
        Ok(Self { rpc, id: status.chain, owner, sponsor, seen, turn: Mutex::default() })
    }

    /// A draft with the number that is next, signed by all who must.
    fn signed(&self, operation: &MarketOperation, free: bool) -> Result<Draft, ChainError> {
        let (signer, sender) = (Signer::from(&self.owner), self.owner.account);
        let nonce = signer.next_nonce(&self.rpc, sender).map_err(told)?;
        let facts = Facts::ask(&self.rpc).map_err(told)?;
        let mut builder = TransactionBuilder::new(sender)
            .operation(Operation::Market(operation.clone()))
            .valid_for(VALID_FOR);
        // A duty has no sponsor.
        let sponsor = self.sponsor.as_ref().filter(|_| !free);
        if free {
            builder = builder.max_fee(Amount::ZERO);
        }
        if let Some(sponsor) = sponsor {
            builder = builder.sponsor(Signer::from(sponsor));
        }
        let (mut draft, _) = builder.draft(&facts, signer, nonce).map_err(told)?;
        for signatory in std::iter::once(&self.owner).chain(sponsor) {
            draft.sign(signatory).map_err(told)?;
        }
        Ok(draft)
    }

    /// Gives a draft to the node; says what the node says of it.
    fn hand_in(&self, draft: Draft) -> Result<Submission, ChainError> {
        let answers = self.rpc.submit(vec![draft.finish().map_err(told)?]).map_err(told)?;
        answers.into_iter().next().ok_or_else(|| ChainError("no answer to a transaction".into()))
    }

    /// Sends an operation, with another number if its own was taken meanwhile.
    fn send(&self, operation: &MarketOperation, free: bool) -> Result<Sent, ChainError> {
        for _ in 0..TRIES {
            let draft = self.signed(operation, free)?;
            let (id, until) = (draft.id(), draft.transaction.valid_until);
            let answer = self.hand_in(draft)?;
            if answer.status != SubmissionStatus::Refused {
                return Ok(Sent::Taken { id, until });
            }
            let code = answer.code.unwrap_or_else(|| "refused".to_owned());
            let progress = self.rpc.transaction(id).map_err(told)?.status;
            if matches!(progress, Progress::Pending | Progress::Finalized) {
                return Ok(Sent::Taken { id, until });
            }
            if code != "nonce-used" {
                return Ok(Sent::Refused { reason: answer.reason.unwrap_or(code) });
            }
        }
        Ok(Sent::Refused { reason: "its number is taken again and again".to_owned() })
    }

    /// A block with what happened in it.
    fn block(&self, height: Height) -> Result<Final, ChainError> {
        let time = self.rpc.block(Some(height)).map_err(told)?.time;
        let events = events(self.rpc.receipts(height).map_err(told)?);
        Ok(Final { height, time, events })
    }

    /// What became of a transaction, exactly.
    fn outcome(&self, id: TransactionId, until: Height) -> Result<Outcome, ChainError> {
        let info = wait_until_final(&self.rpc, id, until, PATIENCE).map_err(told)?;
        let missing = || ChainError(format!("the node has no receipt of {id}"));
        let height = info.height.ok_or_else(missing)?;
        let receipts = self.rpc.receipts(height).map_err(told)?;
        let own = receipts.into_iter().find(|receipt| receipt.transaction == Some(id));
        Ok(own.ok_or_else(missing)?.outcome)
    }
}

/// How a submission ended.
enum Sent {
    Taken { id: TransactionId, until: Height },
    Refused { reason: String },
}

fn told(error: impl std::fmt::Display) -> ChainError {
    ChainError(error.to_string())
}

/// Whether an operation is sent free of fees, and then for a fee.
const fn ways(operation: &MarketOperation) -> &'static [bool] {
    match operation {
        // What is no duty right now may be done all the same by whoever has tokens.
        MarketOperation::Heartbeat
        | MarketOperation::OpenBid { .. }
        | MarketOperation::CommitTrace { .. }
        | MarketOperation::OpenOutput { .. }
        | MarketOperation::ReleaseLease { .. }
        | MarketOperation::ClaimUsage { .. } => &[true, false],
        // What nobody waits for in an audit or a trial would be refused, and cost a fee.
        MarketOperation::AnswerAudit { .. }
        | MarketOperation::PostState { .. }
        | MarketOperation::OpenLeaves { .. }
        | MarketOperation::RevealAnswers { .. }
        | MarketOperation::MoveDispute { .. }
        | MarketOperation::ShowUnit { .. }
        | MarketOperation::CommitTrial { .. }
        | MarketOperation::OpenTrial { .. } => &[true],
        _ => &[false],
    }
}

/// What happened in a block: a transaction that failed did nothing that counts.
fn events(receipts: Vec<Receipt>) -> Vec<Event> {
    let applied = receipts.into_iter().filter(|receipt| receipt.outcome == Outcome::Applied);
    applied.flat_map(|receipt| receipt.events.into_vec()).collect()
}

impl Chain for NodeChain {
    fn id(&self) -> ChainId {
        self.id
    }

    fn account(&self) -> Address {
        self.owner.account
    }

    fn parameters(&self) -> Result<MarketParameters, ChainError> {
        Ok(self.rpc.parameters().map_err(told)?.parameters.market)
    }

    fn entry(&self, key: &Key) -> Result<Option<Entry>, ChainError> {
        self.rpc.entry(key).map_err(told)
    }

    fn submit(&self, operation: MarketOperation) -> Result<Outcome, ChainError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused = Vec::new();
        for free in ways(&operation) {
            match self.send(&operation, *free)? {
                Sent::Taken { id, until } => return self.outcome(id, until),
                Sent::Refused { reason } => refused.push(reason),
            }
        }
        Err(ChainError(format!("refused: {}", refused.join("; "))))
    }

    fn transactions(&self, height: Height) -> Result<Vec<Transaction>, ChainError> {
        let signed = self.rpc.transactions(height).map_err(told)?;
        Ok(signed.into_iter().map(|signed| signed.transaction).collect())
    }

    fn tip(&self) -> Result<Final, ChainError> {
        let status = self.rpc.status().map_err(told)?;
        self.seen.fetch_max(status.height.0, Ordering::Relaxed);
        Ok(Final { height: status.height, time: status.time, events: Vec::new() })
    }

    fn next(&self, after: Height, patience: Duration) -> Result<Option<Final>, ChainError> {
        if self.seen.load(Ordering::Relaxed) <= after.0 {
            let status = self.rpc.wait_for_block(after, patience).map_err(told)?;
            self.seen.fetch_max(status.height.0, Ordering::Relaxed);
            if status.height <= after {
                return Ok(None);
            }
        }
        match self.block(after.next()) {
            Ok(block) => Ok(Some(block)),
            // What the node has no record of cannot be had from it; the rest can.
            Err(error) => match self.rpc.status().map_err(told)?.recorded_from {
                first if first > after.next() => self.block(first).map(Some),
                _ => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Failure, List, Weight};

    fn receipt(outcome: Outcome, amount: u128) -> Receipt {
        let event = Event::Burned { from: Address::ZERO, amount: Amount(amount) };
        Receipt {
            height: Height(1),
            index: 0,
            transaction: None,
            outcome,
            fee: Amount::ZERO,
            weight: Weight(0),
            events: List::new(vec![event]).unwrap(),
        }
    }

    #[test]
    fn what_a_failed_transaction_says_does_not_count() {
        let failed = Outcome::Failed { operation: 0, failure: Failure::ProviderExists };
        let found = events(vec![receipt(Outcome::Applied, 1), receipt(failed, 2)]);
        assert_eq!(found, [Event::Burned { from: Address::ZERO, amount: Amount(1) }]);
    }

    #[test]
    fn a_node_that_is_away_is_an_error_of_the_moment() {
        let away = NodeChain {
            rpc: Rpc::new("http://127.0.0.1:9"),
            id: ChainId(1),
            owner: opengpu_crypto::Keypair::ed25519([1; 32]).into(),
            sponsor: None,
            seen: AtomicU64::new(0),
            turn: Mutex::default(),
        };
        assert!(away.tip().is_err());
        assert!(away.next(Height(0), Duration::ZERO).is_err());
        assert!(away.submit(MarketOperation::Heartbeat).is_err());
        assert!(away.turn.try_lock().is_ok(), "the next operation has its turn");
    }
}
