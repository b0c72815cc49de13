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
    store::{self, Databases, StoreError},
};
use commonware_codec::EncodeSize as _;
use commonware_parallel::Strategy;
use commonware_runtime::{Clock, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use opengpu_ledger::{
    BlockContext, Corruption, Halt, Invalid, Lane, Overlay, Rejection, admit, predicted_keys,
    tables,
};
use opengpu_types::{
    BeaconSignature, ChainId, ConsensusKey, Digest, Key, Millis, Nonce, SignedTransaction,
    TransactionId, View,
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
        let (transactions, witnesses, holding) = self.check_signatures(seed, transactions).await;
        let databases = self.state.subscribe_databases().await;
        let time = now(runtime);
        let mut verdicts = Vec::with_capacity(transactions.len());
        for ((signed, witness), holds) in transactions.into_iter().zip(witnesses).zip(holding) {
            verdicts.push(if holds {
                self.take(&databases, time, signed, witness).await
            } else {
                Err(SubmitError::Signature)
            });
        }
        verdicts
    }

    /// On the workers: hashes and signatures.
    async fn check_signatures(
        &self,
        seed: [u8; 32],
        transactions: Vec<SignedTransaction>,
    ) -> (Vec<SignedTransaction>, Vec<Digest>, Vec<bool>) {
        let signatures = self.signatures.clone();
        let checked = self.strategy.spawn(transactions.len(), move |strategy| {
            let witnesses = strategy.map_collect_vec(&transactions, SignedTransaction::witness);
            let holding = signatures.which_hold(seed, &transactions, &witnesses, &strategy);
            (transactions, witnesses, holding)
        });
        checked.await
    }

    async fn take(
        &self,
        databases: &Databases<E, T>,
        time: Millis,
        signed: SignedTransaction,
        witness: Digest,
    ) -> Result<Candidate, SubmitError> {
        let lane = Lane::of(&signed)?;
        let next = self.admissible(databases, time, &signed).await?;
        let id = signed.transaction.id(self.chain);
        let size = signed.encode_size();
        let candidate = Candidate { signed: Arc::new(signed), id, witness, lane, size };
        self.mempool.admit(candidate.clone(), next)?;
        Ok(candidate)
    }

    /// The next nonce of the lane, if the ledger would take the transaction now or later.
    async fn admissible(
        &self,
        databases: &Databases<E, T>,
        time: Millis,
        signed: &SignedTransaction,
    ) -> Result<Nonce, SubmitError> {
        let mut keys = vec![Key::Chain, Key::Parameters];
        predicted_keys(signed, &mut keys);
        let mut state = Overlay::new(Loaded::default());
        load::<E, T>(databases, &mut state, &keys).await?;
        loop {
            let Some(chain) = state.find::<tables::Chain>(()).map_err(damage)? else {
                return Err(SubmitError::NotBegun);
            };
            let context = BlockContext {
                chain: self.chain,
                height: chain.height.next(),
                view: View(0),
                parent_view: View(0),
                leader: ConsensusKey([0; 32]),
                time: time.max(chain.time),
                beacon: BeaconSignature([0; 48]),
            };
            match admit(&state, &context, signed) {
                Ok(()) => return Ok(signed.transaction.nonce),
                Err(Rejection::Invalid(Invalid::NonceAhead { expected, .. })) => {
                    return Ok(expected);
                }
                Err(Rejection::Invalid(invalid)) => return Err(invalid.into()),
                Err(Rejection::Halt(Halt::Unloaded(keys))) => {
                    load::<E, T>(databases, &mut state, &keys).await?;
                }
                Err(Rejection::Halt(Halt::Corrupt(corruption))) => return Err(corruption.into()),
            }
        }
    }
}

/// The keys read here were loaded, so a halt is damage.
fn damage(halt: Halt) -> SubmitError {
    match halt {
        Halt::Unloaded(keys) => {
            Corruption::Missing(keys.first().copied().unwrap_or(Key::Chain)).into()
        }
        Halt::Corrupt(corruption) => corruption.into(),
    }
}

async fn load<E, T>(
    databases: &Databases<E, T>,
    state: &mut Overlay<Loaded>,
    keys: &[Key],
) -> Result<(), StoreError>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    let values = store::get_many(&*databases.read().await, keys).await?;
    state.base_mut().extend(keys.iter().copied().zip(values));
    Ok(())
}
