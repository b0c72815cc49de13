//! What the RPC must remember about final blocks: headers, receipts, and where a transaction is.
//!
//! ```text
//! executed (speculative)          capture (block is final)            RPC
//! digest -> receipts, in memory ---> one durable transaction ---> find, proof
//! ```
//!
//! - A block is recorded *before* its state is applied. After a crash the engine repeats a block
//!   unless its state is on disk; so whatever the state contains is recorded, without gaps.
//! - Recording a height twice writes the same bytes.
//! - Where transactions are follows from the receipts, and is scattered over the whole file by
//!   their ids. So places are gathered in memory and written for many blocks at once; after a
//!   crash they are gathered again from the receipts.
//! - Receipts go with the blocks when history is pruned.
//! - Not here: blocks and certificates of ordinary blocks, which the engine's archives keep. The
//!   records hold nothing that consensus depends on.

use crate::{archive::History as Kept, block::Block};
use commonware_codec::{Copying, DecodeExt as _, Encode as _, EncodeSize as _, Read};
use commonware_utils::sync::Mutex;
use opengpu_crypto::{MerkleProof, merkle};
use opengpu_types::{Digest, Header, Height, Receipt, TransactionId};
use redb::{Database, ReadableDatabase as _, ReadableTable, TableDefinition};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};
use tokio::sync::mpsc;

/// Blocks executed and not yet final whose receipts are kept.
const MAX_EXECUTED: usize = 64;
/// Heights removed at most when one is added: a change of the limit must not stall a node.
const PRUNED_AT_ONCE: usize = 16;
/// Bytes of pages of the records kept in memory.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
const VERSION: u64 = 1;
/// Places gathered before they are written.
const MAX_GATHERED: usize = 16_384;
/// With fewer receipts than this in a block there is time to write what was gathered.
const FEW_RECEIPTS: usize = 64;
/// Entry of the meta table: places of blocks up to this height are written.
const INDEXED: &str = "indexed";

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const HEADERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("headers");
/// By height: see [`pack`].
const RECEIPTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("receipts");
/// First eight bytes of a transaction's id, height, place: short, because there are many. The
/// receipt holds the whole id.
const PLACES: TableDefinition<'_, Place, ()> = TableDefinition::new("places");

type Place = (u64, u64, u32);

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be used.
    #[error("the records of past blocks failed")]
    Store(#[source] Box<redb::Error>),
    /// Bytes that this program did not write.
    #[error("the records of past blocks are damaged: {0}")]
    Damaged(&'static str),
    /// Written by another version.
    #[error("the records of past blocks have format {0}, this program knows {VERSION}")]
    Version(u64),
}

fn store(error: impl Into<redb::Error>) -> HistoryError {
    HistoryError::Store(Box::new(error.into()))
}

/// A block that became final and whose state can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its header.
    pub header: Header,
    /// Number of its transactions.
    pub transactions: u32,
}

/// The records of a node; cheap to clone.
#[derive(Clone)]
pub struct Records(Arc<Inner>);

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

struct Inner {
    database: Database,
    /// Heights kept; all if none is given.
    kept: Option<u64>,
    executed: Mutex<BTreeMap<(Height, Digest), Vec<Receipt>>>,
    /// Places that are not in the file yet. They leave after they were written, so whoever looks
    /// here first and then into the file misses none.
    gathered: Mutex<BTreeSet<Place>>,
    applied: mpsc::UnboundedSender<Applied>,
    /// Taken once, by whoever follows the chain.
    following: Mutex<Option<mpsc::UnboundedReceiver<Applied>>>,
}

/// One block as it is written.
struct Recorded {
    header: Header,
    receipts: Vec<Receipt>,
}

impl Records {
    /// Opens or makes the file; at least an epoch of blocks stays.
    pub fn open(path: &Path, kept: Kept, epoch_blocks: u64) -> Result<Self, HistoryError> {
        let database =
            Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(store)?;
        let transaction = database.begin_write().map_err(store)?;
        let gathered = {
            let mut meta = transaction.open_table(META).map_err(store)?;
            let version = meta.get("version").map_err(store)?.map(|version| version.value());
            match version {
                Some(VERSION) => {}
                Some(other) => return Err(HistoryError::Version(other)),
                None => drop(meta.insert("version", VERSION).map_err(store)?),
            }
            // Readers expect every table.
            transaction.open_table(HEADERS).map_err(store)?;
            transaction.open_table(PLACES).map_err(store)?;
            let receipts = transaction.open_table(RECEIPTS).map_err(store)?;
            let indexed = meta.get(INDEXED).map_err(store)?.map(|indexed| indexed.value());
            // Before places were gathered, each block wrote its own.
            let last = receipts.last().map_err(store)?.map_or(0, |(height, _)| height.value());
            let indexed = indexed.unwrap_or(last);
            meta.insert(INDEXED, indexed).map_err(store)?;
            gather(&receipts, indexed)?
        };
        transaction.commit().map_err(store)?;
        let kept = match kept {
            Kept::All => None,
            Kept::Recent(blocks) => Some(blocks.max(epoch_blocks)),
        };
        let (applied, following) = mpsc::unbounded_channel();
        Ok(Self(Arc::new(Inner {
            database,
            kept,
            executed: Mutex::default(),
            gathered: Mutex::new(gathered),
            applied,
            following: Mutex::new(Some(following)),
        })))
    }

    /// A block was executed; it may become final or not.
    pub fn executed(&self, header: &Header, receipts: Vec<Receipt>) {
        let mut executed = self.0.executed.lock();
        executed.insert((header.height, header.digest()), receipts);
        // The lowest height is the next to become final: what is furthest from that goes first.
        while executed.len() > MAX_EXECUTED {
            executed.pop_last();
        }
    }

    /// Makes a final block's receipts durable.
    pub async fn record(&self, block: &Block) -> Result<(), HistoryError> {
        let header = block.header().clone();
        let Some(receipts) = self.take(&header) else {
            return Err(HistoryError::Damaged("a final block was never executed"));
        };
        let records = self.clone();
        let record = Recorded { header, receipts };
        let written = tokio::task::spawn_blocking(move || records.write(&record)).await;
        written.map_err(|_| HistoryError::Damaged("the writer panicked"))?
    }

    /// The receipts of a block that is final now; everything at its height or below is decided.
    fn take(&self, header: &Header) -> Option<Vec<Receipt>> {
        let mut executed = self.0.executed.lock();
        let receipts = executed.remove(&(header.height, header.digest()));
        *executed = executed.split_off(&(header.height.next(), Digest([0; 32])));
        receipts
    }

    fn write(&self, record: &Recorded) -> Result<(), HistoryError> {
        let transaction = self.0.database.begin_write().map_err(store)?;
        let header = &record.header;
        let height = header.height.0;
        {
            let mut headers = transaction.open_table(HEADERS).map_err(store)?;
            headers.insert(height, &header.encode()[..]).map_err(store)?;
            let mut receipts = transaction.open_table(RECEIPTS).map_err(store)?;
            receipts.insert(height, &pack(&record.receipts)[..]).map_err(store)?;
        }
        let written = self.gather_and_write(&transaction, record)?;
        let gone = match self.0.kept {
            Some(kept) => prune(&transaction, height.saturating_sub(kept))?,
            None => Vec::new(),
        };
        transaction.commit().map_err(store)?;
        // Nobody else gathers meanwhile: final blocks are recorded one after the other.
        let mut gathered = self.0.gathered.lock();
        if written {
            gathered.clear();
        }
        for place in gone {
            gathered.remove(&place);
        }
        Ok(())
    }

    /// Adds the places of a block to those gathered, and writes all of them when it is time.
    fn gather_and_write(
        &self,
        transaction: &redb::WriteTransaction,
        record: &Recorded,
    ) -> Result<bool, HistoryError> {
        let height = record.header.height.0;
        let due = {
            let mut gathered = self.0.gathered.lock();
            gathered.extend(record.receipts.iter().filter_map(|receipt| place(height, receipt)));
            let due = gathered.len() >= MAX_GATHERED || record.receipts.len() < FEW_RECEIPTS;
            due.then(|| gathered.clone())
        };
        let Some(due) = due else { return Ok(false) };
        let mut places = transaction.open_table(PLACES).map_err(store)?;
        for key in due {
            places.insert(key, ()).map_err(store)?;
        }
        let mut meta = transaction.open_table(META).map_err(store)?;
        meta.insert(INDEXED, height).map_err(store)?;
        Ok(true)
    }

    /// The state of a recorded block can be read now.
    pub fn applied(&self, block: &Block) {
        let transactions = u32::try_from(block.transactions().len()).unwrap_or(u32::MAX);
        let applied = Applied { header: block.header().clone(), transactions };
        // Nobody follows when the node is stopping.
        let _ = self.0.applied.send(applied);
    }

    /// Blocks as they are applied from now on; for one follower.
    pub(crate) fn follow(&self) -> Option<mpsc::UnboundedReceiver<Applied>> {
        self.0.following.lock().take()
    }

    /// The receipt of a final transaction.
    pub fn find(&self, id: TransactionId) -> Result<Option<Receipt>, HistoryError> {
        let short = shorten(id);
        let range = (short, 0, 0)..=(short, u64::MAX, u32::MAX);
        let mut found: Vec<_> = self.0.gathered.lock().range(range.clone()).copied().collect();
        let transaction = self.0.database.begin_read().map_err(store)?;
        let places = transaction.open_table(PLACES).map_err(store)?;
        for place in places.range(range).map_err(store)? {
            found.push(place.map_err(store)?.0.value());
        }
        let receipts = transaction.open_table(RECEIPTS).map_err(store)?;
        for (_, height, index) in found {
            let Some(packed) = receipts.get(height).map_err(store)? else { continue };
            let receipt = unpack_one(packed.value(), index)?;
            if receipt.transaction == Some(id) {
                return Ok(Some(receipt));
            }
        }
        Ok(None)
    }

    /// The header of a final block.
    pub fn header(&self, height: Height) -> Result<Option<Header>, HistoryError> {
        let transaction = self.0.database.begin_read().map_err(store)?;
        let headers = transaction.open_table(HEADERS).map_err(store)?;
        let bytes = headers.get(height.0).map_err(store)?;
        bytes.map(|bytes| decode(bytes.value(), "a header")).transpose()
    }

    /// The first height that is recorded.
    pub fn first(&self) -> Result<Option<Height>, HistoryError> {
        let transaction = self.0.database.begin_read().map_err(store)?;
        let headers = transaction.open_table(HEADERS).map_err(store)?;
        let first = headers.first().map_err(store)?;
        Ok(first.map(|(height, _)| Height(height.value())))
    }

    /// How many transactions a final block has.
    pub fn transactions(&self, height: Height) -> Result<Option<u32>, HistoryError> {
        let transaction = self.0.database.begin_read().map_err(store)?;
        let receipts = transaction.open_table(RECEIPTS).map_err(store)?;
        let packed = receipts.get(height.0).map_err(store)?;
        // The first receipt is the block's own.
        packed.map(|packed| Ok(count(packed.value())?.saturating_sub(1))).transpose()
    }

    /// Receipts of a final block from an index on, as many as fit into so many bytes and one more.
    pub fn receipts(
        &self,
        height: Height,
        from: u32,
        bytes: usize,
    ) -> Result<Option<Vec<Receipt>>, HistoryError> {
        let transaction = self.0.database.begin_read().map_err(store)?;
        let receipts = transaction.open_table(RECEIPTS).map_err(store)?;
        let Some(packed) = receipts.get(height.0).map_err(store)? else { return Ok(None) };
        let (mut page, mut size) = (Vec::new(), 0usize);
        for index in from..count(packed.value())? {
            let receipt = unpack_one(packed.value(), index)?;
            size = size.saturating_add(receipt.encode_size());
            page.push(receipt);
            if size >= bytes {
                break;
            }
        }
        Ok(Some(page))
    }

    /// The place of a receipt under its header's root.
    pub fn proof(&self, receipt: &Receipt) -> Result<Option<MerkleProof>, HistoryError> {
        let transaction = self.0.database.begin_read().map_err(store)?;
        let receipts = transaction.open_table(RECEIPTS).map_err(store)?;
        let Some(packed) = receipts.get(receipt.height.0).map_err(store)? else { return Ok(None) };
        let mut leaves = Vec::new();
        for index in 0..count(packed.value())? {
            leaves.push(unpack_one(packed.value(), index)?.digest());
        }
        Ok(merkle::prove(&leaves, receipt.index))
    }
}

/// The places of all transactions above a height.
fn gather(
    receipts: &impl ReadableTable<u64, &'static [u8]>,
    above: u64,
) -> Result<BTreeSet<Place>, HistoryError> {
    let mut gathered = BTreeSet::new();
    for block in receipts.range(above.saturating_add(1)..).map_err(store)? {
        let (height, packed) = block.map_err(store)?;
        gathered.extend(places(height.value(), packed.value())?);
    }
    Ok(gathered)
}

/// The places of the transactions of a block.
fn places(height: u64, packed: &[u8]) -> Result<Vec<Place>, HistoryError> {
    let mut places = Vec::new();
    for index in 0..count(packed)? {
        places.extend(place(height, &unpack_one(packed, index)?));
    }
    Ok(places)
}

/// Removes heights below `first`, oldest first; returns the places that are gone with them.
fn prune(transaction: &redb::WriteTransaction, first: u64) -> Result<Vec<Place>, HistoryError> {
    let mut headers = transaction.open_table(HEADERS).map_err(store)?;
    let mut receipts = transaction.open_table(RECEIPTS).map_err(store)?;
    let mut places = transaction.open_table(PLACES).map_err(store)?;
    let mut gone = Vec::new();
    let old = headers.range(..first).map_err(store)?.take(PRUNED_AT_ONCE);
    let old = old.map(|entry| entry.map(|(height, _)| height.value()).map_err(store));
    for height in old.collect::<Result<Vec<_>, _>>()? {
        headers.remove(height).map_err(store)?;
        let Some(packed) = receipts.remove(height).map_err(store)? else { continue };
        for key in self::places(height, packed.value())? {
            places.remove(key).map_err(store)?;
            gone.push(key);
        }
    }
    Ok(gone)
}

/// Receipts one after the other, behind a table of where each one ends, so that one can be read
/// alone.
fn pack(receipts: &[Receipt]) -> Vec<u8> {
    let (mut ends, mut bodies) = (Vec::new(), Vec::new());
    for receipt in receipts {
        bodies.extend_from_slice(&receipt.encode());
        let end = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
        ends.extend_from_slice(&end.to_be_bytes());
    }
    let count = u32::try_from(receipts.len()).unwrap_or(u32::MAX);
    [&count.to_be_bytes()[..], &ends, &bodies].concat()
}

const BROKEN: HistoryError = HistoryError::Damaged("receipts");

fn count(packed: &[u8]) -> Result<u32, HistoryError> {
    word(packed, 0).ok_or(BROKEN)
}

fn word(packed: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    let (word, _) = packed.get(at..)?.split_first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

fn unpack_one(packed: &[u8], index: u32) -> Result<Receipt, HistoryError> {
    let body = || {
        let count = usize::try_from(word(packed, 0)?).ok()?;
        let index = usize::try_from(index).ok().filter(|index| *index < count)?;
        let bodies = packed.get(count.checked_add(1)?.checked_mul(4)?..)?;
        let begin = if index == 0 { 0 } else { usize::try_from(word(packed, index)?).ok()? };
        let end = usize::try_from(word(packed, index.checked_add(1)?)?).ok()?;
        bodies.get(begin..end)
    };
    decode(body().ok_or(BROKEN)?, "a receipt")
}

fn decode<T: Read<Cfg = ()>>(bytes: &[u8], what: &'static str) -> Result<T, HistoryError> {
    T::decode(Copying(bytes)).map_err(|_| HistoryError::Damaged(what))
}

/// The block's own receipt belongs to no transaction.
fn place(height: u64, receipt: &Receipt) -> Option<Place> {
    receipt.transaction.map(|id| (shorten(id), height, receipt.index))
}

fn shorten(id: TransactionId) -> u64 {
    id.0.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
