//! Quota, eviction, holds, crashes.

use crate::ground::{GROUP, Place, ROOM, bytes, read};
use crate::liars::{Manner, hostile};
use opengpu_link::artifact::{ArtifactKey, OwnerSecret};
use opengpu_link::transfer::get;
use opengpu_link::{Quota, Store, StoreError};
use opengpu_types::{ArtifactId, Millis};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

fn store(folder: &Path) -> Store {
    Store::open(folder, Quota::of(100)).unwrap()
}

/// An artifact of forty bytes.
fn forty(store: &Store, byte: u8) -> Result<ArtifactId, StoreError> {
    store.import([byte; 40].as_slice())
}

#[test]
fn the_least_recently_used_goes_when_room_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (a, b) = (forty(&store, 1).unwrap(), forty(&store, 2).unwrap());
    read(&store, &a);
    let c = forty(&store, 3).unwrap();
    assert_eq!([a, b, c].map(|id| store.contains(&id)), [true, false, true]);
    assert_eq!(store.used(), 80);
    assert!(matches!(store.whole(&b), Err(StoreError::Missing(_))));
}

#[test]
fn what_is_in_use_or_held_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (a, b) = (forty(&store, 1).unwrap(), forty(&store, 2).unwrap());
    let used = store.whole(&a).unwrap();
    store.hold(&b, Millis(5)).unwrap();
    assert!(matches!(forty(&store, 3), Err(StoreError::Full { size: 40, kept: 80, total: 100 })));
    drop(used);
    forty(&store, 3).unwrap();
    assert_eq!([a, b].map(|id| store.contains(&id)), [false, true]);
    store.expire(Millis(5)).unwrap();
    forty(&store, 4).unwrap();
    assert!(!store.contains(&b));
}

#[test]
fn sizes_over_the_limit_are_not_taken_in() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Quota { total: 100, largest: 50 }).unwrap();
    let refused = store.import([1; 51].as_slice());
    assert!(matches!(refused, Err(StoreError::TooLarge { size: 51, limit: 50 })));
    // An endless one ends.
    let refused = store.import(std::io::repeat(1));
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })));
    assert_eq!((store.used(), count(folder.path(), "new")), (0, 0));
}

fn count(folder: &Path, kind: &str) -> usize {
    fs::read_dir(folder.join(kind)).unwrap().count()
}

#[test]
fn order_holds_and_content_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(folder.path());
    let (a, b) = (forty(&first, 1).unwrap(), forty(&first, 2).unwrap());
    let old = std::time::SystemTime::UNIX_EPOCH;
    let file = fs::File::options().write(true).open(place(folder.path(), "whole", &b)).unwrap();
    file.set_modified(old).unwrap();
    first.hold(&a, Millis(7)).unwrap();
    assert!(matches!(Store::open(folder.path(), ROOM), Err(StoreError::InUse)));
    drop(first);
    let again = store(folder.path());
    assert_eq!((again.used(), again.held_until(&a)), (80, Some(Millis(7))));
    assert_eq!(read(&again, &a), [1; 40]);
    forty(&again, 3).unwrap();
    assert_eq!([a, b].map(|id| again.contains(&id)), [true, false]);
}

fn place(folder: &Path, kind: &str, id: &ArtifactId) -> PathBuf {
    folder.join(kind).join(id.to_string())
}

#[test]
fn a_crash_between_write_and_rename_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let whole = store(folder.path()).import([1; 40].as_slice()).unwrap();
    // What a crash may leave: a file without a name, a row without data, a part without its row, a
    // part of what is whole, and something that is none of ours.
    fs::write(folder.path().join("new/half"), [2; 30]).unwrap();
    let (lonely, torn) = (ArtifactId::of(b"lonely"), ArtifactId::of(b"torn"));
    fs::write(place(folder.path(), "whole", &lonely).with_extension("row"), [3; 64]).unwrap();
    fs::write(place(folder.path(), "part", &torn), vec![4; 2 * GROUP]).unwrap();
    fs::write(place(folder.path(), "part", &whole), [1; 40]).unwrap();
    fs::write(folder.path().join("whole/readme.txt"), "hello").unwrap();
    let again = store(folder.path());
    assert_eq!(again.used(), 40);
    assert_eq!((count(folder.path(), "new"), count(folder.path(), "part")), (0, 0));
    assert_eq!(count(folder.path(), "whole"), 2);
    assert_eq!(read(&again, &whole), [1; 40]);
}

#[test]
fn what_the_disk_spoiled_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let id = forty(&store, 1).unwrap();
    fs::write(place(folder.path(), "whole", &id), [2; 40]).unwrap();
    assert!(matches!(store.whole(&id), Err(StoreError::Missing(_))));
    assert_eq!((store.contains(&id), store.used()), (false, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_a_crash_lost_is_fetched_again() {
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let content = bytes(8 * GROUP);
    let id = holder.store.import(content.as_slice()).unwrap();
    let partial = hostile(3, holder.store.clone(), Manner::ShowOnly(0..4)).await;
    let session = getter.dial(&partial).await;
    assert!(get(&getter.store, id, &[session], |_| {}).await.is_err());
    assert_eq!(getter.store.groups(&id).unwrap().len(), 5);
    // The disk says that group 2 is there, but its bytes never reached it.
    let file = getter.folder().join("part").join(id.to_string());
    let file = fs::File::options().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 100], 2 * GROUP as u64).unwrap();
    let getter = getter.restart(2).await;
    let have = getter.store.groups(&id).unwrap();
    assert!(have.iter().eq([0, 1, 3, 7]));
    let session = getter.dial(&holder.endpoint).await;
    let fetched = get(&getter.store, id, &[session], |_| {}).await.unwrap();
    assert_eq!(fetched.bytes, 4 * GROUP as u64);
    assert_eq!(read(&getter.store, &id), content);
}

#[test]
fn the_same_content_of_one_owner_is_one_artifact() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), ROOM).unwrap();
    let (one, other) = (OwnerSecret::from_bytes([1; 32]), OwnerSecret::from_bytes([2; 32]));
    let import = |owner| store.import_owned(owner, &mut Cursor::new(b"same")).unwrap();
    let (id, key, size) = import(&one);
    assert_eq!((import(&one).0, size), (id, 4));
    assert_ne!(import(&other).0, id);
    assert!(store.decrypt(&id, &key).is_ok());
    assert!(store.decrypt(&id, &ArtifactKey::from_bytes([0; 32])).is_err());
}
