//! How many bytes a task takes on chain: its transactions, its receipts and its entry.
//!
//! The chain tells receipts and entries as they are. Of a transaction it tells the weight, which follows
//! from its bytes and its operations; so the same operation is made once more, and what the weights say
//! must be its size.

use super::client::Settled;
use crate::error::BenchError;
use commonware_codec::EncodeSize as _;
use opengpu_client::Rpc;
use opengpu_crypto::Keypair;
use opengpu_ledger::weight_of;
use opengpu_types::{
    Amount, Authorization, Boxed, ChainId, Entry, Event, Height, Key, LeaseId, List,
    MarketOperation, Nonce, Operation, Receipt, SignedTransaction, Task, TaskId, Text, Transaction,
};

/// Bytes on chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    /// Of transactions that name the task.
    pub(super) transactions: usize,
    /// Of their receipts, and of what blocks told of the task by themselves.
    pub(super) receipts: usize,
    /// Of the entry when it has ended: nothing of it goes away before all of it does.
    pub(super) state: usize,
}

impl Bytes {
    /// Those of a task that was submitted after a block, up to its end.
    pub(super) fn of(rpc: &Rpc, after: Height, settled: &Settled) -> Result<Self, BenchError> {
        let status = rpc.status()?;
        let mut bytes = Self::default();
        for height in after.0.saturating_add(1)..=status.height.0 {
            for receipt in rpc.receipts(Height(height))? {
                bytes.add(status.chain, &receipt, settled)?;
            }
        }
        let entry = Entry::Task(Boxed::new(settled.task.clone()));
        bytes.state = Key::Task(settled.id).encode_size().saturating_add(entry.encode_size());
        Ok(bytes)
    }

    fn add(
        &mut self,
        chain: ChainId,
        receipt: &Receipt,
        settled: &Settled,
    ) -> Result<(), BenchError> {
        let named: Vec<_> =
            receipt.events.iter().filter(|event| names(event) == Some(settled.id)).collect();
        if named.is_empty() {
            return Ok(());
        }
        if receipt.transaction.is_none() {
            let told = named.iter().map(|event| event.encode_size()).sum();
            self.receipts = self.receipts.saturating_add(told);
            return Ok(());
        }
        self.receipts = self.receipts.saturating_add(receipt.encode_size());
        let operation = named.iter().find_map(|event| operation(event, settled.id, &settled.task));
        let operation =
            operation.ok_or_else(|| BenchError::Task("who sent this is not known".to_owned()))?;
        let size = size(chain, operation, receipt)?;
        self.transactions = self.transactions.saturating_add(size);
        Ok(())
    }
}

/// Bytes of the one transaction that has this operation and this receipt.
fn size(
    chain: ChainId,
    operation: MarketOperation,
    receipt: &Receipt,
) -> Result<usize, BenchError> {
    let again = signed(chain, operation);
    let size = again.encode_size();
    if weight_of(&again) == receipt.weight {
        Ok(size)
    } else {
        Err(BenchError::Task("a transaction has another size than its operation".to_owned()))
    }
}

/// The task that an event is about.
const fn names(event: &Event) -> Option<TaskId> {
    match event {
        Event::TaskOpened { task, .. }
        | Event::TaskClosed { task, .. }
        | Event::TaskToppedUp { task, .. }
        | Event::TaskEdited { task }
        | Event::TaskCollected { task }
        | Event::BiddingOpened { task }
        | Event::BidsLimited { task, .. }
        | Event::BidsClosed { task, .. } => Some(*task),
        Event::LeaseOpened { lease, .. }
        | Event::LeaseClosed { lease, .. }
        | Event::Checkpointed { lease, .. }
        | Event::Committed { lease, .. } => Some(lease.task),
        _ => None,
    }
}

/// What was done so that this happened.
fn operation(event: &Event, id: TaskId, task: &Task) -> Option<MarketOperation> {
    match event {
        Event::TaskOpened { .. } => Some(MarketOperation::SubmitTask {
            spec: Boxed::new(task.spec.clone()),
            budget: task.budget,
            escrow: task.deposited,
            contact: task.contact.clone(),
        }),
        Event::Committed { lease, .. } | Event::Checkpointed { lease, .. } => {
            let commitment = task.leases.get(usize::from(lease.number))?.commitment?;
            let lease = LeaseId { task: id, number: lease.number };
            Some(MarketOperation::CommitTrace { lease, commitment, witness: None })
        }
        _ => None,
    }
}

/// A transaction of this operation alone, signed by somebody.
fn signed(chain: ChainId, operation: MarketOperation) -> SignedTransaction {
    let keypair = Keypair::ed25519([1; 32]);
    let transaction = Transaction {
        sender: keypair.address(),
        nonce: Nonce(1),
        valid_until: Height(1),
        max_fee: Amount::ONE,
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(vec![Operation::Market(operation)]).expect("one is not too many"),
        memo: Text::default(),
    };
    let signature = keypair.sign_bytes(&transaction.signing_message(chain));
    let signer = Authorization { key: keypair.public_key(), signature };
    SignedTransaction { transaction, signer, sponsor: None }
}
