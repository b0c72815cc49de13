//! Packing and unpacking.

use crate::ground::{GROUP, Place, ROOM, bytes};
use opengpu_link::Store;
use opengpu_link::artifact::{ArtifactKey, OwnerSecret};
use opengpu_link::folder::{
    FilePath, FolderError, FolderLimits, Manifest, Packed, PackedFile, pack, read_manifest, unpack,
};
use opengpu_link::transfer::get_all;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use tempfile::TempDir;

struct Bench {
    scratch: TempDir,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(&scratch.path().join("store"), ROOM).unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        Self { scratch, store }
    }

    fn write(&self, path: &str, content: &[u8]) {
        let place = self.scratch.path().join("in").join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }

    fn pack(&self) -> Result<Packed, FolderError> {
        pack(&self.store, &self.scratch.path().join("in"), &owner(), &FolderLimits::default())
    }

    fn paths(&self) -> Vec<String> {
        let packed = self.pack().unwrap();
        let manifest = read_manifest(&self.store, &packed.manifest, &packed.key).unwrap();
        manifest.files().iter().map(|file| file.path.to_string()).collect()
    }

    /// Says why packing is refused.
    fn refused(&self) -> String {
        self.pack().unwrap_err().to_string()
    }
}

fn owner() -> OwnerSecret {
    OwnerSecret::from_bytes([1; 32])
}

/// All files below a folder: content, and whether they can be run.
fn tree(folder: &Path) -> BTreeMap<String, (Vec<u8>, bool)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let inner = tree(&entry.path()).into_iter();
            found.extend(inner.map(|(path, file)| (format!("{name}/{path}"), file)));
        } else {
            let run = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
            found.insert(name, (fs::read(entry.path()).unwrap(), run));
        }
    }
    found
}

#[test]
fn a_folder_comes_out_as_it_went_in() {
    let bench = Bench::new();
    bench.write("run.sh", b"#!/bin/sh");
    bench.write("data/empty", b"");
    bench.write("data/deep/large.bin", &bytes(3 * GROUP + 1));
    bench.write(".hidden", b"x");
    let tool = bench.scratch.path().join("in/run.sh");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4751)).unwrap();
    let packed = bench.pack().unwrap();
    assert_eq!((packed.files.len(), packed.bytes), (4, 3 * GROUP as u64 + 11));
    let manifest = read_manifest(&bench.store, &packed.manifest, &packed.key).unwrap();
    let out = bench.scratch.path().join("out");
    unpack(&bench.store, &manifest, &out, &FolderLimits::default()).unwrap();
    assert_eq!(tree(&out), tree(&bench.scratch.path().join("in")));
    let mode = fs::metadata(out.join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0, "more than the right to run was kept");
    // Once more into the same place is refused, and changes nothing.
    assert!(unpack(&bench.store, &manifest, &out, &FolderLimits::default()).is_err());
    assert!(
        read_manifest(&bench.store, &packed.manifest, &ArtifactKey::from_bytes([0; 32])).is_err()
    );
    let file = &manifest.files()[0];
    let mistaken = read_manifest(&bench.store, &file.artifact, &file.key);
    assert!(matches!(mistaken, Err(FolderError::NoManifest)));
}

#[test]
fn ignore_files_are_respected() {
    let bench = Bench::new();
    for path in ["keep.rs", "target/x", "a/notes.tmp", "a/keep.tmp", "a/b/secret.key", "a/b/ok"] {
        bench.write(path, path.as_bytes());
    }
    bench.write(".git/config", b"[remote]");
    bench.write(".gitignore", b"/target\n*.tmp\n");
    bench.write("a/.gitignore", b"!keep.tmp\n");
    bench.write(".opengpuignore", b"*.key\n.gitignore\n.opengpuignore\n");
    // What lies above the folder does not count.
    fs::write(bench.scratch.path().join(".gitignore"), "*.rs\n").unwrap();
    assert_eq!(bench.paths(), ["a/b/ok", "a/keep.tmp", "keep.rs"]);
}

#[test]
fn what_cannot_be_kept_as_it_is_is_refused_by_name() {
    let bench = Bench::new();
    bench.write("fine", b"x");
    let inside = bench.scratch.path().join("in");
    let check = |name: &str, why: &str| {
        let refused = bench.refused();
        assert!(refused.contains(name) && refused.contains(why), "{refused}");
        fs::remove_file(inside.join(name)).unwrap();
    };
    symlink("/etc/passwd", inside.join("passwd")).unwrap();
    check("passwd", "links are not packed");
    symlink("/etc", inside.join("etc")).unwrap();
    check("etc", "links are not packed");
    rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("pipe"), 0o600.into()).unwrap();
    check("pipe", "not a plain file");
    for (name, why) in [("a\\b", "U+005C"), ("line\nbreak", "U+000A"), ("nul.txt", "device")] {
        bench.write(name, b"x");
        check(name, why);
    }
    bench.write("FINE", b"y");
    check("FINE", "the same on some systems");
    fs::write(inside.join(std::ffi::OsStr::new("ok")), b"x").unwrap();
    assert_eq!(bench.paths(), ["fine", "ok"]);
}

#[test]
fn a_folder_over_the_limits_is_not_packed() {
    let bench = Bench::new();
    (0..4).for_each(|number| bench.write(&format!("f{number}"), &[number; 10]));
    let folder = bench.scratch.path().join("in");
    let pack = |files, bytes| pack(&bench.store, &folder, &owner(), &FolderLimits { files, bytes });
    assert!(pack(4, 40).is_ok());
    for (files, bytes) in [(3, 40), (4, 39)] {
        let refused = pack(files, bytes);
        assert!(matches!(refused, Err(FolderError::TooLarge { .. })), "{refused:?}");
    }
}

#[test]
fn a_manifest_that_claims_too_much_or_too_little_writes_nothing() {
    let bench = Bench::new();
    let key = ArtifactKey::from_bytes([2; 32]);
    let artifact = bench.store.import_encrypted(&key, bytes(1000).as_slice()).unwrap();
    let out = bench.scratch.path().join("out");
    let unpack = |size, limits: FolderLimits| {
        let path = FilePath::new("bomb").unwrap();
        let file = PackedFile { path, executable: false, size, artifact, key: key.clone() };
        unpack(&bench.store, &Manifest::new(vec![file]).unwrap(), &out, &limits)
    };
    for size in [0, 999, 1001, u64::MAX] {
        let refused = unpack(size, FolderLimits { files: 9, bytes: u64::MAX });
        assert!(matches!(refused, Err(FolderError::File { .. })), "{size} {refused:?}");
    }
    for limits in [FolderLimits { files: 1, bytes: 999 }, FolderLimits { files: 0, bytes: 1000 }] {
        assert!(matches!(unpack(1000, limits), Err(FolderError::TooLarge { .. })));
    }
    assert!(!out.exists());
    unpack(1000, FolderLimits { files: 1, bytes: 1000 }).unwrap();
}

#[test]
fn a_target_with_a_link_in_it_is_left_alone() {
    let bench = Bench::new();
    bench.write("sub/file", b"x");
    let packed = bench.pack().unwrap();
    let manifest = read_manifest(&bench.store, &packed.manifest, &packed.key).unwrap();
    let (out, elsewhere) = (bench.scratch.path().join("out"), bench.scratch.path().join("else"));
    fs::create_dir(&out).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, out.join("sub")).unwrap();
    assert!(unpack(&bench.store, &manifest, &out, &FolderLimits::default()).is_err());
    symlink(&elsewhere, bench.scratch.path().join("link")).unwrap();
    let link = bench.scratch.path().join("link");
    assert!(unpack(&bench.store, &manifest, &link, &FolderLimits::default()).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_costs_only_itself() {
    let bench = Bench::new();
    bench.write("large", &bytes(4 * GROUP));
    bench.write("copy", &bytes(4 * GROUP));
    bench.write("small", b"one");
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let session = getter.dial(&holder.endpoint).await;
    let sessions = [session];
    let folder = bench.scratch.path().join("in");
    let mut costs = Vec::new();
    for content in [b"one", b"two", b"two"] {
        bench.write("small", content);
        let packed = pack(&holder.store, &folder, &owner(), &FolderLimits::default()).unwrap();
        let wanted = packed.files.iter().copied().chain([packed.manifest]);
        let fetched = get_all(&getter.store, wanted, &sessions, |_| {}).await.unwrap();
        costs.push(fetched.bytes);
    }
    assert!(costs[0] < 4 * GROUP as u64 + 5_000, "equal files cost once: {costs:?}");
    assert!(costs[1] < 1_000 && costs[2] == 0, "{costs:?}");
}
