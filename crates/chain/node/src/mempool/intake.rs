//! The way into the pool: shape, signatures, then the ledger's own admission on the final state.
//!
//! A transaction comes from a client or from another node; nobody is trusted. What the ledger would
//! refuse in the next block is refused here with the same reason, except for a nonce that is ahead
//! of its turn: that one may wait.

use super::{Candidate, Mempool, PoolRefusal};
use crate::{
    application::now,
    engine::StateMailbox,
    executor::Loaded,
    signatures::Signatures,
    store::{self, Database, StoreError},
};
use commonware_parallel::Strategy;
use commonware_runtime::{Clock, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use opengpu_ledger::{
    BlockContext, Corruption, Halt, Invalid, Overlay, Rejection, admit, predicted_keys, tables,
};
use opengpu_types::{
    BeaconSignature, ChainId, ConsensusKey, Key, Millis, Nonce, SignedTransaction, TransactionId,
    View,
};
use rand_core::CryptoRng;
use std::sync::Arc;

/// Why a transaction was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// A signature does not hold.
    #[error("a signature does not hold")]
    Signature,
    /// The ledger would refuse it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The pool has no place for it.
    #[error(transparent)]
    Pool(#[from] PoolRefusal),
    /// There is no block yet, so there are no accounts yet.
    #[error("the network has not begun")]
    NotBegun,
    /// The state is damaged.
    #[error("the state is damaged")]
    Corrupt(#[from] Corruption),
    /// The disk failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// Takes transactions into the pool of a node.
pub struct Intake<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    chain: ChainId,
    mempool: Mempool,
    signatures: Signatures,
    state: StateMailbox<E, T>,
    strategy: T,
    outbox: mpsc::Sender<Arc<SignedTransaction>>,
}

impl<E, T> Clone for Intake<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    fn clone(&self) -> Self {
        Self {
            chain: self.chain,
            mempool: self.mempool.clone(),
            signatures: self.signatures.clone(),
            state: self.state.clone(),
            strategy: self.strategy.clone(),
            outbox: self.outbox.clone(),
        }
    }
}

impl<E, T> Intake<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// The way into `mempool`; what clients submit also goes to `outbox`.
    pub const fn new(
        chain: ChainId,
        mempool: Mempool,
        signatures: Signatures,
        state: StateMailbox<E, T>,
        strategy: T,
        outbox: mpsc::Sender<Arc<SignedTransaction>>,
    ) -> Self {
        Self { chain, mempool, signatures, state, strategy, outbox }
    }

    /// Takes in what may be taken in, one verdict for each transaction in the same order, and
    /// sends it on to the coming leaders.
    pub async fn submit(
        &self,
        runtime: &mut E,
        transactions: Vec<SignedTransaction>,
    ) -> Vec<Result<TransactionId, SubmitError>> {
        let verdicts = self.admit(runtime, transactions).await;
        let verdicts = verdicts.into_iter().map(|verdict| {
            let candidate = verdict?;
            // What does not fit waits in the pool, and is forwarded with what waits for long.
            let _ = self.outbox.try_send(candidate.signed);
            Ok(candidate.id)
        });
        verdicts.collect()
    }

    /// Takes in what another node forwarded; it does not go into our own outbox.
    pub async fn take_forwarded(
        &self,
        runtime: &mut E,
        transactions: Vec<SignedTransaction>,
    ) -> Vec<Result<TransactionId, SubmitError>> {
        let verdicts = self.admit(runtime, transactions).await;
        verdicts.into_iter().map(|verdict| verdict.map(|candidate| candidate.id)).collect()
    }

    async fn admit(
        &self,
        runtime: &mut E,
        transactions: Vec<SignedTransaction>,
    ) -> Vec<Result<Candidate, SubmitError>> {
        let mut seed = [0; 32];
        runtime.fill_bytes(&mut seed);
        let checked = self.check(seed, transactions).await;
        let databases = self.state.subscribe_databases().await;
        // Held until the pool has them: no block comes in between that uses their nonces.
        let store = databases.read().await;
        let mut desk = Desk::open(&*store, self.chain, now(runtime), &checked).await;
        let mut admissible = Vec::with_capacity(checked.len());
        for candidate in checked {
            admissible.push(match candidate {
                Ok(candidate) => desk.admissible(candidate).await,
                Err(refusal) => Err(refusal),
            });
        }
        let verdicts = self.mempool.admit(admissible);
        drop(store);
        verdicts
    }

    /// On the workers: shape, hashes and signatures.
    async fn check(
        &self,
        seed: [u8; 32],
        transactions: Vec<SignedTransaction>,
    ) -> Vec<Result<Candidate, SubmitError>> {
        let (signatures, chain) = (self.signatures.clone(), self.chain);
        let checked = self.strategy.spawn(transactions.len(), move |strategy| {
            let witnesses = strategy.map_collect_vec(&transactions, SignedTransaction::witness);
            let holding = signatures.which_hold(seed, &transactions, &witnesses, &strategy);
            let parts = transactions.into_iter().zip(witnesses).zip(holding);
            let parts = parts.map(|((signed, witness), holds)| {
                if !holds {
                    return Err(SubmitError::Signature);
                }
                Ok(Candidate::new(chain, signed, witness)?)
            });
            parts.collect()
        });
        checked.await
    }
}

/// The final state as one batch of transactions meets it.
struct Desk<'a, E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    store: &'a Database<E, T>,
    chain: ChainId,
    /// The present.
    time: Millis,
    /// What was read so far: almost everything at once, before the first transaction.
    state: Overlay<Loaded>,
}

impl<'a, E, T> Desk<'a, E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// Reads what the ledger will most likely look at.
    async fn open(
        store: &'a Database<E, T>,
        chain: ChainId,
        time: Millis,
        checked: &[Result<Candidate, SubmitError>],
    ) -> Self {
        let mut keys = vec![Key::Chain, Key::Parameters];
        for candidate in checked.iter().flatten() {
            predicted_keys(&candidate.signed, &mut keys);
        }
        keys.sort_unstable();
        keys.dedup();
        let mut desk = Self { store, chain, time, state: Overlay::new(Loaded::default()) };
        // A disk that fails will fail again for each transaction, which then says so.
        let _ = desk.load(&keys).await;
        desk
    }

    async fn load(&mut self, keys: &[Key]) -> Result<(), StoreError> {
        let values = store::get_many(self.store, keys).await?;
        self.state.base_mut().extend(keys.iter().copied().zip(values));
        Ok(())
    }

    /// A transaction with the next nonce of its lane, if the ledger would take it now or later.
    async fn admissible(
        &mut self,
        candidate: Candidate,
    ) -> Result<(Candidate, Nonce), SubmitError> {
        loop {
            match self.next_nonce(&candidate.signed) {
                Ok(Some(nonce)) => return Ok((candidate, nonce)),
                Ok(None) => return Err(SubmitError::NotBegun),
                Err(Rejection::Invalid(invalid)) => return Err(invalid.into()),
                Err(Rejection::Halt(Halt::Unloaded(keys))) => self.load(&keys).await?,
                Err(Rejection::Halt(Halt::Corrupt(corruption))) => return Err(corruption.into()),
            }
        }
    }

    /// `None` before the first block.
    fn next_nonce(&self, signed: &SignedTransaction) -> Result<Option<Nonce>, Rejection> {
        let Some(last) = self.state.find::<tables::Chain>(())? else { return Ok(None) };
        let context = BlockContext {
            chain: self.chain,
            height: last.height.next(),
            view: View(0),
            parent_view: View(0),
            leader: ConsensusKey([0; 32]),
            time: self.time.max(last.time),
            beacon: BeaconSignature([0; 48]),
        };
        match admit(&self.state, &context, signed) {
            Ok(()) => Ok(Some(signed.transaction.nonce)),
            Err(Rejection::Invalid(Invalid::NonceAhead { expected, .. })) => Ok(Some(expected)),
            Err(rejection) => Err(rejection),
        }
    }
}
