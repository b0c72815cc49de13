//! Transactions that wait for a block: a pure [`Pool`] behind a handle that is cheap to clone.
//!
//! The handle adds two things to the pool: a lock, held for moments and never across an await, and
//! a bell that rings when something may have become ready, so that a leader with nothing to do does
//! not have to poll.

mod intake;
mod pool;
mod standing;

pub use intake::{Intake, SubmitError};
pub use pool::{Admitted, Arrival, Candidate, Limits, Pool, PoolRefusal};
pub use standing::{Refusal, Standing};

use crate::block::Block;
use commonware_utils::sync::Mutex;
use opengpu_ledger::{Invalid, Lane};
use opengpu_types::{Address, Digest, Height, Nonce, TransactionId};
use std::sync::Arc;
use tokio::sync::Notify;

/// Shared access to the pool of a node.
#[derive(Clone, Debug)]
pub struct Mempool {
    pool: Arc<Mutex<Pool>>,
    bell: Arc<Notify>,
}

impl Mempool {
    /// An empty pool.
    pub fn new(limits: Limits) -> Self {
        Self { pool: Arc::new(Mutex::new(Pool::new(limits))), bell: Arc::new(Notify::new()) }
    }

    /// Lets in transactions that were checked, each with its lane's next nonce; what was refused
    /// before stays refused. A leader that waits sees all of them or none.
    pub fn admit(
        &self,
        checked: Vec<Result<(Candidate, Nonce), SubmitError>>,
    ) -> Vec<Result<Candidate, SubmitError>> {
        let mut pool = self.pool.lock();
        let admit = |checked| {
            let (candidate, next): (Candidate, _) = checked?;
            pool.admit(candidate.clone(), next)?;
            Ok(candidate)
        };
        let verdicts: Vec<_> = checked.into_iter().map(admit).collect();
        drop(pool);
        if verdicts.iter().any(Result::is_ok) {
            self.bell.notify_waiters();
        }
        verdicts
    }

    /// What should go into the next block.
    pub fn select(&self, count: usize, bytes: usize) -> Vec<Candidate> {
        self.pool.lock().select(count, bytes)
    }

    /// The first number of an account's own lane that nothing waits with, from `next` on.
    pub fn next_nonce(&self, account: Address, key: Address, next: Nonce) -> Nonce {
        self.pool.lock().next_nonce(&Lane { sender: account, signer: key }, next)
    }

    /// The newest arrival.
    pub fn newest(&self) -> Arrival {
        self.pool.lock().newest()
    }

    /// Like [`Self::select`], of those that had arrived by then.
    pub fn select_until(&self, newest: Arrival, count: usize, bytes: usize) -> Vec<Candidate> {
        self.pool.lock().select_until(newest, count, bytes)
    }

    /// Transactions are in a proposal for `height`.
    pub fn offered(&self, height: Height, witnesses: &[Digest]) {
        self.pool.lock().offered(height, witnesses);
    }

    /// A proposal for `height` left transactions out: some for good, others because of a state
    /// that is not final.
    pub fn left_out<'a>(
        &self,
        height: Height,
        refused: impl IntoIterator<Item = (&'a Digest, &'a Invalid)>,
    ) {
        let mut pool = self.pool.lock();
        for (witness, invalid) in refused {
            if invalid.is_final() {
                pool.refuse(witness, Refusal::from(invalid));
            } else if !invalid.waits() {
                pool.doubt(height, witness, Refusal::from(invalid));
            }
        }
    }

    /// Transactions were not let in.
    pub fn turned_away(&self, refused: impl IntoIterator<Item = (TransactionId, Refusal)>) {
        let mut pool = self.pool.lock();
        for (id, refusal) in refused {
            pool.turned_away(id, refusal);
        }
    }

    /// How far a transaction is that is in no final block.
    pub fn standing(&self, id: &TransactionId) -> Option<Standing> {
        self.pool.lock().standing(id).cloned()
    }

    /// A block is final.
    pub fn finalized(&self, block: &Block) {
        let included = block.witnesses().iter().zip(block.transactions());
        self.pool.lock().finalized(block.header().height, included);
        // What a lost proposal held waits again.
        self.bell.notify_waiters();
    }

    /// Transactions in the pool.
    pub fn len(&self) -> usize {
        self.pool.lock().len()
    }

    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.pool.lock().is_empty()
    }

    /// Returns once a proposal would hold something.
    pub async fn ready(&self) {
        loop {
            // Registered before the look, so that no ring between the two is missed.
            let ring = self.bell.notified();
            let mut ring = std::pin::pin!(ring);
            ring.as_mut().enable();
            if self.pool.lock().has_ready() {
                return;
            }
            ring.await;
        }
    }
}
