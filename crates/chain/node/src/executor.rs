//! Executes a block on the store: loads what the ledger reads, writes what it changed.
//!
//! The ledger is synchronous and pure; the store is neither. [`execute`] stands between them:
//!
//! 1. it reads, in one batch, every entry that the block will most likely touch;
//! 2. it runs the ledger step by step. A step that reads another entry ends with
//!    [`Halt::Unloaded`] and leaves nothing behind; what it names is fetched and the step repeated;
//! 3. it writes every entry that the ledger set or removed, and computes the new roots.
//!
//! Proposing, verifying and replaying all come through here, so they cannot disagree. What is
//! written depends on the ledger's changes alone, never on what happened to be read: a leader
//! reads more than a voter, because it also tries transactions that it then leaves out.

use crate::store::{Batch, Sealed, Staged, StoreError};
use commonware_parallel::Strategy;
use commonware_runtime::Spawner;
use commonware_storage::{Context as StorageContext, qmdb::any::batch::Slot};
use opengpu_ledger::{
    BlockContext, BlockError, Changes, Corruption, Executed, Execution, Halt, Invalid, Rejection,
    State, Unloaded, alarms, block_keys, epoch_of, predicted_keys, tables,
};
use opengpu_types::{
    ChainState, Digest, Entry, Genesis, Key, Millis, Receipt, Record, SeatSet, SignedTransaction,
};
use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
};

/// Entries of the parent's state that were read. They are looked up and never listed, so their
/// order does not matter.
#[derive(Debug, Default)]
pub struct Loaded(HashMap<Key, Option<Entry>>);

impl Loaded {
    /// Adds entries that were read; `None` is an entry that does not exist.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = (Key, Option<Entry>)>) {
        self.0.extend(entries);
    }
}

impl State for Loaded {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        self.0.get(key).map(Option::as_ref).ok_or(Unloaded(*key))
    }
}

/// Whether a transaction that may not be in the block spoils it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A leader looks for what fits; the rest is left out.
    Propose,
    /// A voter checks what a leader claims fits.
    Verify,
}

/// Why a block was not executed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The block is wrong, for ever.
    #[error("the block is wrong")]
    Block(#[from] BlockError),
    /// The block holds a transaction that no block may hold.
    #[error("transaction {index} may not be in the block")]
    Transaction {
        /// Place in the block.
        index: usize,
        /// Why.
        #[source]
        invalid: Invalid,
    },
    /// The state breaks the rules that made it. Nothing may be voted on it.
    #[error("the state is damaged")]
    Corrupt(#[from] Corruption),
    /// The disk failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// A block that was carried out.
pub struct Output<E, T>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    /// The changes and their roots.
    pub sealed: Sealed<E, T>,
    /// Root of the receipts.
    pub receipts: Digest,
    /// The block's own receipt, then one for each transaction.
    pub receipt_list: Vec<Receipt>,
    /// Digest of the next epoch's seats.
    pub next_seats: Digest,
    /// The chain's variables after the block.
    pub chain: ChainState,
    /// Who votes in the block's epoch.
    pub seats: SeatSet,
    /// Times at which the block wants to be followed by another one.
    pub alarms: Vec<Millis>,
    /// Transactions left out, by their place, when proposing.
    pub left_out: BTreeMap<usize, Invalid>,
}

/// Executes `transactions` on the state that `batch` stands on.
pub async fn execute<E, T>(
    genesis: &Genesis,
    context: BlockContext,
    transactions: &[impl Borrow<SignedTransaction> + Sync],
    batch: Batch<E, T>,
    purpose: Purpose,
) -> Result<Output<E, T>, ExecuteError>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    let mut keys = block_keys(context.height, context.time, &genesis.parameters);
    let epoch = epoch_of(context.height, &genesis.parameters);
    for signed in transactions {
        predicted_keys(signed.borrow(), &mut keys);
    }
    let (mut desk, loaded) = Desk::open(batch, keys).await?;
    let mut execution = Execution::new(loaded, context);
    loop {
        match execution.begin(genesis) {
            Ok(()) => break,
            Err(BlockError::Halt(halt)) => desk = desk.resolve(halt, execution.base_mut()).await?,
            Err(error) => return Err(error.into()),
        }
    }
    let mut left_out = BTreeMap::new();
    for (index, signed) in transactions.iter().enumerate() {
        loop {
            match execution.apply(signed.borrow()) {
                Ok(_) => break,
                Err(Rejection::Halt(halt)) => {
                    desk = desk.resolve(halt, execution.base_mut()).await?;
                }
                Err(Rejection::Invalid(invalid)) if purpose == Purpose::Propose => {
                    left_out.insert(index, invalid);
                    break;
                }
                Err(Rejection::Invalid(invalid)) => {
                    return Err(ExecuteError::Transaction { index, invalid });
                }
            }
        }
    }
    let seats = loop {
        match execution.state().must::<tables::Seats>(epoch) {
            Ok(seats) => break seats,
            Err(halt) => desk = desk.resolve(halt, execution.base_mut()).await?,
        }
    };
    let (executed, desk) = finish(execution, desk).await?;
    let chain = chain_after(&executed)?;
    let (receipts, next_seats) = (executed.receipts_root(), executed.next_seats);
    let receipt_list = executed.receipts;
    let alarms = alarms(chain.time, &executed.changes).collect();
    let sealed = desk.seal(executed.changes).await?;
    Ok(Output { sealed, receipts, receipt_list, next_seats, chain, seats, alarms, left_out })
}

/// Ends the block, loading what that needs.
async fn finish<E, T>(
    mut execution: Execution<Loaded>,
    mut desk: Desk<E, T>,
) -> Result<(Executed, Desk<E, T>), ExecuteError>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    loop {
        match execution.finish() {
            Ok(executed) => return Ok((executed, desk)),
            Err((unfinished, halt)) => {
                execution = *unfinished;
                desk = desk.resolve(halt, execution.base_mut()).await?;
            }
        }
    }
}

/// Every block changes the chain's variables: its height and time are among them.
fn chain_after(executed: &Executed) -> Result<ChainState, Corruption> {
    match executed.changes.get(&Key::Chain) {
        Some(Some(Entry::Chain(chain))) => Ok(**chain),
        _ => Err(Corruption::Missing(Key::Chain)),
    }
}

/// The batch of a block and the order in which entries were read from it.
struct Desk<E, T>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    staged: Staged<E, T>,
    read: Vec<Key>,
}

impl<E, T> Desk<E, T>
where
    E: Spawner + StorageContext,
    T: Strategy,
{
    /// Reads `keys` in one batch.
    async fn open(batch: Batch<E, T>, mut keys: Vec<Key>) -> Result<(Self, Loaded), StoreError> {
        keys.sort_unstable();
        keys.dedup();
        let digests: Vec<_> = keys.iter().map(Key::digest).collect();
        let (values, staged) = batch.stage(&digests.iter().collect::<Vec<_>>()).await?;
        let entries = values.into_iter().map(|record| record.map(|record| record.entry));
        let loaded = Loaded(keys.iter().copied().zip(entries).collect());
        Ok((Self { staged, read: keys }, loaded))
    }

    /// Loads what a step asked for; anything else that stops a step is damage.
    async fn resolve(self, halt: Halt, loaded: &mut Loaded) -> Result<Self, ExecuteError> {
        match halt {
            Halt::Unloaded(keys) => {
                let Self { staged, mut read } = self;
                let digests: Vec<_> = keys.iter().map(Key::digest).collect();
                let wanted: Vec<_> = digests.iter().collect();
                let (_, values, staged) = staged.expand(&wanted).await?;
                let entries = values.into_iter().map(|record| record.map(|record| record.entry));
                loaded.extend(keys.iter().copied().zip(entries));
                read.extend(keys);
                Ok(Self { staged, read })
            }
            Halt::Corrupt(corruption) => Err(corruption.into()),
        }
    }

    /// Writes the changes and computes the roots.
    async fn seal(self, mut changes: Changes) -> Result<Sealed<E, T>, StoreError> {
        let slots = self
            .read
            .iter()
            .map(|key| match changes.swap_remove(key) {
                Some(Some(entry)) => Slot::Put(Record { key: *key, entry }),
                Some(None) => Slot::Delete,
                None => Slot::Keep,
            })
            .collect();
        // In the order of keys, whatever the ledger tried on the way.
        changes.sort_unstable_keys();
        let unread = changes.into_iter().map(record).collect();
        self.staged.merkleize(slots, unread).await
    }
}

/// A change as the store takes it.
fn record((key, entry): (Key, Option<Entry>)) -> (Digest, Option<Record>) {
    (key.digest(), entry.map(|entry| Record { key, entry }))
}
