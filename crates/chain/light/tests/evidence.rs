//! Evidence of audits that were played on the real ledger: no byte of it can be another one.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use commonware_codec::DecodeExt as _;
use opengpu_crypto::hash;
use opengpu_light::{Evidence, EvidenceError, Link, Moment, Report, Trust};
use opengpu_types::{Fault, Finding, Genesis, SeatSet};
use proptest::prelude::*;
use rand::{SeedableRng as _, rngs::StdRng};
use std::{fs, path::PathBuf, sync::OnceLock};

#[path = "../../../../fuzz/light_targets.rs"]
mod targets;

fn corpus(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/light_corpus");
    PathBuf::from(root).join(name)
}

fn file(name: &str) -> Vec<u8> {
    fs::read(corpus("decode_audit").join(name)).unwrap()
}

/// The network on which all of them were played.
fn genesis() -> (Trust, Genesis) {
    let genesis = Genesis::decode(fs::read(corpus("genesis")).unwrap()).unwrap();
    let seats = SeatSet::decode(fs::read(corpus("seats")).unwrap()).unwrap();
    (Trust { chain: genesis.chain, seats }, genesis)
}

fn check(bytes: &[u8]) -> Result<Report, EvidenceError> {
    static TRUST: OnceLock<(Trust, Genesis)> = OnceLock::new();
    let (trust, genesis) = TRUST.get_or_init(genesis);
    let evidence = Evidence::from_bytes(bytes)?;
    let parameters = &genesis.parameters.market;
    evidence.verify(&mut StdRng::seed_from_u64(1), trust.clone(), parameters)
}

#[test]
fn what_was_found_is_found_again() {
    assert_eq!(check(&file("upheld")).unwrap().finding, Finding::Upheld);
    let unopened = Finding::Refuted(Fault::Unopened);
    assert_eq!(check(&file("silent")).unwrap().finding, unopened);
    let dissected = check(&file("dissected")).unwrap().finding;
    assert!(matches!(dissected, Finding::Refuted(Fault::Wrong { .. })));
}

#[test]
fn one_value_has_one_byte_string() {
    for name in ["upheld", "dissected", "silent"] {
        let bytes = file(name);
        assert_eq!(Evidence::from_bytes(&bytes).unwrap().to_bytes(), bytes);
    }
}

/// A hash that changes is a change of the protocol: files that people keep cannot be read any more.
#[test]
fn the_encoding_is_pinned() {
    let pinned = [
        ("upheld", "fa2a61c44331b77910535aacd17352df8796d599b53572bf310a963d915bf382"),
        ("dissected", "18c5e4a323634abcfdda8fc796f9be80a8eb85d6be402fd3650157eea94673c9"),
        ("silent", "5ae20d439d4b4fe6fc3f9cf2cff2f66db2bdb79f663b60d5f9d00753fc04a2f7"),
    ];
    let hashes = pinned.map(|(name, _)| {
        let evidence = Evidence::from_bytes(&file(name)).unwrap();
        (name, hash("conformance", &[&evidence.to_bytes()]).to_string())
    });
    assert_eq!(hashes.each_ref().map(|(name, hash)| (*name, hash.as_str())), pinned);
}

#[test]
fn a_file_that_is_cut_or_longer_is_refused() {
    let bytes = file("silent");
    for length in 0..bytes.len() {
        assert!(Evidence::from_bytes(&bytes[..length]).is_err(), "cut at {length}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(Evidence::from_bytes(&longer).unwrap_err().link(), Link::Format);
}

/// Another bit in every so many bytes.
fn damage(name: &str, stride: usize) {
    let bytes = file(name);
    for place in (0..bytes.len()).step_by(stride) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        assert!(check(&damaged).is_err(), "{name}: byte {place}");
    }
}

#[test]
fn a_byte_that_is_another_one_is_refused_wherever_it_is() {
    for (name, stride) in [("upheld", 23), ("dissected", 29), ("silent", 17)] {
        damage(name, stride);
    }
}

#[test]
#[ignore = "takes a minute: each of all bytes"]
fn no_byte_of_all_can_be_another_one() {
    for name in ["upheld", "dissected", "silent"] {
        damage(name, 1);
    }
}

#[test]
fn a_deadline_that_passed_at_another_block_is_refused() {
    let evidence = Evidence::from_bytes(&file("upheld")).unwrap();
    for block in &evidence.blocks {
        for place in 0..evidence.course.len() {
            let mut moved = evidence.clone();
            moved.course.insert(place, Moment::Passed(block.header.height));
            assert!(check(&moved.to_bytes()).is_err());
        }
    }
}

#[test]
fn every_target_holds_on_its_corpus() {
    for (name, body) in targets::TARGETS {
        let files: Vec<_> = fs::read_dir(corpus(name)).unwrap().collect();
        assert!(files.len() >= 3, "{name} has {} files", files.len());
        for file in files {
            body(&fs::read(file.unwrap().path()).unwrap());
        }
    }
}

proptest! {
    #[test]
    fn a_bit_that_is_another_one_is_refused(place: prop::sample::Index, bit in 0_u8..8) {
        let mut bytes = file("dissected");
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        prop_assert!(check(&bytes).is_err(), "bit {} of byte {}", bit, place);
    }

    #[test]
    fn every_target_holds_on_damaged_files(place: prop::sample::Index, byte: u8) {
        let mut bytes = file("upheld");
        let place = place.index(bytes.len());
        bytes[place] = byte;
        for (name, _) in targets::TARGETS {
            targets::run(name, &bytes);
        }
    }

    #[test]
    fn every_target_holds_on_random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (name, _) in targets::TARGETS {
            targets::run(name, &bytes);
            targets::run(name, &[Evidence::MAGIC.as_slice(), &bytes].concat());
        }
    }
}
