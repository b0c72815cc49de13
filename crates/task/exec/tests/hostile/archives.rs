//! Images that lie: paths that lead out, sizes that are not true, parts that never end.

use crate::machine::Machine;
use flate2::Compression;
use flate2::write::GzEncoder;
use opengpu_exec::native::image::{Image, ImageError, ImageLimits, unpack};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use tar::EntryType;

type Attempt = fn(&Machine) -> Option<String>;

/// All of them by name.
pub(crate) const ALL: &[(&str, Attempt)] = &[
    ("upwards", |machine| refused(machine, &[file("../../track", b"x")])),
    ("upwards_inside", |machine| refused(machine, &[file("a/../../../track", b"x")])),
    ("absolute", |machine| refused(machine, &[file(&text(&machine.track()), b"x")])),
    ("file_through_link", file_through_link),
    ("file_through_link_upwards", file_through_link_upwards),
    ("hard_link_out", |machine| refused(machine, &[link(EntryType::Link, "x", "../../secret")])),
    ("hard_link_through_link", hard_link_through_link),
    ("link_kept_as_it_is", link_kept_as_it_is),
    ("device", device),
    ("privileges", privileges),
    ("mark_upwards", |machine| refused(machine, &[file(".wh...", b"")])),
    ("mark_through_link", mark_through_link),
    ("hidden_through_link", hidden_through_link),
    ("bomb", bomb),
    ("many_entries", many_entries),
    ("many_folders", many_folders),
    ("long_name", long_name),
    ("size_that_lies", size_that_lies),
    ("cut_off", cut_off),
    ("another_content", another_content),
    ("other_layers", other_layers),
    ("zstd_bomb", zstd_bomb),
    ("zstd_window", zstd_window),
    ("digest_as_path", digest_as_path),
    ("part_as_link", part_as_link),
    ("endless_index", endless_index),
    ("noise", noise),
];

const LIMITS: ImageLimits = ImageLimits { bytes: 8 << 20, entries: 500, layers: 8 };

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// One entry, with any name.
fn entry(kind: EntryType, name: &str, target: &str, mode: u32, bytes: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes.len() as u64);
    // Written past the checks of the library, as an attacker would.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    let mut packed = header.as_bytes().to_vec();
    packed.extend(bytes);
    packed.resize(packed.len().next_multiple_of(512), 0);
    packed
}

fn file(name: &str, bytes: &[u8]) -> Vec<u8> {
    entry(EntryType::Regular, name, "", 0o644, bytes)
}

fn link(kind: EntryType, name: &str, target: &str) -> Vec<u8> {
    entry(kind, name, target, 0o777, b"")
}

fn layer(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut layer = entries.concat();
    layer.extend([0; 1024]);
    layer
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A layout in a folder, with these layers.
struct Layout(tempfile::TempDir);

impl Layout {
    fn new(machine: &Machine, layers: &[Vec<u8>]) -> Self {
        let packed: Vec<_> = layers.iter().map(|layer| packed(layer)).collect();
        Self::of(machine, "gzip", &packed, layers)
    }

    /// Layers in their packed form, and those that the settings name.
    fn of(machine: &Machine, packing: &str, packed: &[Vec<u8>], layers: &[Vec<u8>]) -> Self {
        let layout = Self(machine.scratch());
        fs::create_dir_all(layout.0.path().join("blobs/sha256")).unwrap();
        let kind = format!("application/vnd.oci.image.layer.v1.tar+{packing}");
        let parts: Vec<_> = packed.iter().map(|layer| layout.part(&kind, layer)).collect();
        let name = |layer: &Vec<u8>| format!("\"sha256:{}\"", hex::encode(Sha256::digest(layer)));
        let names: Vec<_> = layers.iter().map(name).collect();
        let settings = format!(r#"{{"rootfs": {{"diff_ids": [{}]}}}}"#, names.join(","));
        let settings = layout.part("application/vnd.oci.image.config.v1+json", settings.as_bytes());
        let manifest = format!(r#"{{"config": {settings}, "layers": [{}]}}"#, parts.join(","));
        layout
            .index(&layout.part("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes()));
        layout
    }

    fn part(&self, kind: &str, bytes: &[u8]) -> String {
        let digest = hex::encode(Sha256::digest(bytes));
        fs::write(self.0.path().join("blobs/sha256").join(&digest), bytes).unwrap();
        format!(
            r#"{{"mediaType": "{kind}", "digest": "sha256:{digest}", "size": {}}}"#,
            bytes.len()
        )
    }

    fn index(&self, part: &str) {
        fs::write(self.0.path().join("index.json"), format!(r#"{{"manifests": [{part}]}}"#))
            .unwrap();
    }

    fn unpack(&self) -> Result<Image, ImageError> {
        unpack(self.0.path(), &self.0.path().join("cache"), LIMITS)
    }

    /// After a refusal nothing may be left in the cache.
    fn must_be_refused(&self) -> Option<String> {
        if let Ok(image) = self.unpack() {
            return Some(format!("was taken: {image:?}"));
        }
        let left = fs::read_dir(self.0.path().join("cache")).map_or(0, Iterator::count);
        (left > 0).then(|| format!("left {left} in the cache"))
    }
}

fn refused(machine: &Machine, entries: &[Vec<u8>]) -> Option<String> {
    Layout::new(machine, &[layer(entries)]).must_be_refused()
}

/// Unpacks and, if that goes well, looks at what came of it.
fn look(
    machine: &Machine,
    layers: &[Vec<u8>],
    check: fn(&Machine, &Path) -> bool,
) -> Option<String> {
    let layout = Layout::new(machine, layers);
    let image = layout.unpack().ok()?;
    check(machine, &image.root).then(|| "got through".to_owned())
}

fn folder_of(machine: &Machine) -> String {
    text(machine.track().parent().unwrap())
}

fn file_through_link(machine: &Machine) -> Option<String> {
    let out = link(EntryType::Symlink, "out", &folder_of(machine));
    look(machine, &[layer(&[out]), layer(&[file("out/track", b"x")])], |machine, _| {
        machine.track().exists()
    })
}

fn file_through_link_upwards(machine: &Machine) -> Option<String> {
    let out = link(EntryType::Symlink, "up", "../../../..");
    look(machine, &[layer(&[out, file("up/track", b"x")])], |machine, _| machine.track().exists())
}

fn hard_link_through_link(machine: &Machine) -> Option<String> {
    let out = link(EntryType::Symlink, "out", &folder_of(machine));
    let steal = link(EntryType::Link, "x", "out/secret");
    look(machine, &[layer(&[out, steal])], |machine, root| {
        fs::read(root.join("x")).is_ok_and(|bytes| machine.is_secret_in(&bytes))
    })
}

/// A link to somewhere is a link and not what it points at.
fn link_kept_as_it_is(machine: &Machine) -> Option<String> {
    let out = link(EntryType::Symlink, "x", &format!("{}/secret", folder_of(machine)));
    look(machine, &[layer(&[out]), layer(&[file("x", b"y")])], |_, root| {
        !root.join("x").symlink_metadata().unwrap().is_file()
    })
}

fn device(machine: &Machine) -> Option<String> {
    let mut node = entry(EntryType::Block, "disk", "", 0o666, b"");
    node[329..337].copy_from_slice(b"0000376\0");
    let pipe = entry(EntryType::Fifo, "pipe", "", 0o666, b"");
    look(machine, &[layer(&[node, pipe])], |_, root| {
        root.join("disk").exists() || root.join("pipe").exists()
    })
}

fn privileges(machine: &Machine) -> Option<String> {
    let raised = entry(EntryType::Regular, "su", "", 0o6777, b"#!/bin/sh\n");
    look(machine, &[layer(&[raised])], |_, root| {
        root.join("su").metadata().unwrap().mode() & 0o7022 != 0
    })
}

fn mark_through_link(machine: &Machine) -> Option<String> {
    let out = link(EntryType::Symlink, "out", &folder_of(machine));
    look(machine, &[layer(&[out]), layer(&[file("out/.wh.secret", b"")])], |machine, _| {
        !Path::new(&folder_of(machine)).join("secret").exists()
    })
}

fn hidden_through_link(machine: &Machine) -> Option<String> {
    let out = link(EntryType::Symlink, "out", &folder_of(machine));
    look(machine, &[layer(&[out]), layer(&[file("out/.wh..wh..opq", b"")])], |machine, _| {
        !Path::new(&folder_of(machine)).join("secret").exists()
    })
}

fn bomb(machine: &Machine) -> Option<String> {
    refused(machine, &[file("zeros", &vec![0; 32 << 20])])
}

fn many_entries(machine: &Machine) -> Option<String> {
    let entries: Vec<_> = (0..600).map(|number| file(&format!("f{number}"), b"")).collect();
    refused(machine, &entries)
}

/// Few entries whose paths imply folders without an end.
fn many_folders(machine: &Machine) -> Option<String> {
    let path = |number: u32| format!("{number}/{}x", "a/".repeat(45));
    let entries: Vec<_> = (0..12).map(|number| file(&path(number), b"")).collect();
    refused(machine, &entries)
}

fn long_name(machine: &Machine) -> Option<String> {
    refused(machine, &[entry(EntryType::GNULongName, "x", "", 0, &vec![b'a'; 12 << 20])])
}

fn size_that_lies(machine: &Machine) -> Option<String> {
    let mut lying = file("x", b"y");
    lying[124..136].copy_from_slice(b"77777777777\0");
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes().copy_from_slice(&lying[..512]);
    header.set_cksum();
    lying[..512].copy_from_slice(header.as_bytes());
    refused(machine, &[lying])
}

fn cut_off(machine: &Machine) -> Option<String> {
    let whole = layer(&[file("x", &[1; 4000])]);
    Layout::new(machine, &[whole[..2000].to_vec()]).must_be_refused()
}

fn another_content(machine: &Machine) -> Option<String> {
    let layout = Layout::new(machine, &[layer(&[file("x", b"good")])]);
    let bad = packed(&layer(&[file("x", b"evil")]));
    for entry in fs::read_dir(layout.0.path().join("blobs/sha256")).unwrap().flatten() {
        if fs::read(entry.path()).unwrap().starts_with(&[0x1f, 0x8b]) {
            fs::write(entry.path(), &bad).unwrap();
        }
    }
    layout.must_be_refused()
}

/// Settings by which an image is known, with layers that belong to another one.
fn other_layers(machine: &Machine) -> Option<String> {
    let (good, evil) = (layer(&[file("x", b"good")]), layer(&[file("x", b"evil")]));
    let swapped = Layout::of(machine, "gzip", &[packed(&evil)], std::slice::from_ref(&good));
    let fewer = Layout::of(machine, "gzip", &[packed(&good)], &[]);
    swapped.must_be_refused().or_else(|| fewer.must_be_refused())
}

fn zstd_bomb(machine: &Machine) -> Option<String> {
    let layer = layer(&[file("zeros", &vec![0; 32 << 20])]);
    let packed = zstd::encode_all(layer.as_slice(), 1).unwrap();
    assert!(packed.len() < 100_000);
    Layout::of(machine, "zstd", &[packed], &[layer]).must_be_refused()
}

/// A header that asks for two gibibytes to unpack into.
fn zstd_window(machine: &Machine) -> Option<String> {
    let empty = layer(&[]);
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3];
    let block = u32::try_from(empty.len()).unwrap() << 3 | 1;
    packed.extend(&block.to_le_bytes()[..3]);
    packed.extend(&empty);
    let layout = Layout::of(machine, "zstd", &[packed.clone()], std::slice::from_ref(&empty));
    let refused = layout.must_be_refused();
    // The same with a small window is in order, so it was the window.
    packed[5] = 1 << 3;
    let small = Layout::of(machine, "zstd", &[packed], &[empty]).unpack();
    refused.or_else(|| small.err().map(|error| format!("did not fit the format: {error}")))
}

fn digest_as_path(machine: &Machine) -> Option<String> {
    let layout = Layout::new(machine, &[]);
    layout.index(r#"{"mediaType": "x", "digest": "sha256:../../../secret", "size": 36}"#);
    layout.must_be_refused()
}

fn part_as_link(machine: &Machine) -> Option<String> {
    let layout = Layout::new(machine, &[]);
    let name = "a".repeat(64);
    let place = layout.0.path().join("blobs/sha256").join(&name);
    symlink(Path::new(&folder_of(machine)).join("secret"), place).unwrap();
    layout.index(&format!(r#"{{"mediaType": "x", "digest": "sha256:{name}", "size": 36}}"#));
    layout.must_be_refused()
}

fn endless_index(machine: &Machine) -> Option<String> {
    let layout = Layout::new(machine, &[]);
    let kind = "application/vnd.oci.image.index.v1+json";
    let mut part = layout.part(kind, br#"{"manifests": []}"#);
    for _ in 0..20 {
        part = layout.part(kind, format!(r#"{{"manifests": [{part}]}}"#).as_bytes());
    }
    layout.index(&part);
    layout.must_be_refused()
}

/// Bytes without any sense, as a tar file of a whole image.
fn noise(machine: &Machine) -> Option<String> {
    let folder = machine.scratch();
    let bytes: Vec<u8> =
        (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let source = folder.path().join("image.tar");
    fs::write(&source, bytes).unwrap();
    let taken = unpack(&source, &folder.path().join("cache"), LIMITS);
    taken.is_ok().then(|| "was taken".to_owned())
}
