//! The bodies of the fuzz targets for what strangers say in sessions.
//!
//! Like `targets.rs`, but with types of `opengpu-link`; a test of that crate runs them over
//! `link_corpus/` and over random bytes.

use commonware_codec::{Codec, Copying, DecodeExt as _};
use opengpu_link::Address;
use opengpu_link::artifact::{Grant, Groups};
use opengpu_link::folder::{FilePath, Manifest};
use opengpu_link::lease;
use opengpu_link::transfer::{Keep, Named, News, Run, Size};

type Body = fn(&[u8]);

/// Every target by its name.
pub(crate) const TARGETS: &[(&str, Body)] = &[
    ("link_requests", requests),
    ("link_groups", groups),
    ("link_grant", canonical::<Grant>),
    ("link_manifest", manifest),
    ("link_file_path", file_path),
    ("link_address", address),
];

/// Runs the target of this name.
pub(crate) fn run(name: &str, bytes: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    body(bytes);
}

/// Bytes are no value, or the one encoding of a value.
fn canonical<T: Codec<Cfg = ()>>(bytes: &[u8]) {
    if let Ok(value) = T::decode(Copying(bytes)) {
        assert_eq!(value.encode_size(), bytes.len());
        assert_eq!(value.encode(), bytes);
    }
}

/// What is said about artifacts and leases.
fn requests(bytes: &[u8]) {
    canonical::<Named>(bytes);
    canonical::<Size>(bytes);
    canonical::<Run>(bytes);
    canonical::<Keep>(bytes);
    canonical::<News>(bytes);
    canonical::<lease::Brief>(bytes);
    canonical::<lease::Follow>(bytes);
    canonical::<lease::Telling>(bytes);
    canonical::<lease::Wanted>(bytes);
    canonical::<lease::Standing>(bytes);
    canonical::<lease::Parcel>(bytes);
    canonical::<lease::Burst>(bytes);
    canonical::<lease::Hold>(bytes);
    canonical::<lease::Holding>(bytes);
    let _ = lease::Piece::read(bytes);
}

/// No set has a group behind its last one.
fn groups(bytes: &[u8]) {
    canonical::<Groups>(bytes);
    if let Ok(groups) = Groups::decode(Copying(bytes)) {
        assert!(groups.len() <= groups.total());
        assert_eq!(groups.iter().count(), groups.len() as usize);
    }
}

/// Every file of a manifest has a path that stays below its folder.
fn manifest(bytes: &[u8]) {
    canonical::<Manifest>(bytes);
    if let Ok(manifest) = Manifest::decode(Copying(bytes)) {
        manifest.files().iter().for_each(|file| stays_below(&file.path));
    }
}

/// A text is no path, or one that stays below its folder.
fn file_path(bytes: &[u8]) {
    if let Some(path) = std::str::from_utf8(bytes).ok().and_then(|text| FilePath::new(text).ok()) {
        stays_below(&path);
    }
}

fn stays_below(path: &FilePath) {
    let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    assert!(std::path::Path::new(path.as_str()).components().all(plain));
}

/// An address that was read is written as text that reads as the same address.
fn address(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).ok();
    if let Some(address) = text.and_then(|text| text.parse::<Address>().ok()) {
        assert_eq!(address.to_string().parse::<Address>(), Ok(address));
    }
}
