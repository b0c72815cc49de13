//! State proofs against the real store: only what is current now can be shown.
#![expect(clippy::unwrap_used, reason = "tests")]

use commonware_cryptography::Sha256;
use commonware_parallel::Sequential;
use commonware_runtime::{
    Runner as _, Supervisor as _,
    buffer::paged::{CacheRef, page_size},
    deterministic,
};
use commonware_storage::{
    journal::contiguous::variable::Config as JournalConfig,
    mmr::full::Config as MerkleConfig,
    qmdb::{
        current::{VariableConfig, ordered::variable::Db},
        floor::Proportional,
    },
    translator::EightCap,
};
use commonware_utils::{NZU64, NZUsize};
use opengpu_light::{CHUNK, Family, Presence, StateProof};
use opengpu_types::{Account, Address, Amount, Digest, Entry, Key, Record};

type Store =
    Db<Family, deterministic::Context, Digest, Record, Sha256, EightCap, CHUNK, Sequential>;

async fn open(context: deterministic::Context) -> Store {
    let page_cache = CacheRef::new(page_size(4_096), NZUsize!(64));
    let (write_buffer, replay_buffer) = (NZUsize!(1_024), NZUsize!(1_024));
    let config = VariableConfig {
        merkle_config: MerkleConfig {
            journal_partition: "tree".into(),
            metadata_partition: "tree-nodes".into(),
            items_per_blob: NZU64!(64),
            write_buffer,
            replay_buffer,
            strategy: Sequential,
            page_cache: page_cache.clone(),
        },
        journal_config: JournalConfig {
            partition: "log".into(),
            items_per_section: NZU64!(64),
            compression: None,
            codec_config: ((), ()),
            page_cache,
            write_buffer,
            replay_buffer,
        },
        grafted_metadata_partition: "current".into(),
        translator: EightCap,
        init_cache: None,
        init_buffer: replay_buffer,
        init_concurrency: (),
    };
    Store::init(context, config, None).await.unwrap()
}

fn key(byte: u8) -> Key {
    Key::Account(Address::new([byte; 20]))
}

fn entry(units: u128) -> Entry {
    Entry::Account(Account { balance: Amount(units), ..Account::default() })
}

/// Applies changes as one block would.
async fn write(store: Store, changes: &[(Key, Option<Entry>)]) -> Store {
    let mut batch = store.new_batch();
    for (key, entry) in changes {
        batch = batch.write(key.digest(), entry.clone().map(|entry| Record { key: *key, entry }));
    }
    let batch = batch.merkleize(&store, None, &mut Proportional).await.unwrap();
    store.apply_batch(batch).await.unwrap()
}

async fn value_proof(store: &Store, key: Key) -> StateProof {
    StateProof::of_value(store.key_value_proof(key.digest()).await.unwrap())
}

#[test]
fn a_current_value_is_shown_and_an_overwritten_one_is_not() {
    deterministic::Runner::default().start(|context| async move {
        let store = open(context.child("store")).await;
        let store = write(store, &[(key(1), Some(entry(1))), (key(2), Some(entry(2)))]).await;
        let (old_root, old_proof) = (store.root(), value_proof(&store, key(1)).await);
        assert!(old_proof.shows(&key(1), &Presence::Present(entry(1)), &old_root));
        assert!(!old_proof.shows(&key(1), &Presence::Present(entry(9)), &old_root));
        assert!(!old_proof.shows(&key(2), &Presence::Present(entry(1)), &old_root));
        assert!(!old_proof.shows(&key(1), &Presence::Absent, &old_root));

        let store = write(store, &[(key(1), Some(entry(5)))]).await;
        let root = store.root();
        assert!(!old_proof.shows(&key(1), &Presence::Present(entry(1)), &root));
        let proof = value_proof(&store, key(1)).await;
        assert!(proof.shows(&key(1), &Presence::Present(entry(5)), &root));
        let read = StateProof::from_bytes(&proof.to_bytes()).unwrap();
        assert_eq!(read, proof);
    });
}

#[test]
fn absence_is_shown_for_deleted_and_never_written_keys_only() {
    deterministic::Runner::default().start(|context| async move {
        let store = open(context.child("store")).await;
        let store = write(store, &[(key(1), Some(entry(1))), (key(2), Some(entry(2)))]).await;
        let before = value_proof(&store, key(1)).await;
        let store = write(store, &[(key(1), None)]).await;
        let root = store.root();
        assert!(!before.shows(&key(1), &Presence::Present(entry(1)), &root));
        for gone in [key(1), key(3)] {
            let proof =
                StateProof::of_absence(store.exclusion_proof(&gone.digest()).await.unwrap());
            assert!(proof.shows(&gone, &Presence::Absent, &root));
            assert!(!proof.shows(&key(2), &Presence::Absent, &root));
            assert_eq!(StateProof::from_bytes(&proof.to_bytes()).unwrap(), proof);
        }
        assert!(store.exclusion_proof(&key(2).digest()).await.is_err());
    });
}
