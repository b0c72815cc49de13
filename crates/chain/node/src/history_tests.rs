//! Tests of the records of past blocks.

use super::*;
use crate::store;
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::BeaconSignature;
use opengpu_types::{
    Amount, Block as WireBlock, ChainId, ConsensusKey, Epoch, List, Millis, Outcome, RuleVersion,
    StateCommitment, View, Weight,
};
use redb::ReadableTableMetadata as _;

fn header(height: u64) -> Header {
    let key = PrivateKey::from_seed(1).public_key();
    let state = StateCommitment {
        root: Digest([1; 32]),
        log_root: Digest([2; 32]),
        log_start: 0,
        log_end: 9,
    };
    assert!(store::sync_target(&state).is_some());
    Header {
        chain: ChainId(7),
        rules: RuleVersion(1),
        upgrade: None,
        height: Height(height),
        epoch: Epoch(height / 4),
        view: View(height),
        parent_view: View(0),
        leader: ConsensusKey(key.as_ref().try_into().unwrap()),
        parent: Digest([3; 32]),
        time: Millis(height),
        beacon: BeaconSignature([4; 48]),
        state,
        transactions: WireBlock::transactions_root(&[]),
        receipts: Digest([5; 32]),
        next_seats: Digest([6; 32]),
    }
}

fn block(height: u64) -> Block {
    Block::new(WireBlock { header: header(height), transactions: List::empty() }).unwrap()
}

/// Ids that agree in their short form.
fn id(height: u64, index: u32) -> TransactionId {
    let mut bytes = [9; 32];
    bytes[8..16].copy_from_slice(&height.to_be_bytes());
    bytes[16..20].copy_from_slice(&index.to_be_bytes());
    TransactionId(Digest(bytes))
}

fn receipts(height: u64) -> Vec<Receipt> {
    some_receipts(height, 4)
}

fn some_receipts(height: u64, count: u32) -> Vec<Receipt> {
    let receipt = |index| Receipt {
        height: Height(height),
        index,
        transaction: (index > 0).then(|| id(height, index)),
        outcome: Outcome::Applied,
        fee: Amount(u128::from(index)),
        weight: Weight(3),
        events: List::empty(),
    };
    (0..count).map(receipt).collect()
}

fn open(folder: &tempfile::TempDir, kept: Kept) -> Records {
    Records::open(&folder.path().join("records.redb"), kept, 4).unwrap()
}

fn record(records: &Records, height: u64) {
    records.executed(&header(height), receipts(height));
    let receipts = records.take(&header(height)).unwrap();
    records.write(&Recorded { header: header(height), receipts }).unwrap();
}

/// A block that is too busy for its places to be written at once.
fn record_busy(records: &Records, height: u64) {
    let receipts = some_receipts(height, u32::try_from(FEW_RECEIPTS).unwrap());
    records.write(&Recorded { header: header(height), receipts }).unwrap();
}

/// Places in the file.
fn written(records: &Records) -> u64 {
    let transaction = records.0.database.begin_read().unwrap();
    transaction.open_table(PLACES).unwrap().len().unwrap()
}

#[test]
fn a_transaction_is_found_by_its_whole_id_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    record(&records, 1);
    record(&records, 2);
    drop(records);
    let records = open(&folder, Kept::All);
    for (height, index) in [(1, 1), (2, 3)] {
        let receipt = records.find(id(height, index)).unwrap().unwrap();
        assert_eq!((receipt.height, receipt.index), (Height(height), index));
    }
    assert_eq!(records.find(id(3, 1)).unwrap(), None, "same short form, never recorded");
    assert_eq!(records.header(Height(2)).unwrap(), Some(header(2)));
}

#[test]
fn a_receipt_has_its_place_under_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    record(&records, 5);
    let leaves: Vec<_> = receipts(5).iter().map(Receipt::digest).collect();
    let receipt = records.find(id(5, 2)).unwrap().unwrap();
    let proof = records.proof(&receipt).unwrap().unwrap();
    assert!(proof.verify(&merkle::root(&leaves), &receipt.digest()));
}

#[test]
fn receipts_of_a_block_come_in_pages_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    record(&records, 5);
    let all = receipts(5);
    assert_eq!(records.receipts(Height(5), 0, usize::MAX).unwrap(), Some(all.clone()));
    assert_eq!(records.receipts(Height(5), 1, 1).unwrap(), Some(vec![all[1].clone()]));
    let two = all[0].encode_size() + 1;
    assert_eq!(records.receipts(Height(5), 0, two).unwrap(), Some(all[..2].to_vec()));
    assert_eq!(records.receipts(Height(5), 4, 1).unwrap(), Some(Vec::new()));
    assert_eq!(records.receipts(Height(6), 0, 1).unwrap(), None);
}

#[test]
fn recording_a_height_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    record(&records, 1);
    record(&records, 1);
    assert!(records.find(id(1, 1)).unwrap().is_some());
}

#[test]
fn receipts_of_blocks_that_lost_are_forgotten_with_their_height() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    let lost = Header { view: View(77), ..header(1) };
    records.executed(&lost, receipts(1));
    records.executed(&header(2), receipts(2));
    record(&records, 1);
    assert_eq!(records.take(&lost), None);
    assert!(records.take(&header(2)).is_some());
}

#[test]
fn a_final_block_without_receipts_is_an_error_and_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    let recorded = futures::executor::block_on(records.record(&block(1)));
    assert!(matches!(recorded, Err(HistoryError::Damaged(_))));
}

#[test]
fn old_receipts_go() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::Recent(6));
    for height in 1..=20 {
        record(&records, height);
    }
    assert_eq!(records.find(id(13, 1)).unwrap(), None);
    assert_eq!(records.header(Height(13)).unwrap(), None);
    assert!(records.find(id(14, 1)).unwrap().is_some());
}

#[test]
fn places_are_known_before_they_are_written_and_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    record(&records, 1);
    record_busy(&records, 2);
    record_busy(&records, 3);
    assert_eq!(written(&records), 3, "the busy blocks wait");
    assert!(records.find(id(2, 63)).unwrap().is_some());
    drop(records);
    let records = open(&folder, Kept::All);
    assert_eq!(written(&records), 3);
    assert!(records.find(id(3, 63)).unwrap().is_some());
    record(&records, 4);
    assert_eq!(written(&records), 3 + 2 * 63 + 3, "a quiet block writes everything");
    for (height, index) in [(1, 1), (2, 1), (3, 63), (4, 3)] {
        assert!(records.find(id(height, index)).unwrap().is_some());
    }
}

#[test]
fn many_places_are_written_without_a_quiet_block() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    for height in 1..=u64::try_from(MAX_GATHERED / (FEW_RECEIPTS - 1) + 1).unwrap() {
        record_busy(&records, height);
    }
    assert!(written(&records) >= u64::try_from(MAX_GATHERED).unwrap());
    assert!(records.0.gathered.lock().is_empty());
}

#[test]
fn places_of_old_receipts_go_before_they_are_written_too() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::Recent(6));
    for height in 1..=20 {
        record_busy(&records, height);
    }
    assert_eq!(records.find(id(13, 1)).unwrap(), None);
    record(&records, 21);
    assert_eq!(written(&records), 6 * 63 + 3, "nothing of old blocks stays behind");
}

#[test]
fn records_whose_places_were_all_written_at_once_are_not_gathered_again() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder, Kept::All);
    record(&records, 1);
    let transaction = records.0.database.begin_write().unwrap();
    transaction.open_table(META).unwrap().remove(INDEXED).unwrap();
    transaction.commit().unwrap();
    drop(records);
    let records = open(&folder, Kept::All);
    assert!(records.0.gathered.lock().is_empty());
    assert!(records.find(id(1, 1)).unwrap().is_some());
    record_busy(&records, 2);
    drop(records);
    let records = open(&folder, Kept::All);
    assert!(records.find(id(2, 1)).unwrap().is_some());
}
