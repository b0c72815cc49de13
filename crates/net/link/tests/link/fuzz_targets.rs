//! The bodies of the fuzz targets as plain tests: over the corpus, and over random bytes.

use crate::conformance::{ID, grant, groups, manifest};
use commonware_codec::Encode as _;
use opengpu_link::transfer::{Keep, Named, News, Run, Size};
use opengpu_types::Millis;
use proptest::{collection::vec, prelude::*};
use std::{fs, path::PathBuf};

#[path = "../../../../../fuzz/link_targets.rs"]
mod targets;

fn corpus(target: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/link_corpus");
    PathBuf::from(root).join(target)
}

#[test]
fn every_target_holds_on_its_corpus() {
    for (name, body) in targets::TARGETS {
        let files: Vec<_> = fs::read_dir(corpus(name)).unwrap().map(|file| file.unwrap()).collect();
        assert!(files.len() >= 3, "{name} has {} files", files.len());
        for file in files {
            body(&fs::read(file.path()).unwrap());
        }
    }
    let folders = fs::read_dir(corpus("")).unwrap().count();
    assert_eq!(folders, targets::TARGETS.len(), "a corpus without a target");
}

proptest! {
    #[test]
    fn every_target_holds_on_random_bytes(bytes in vec(any::<u8>(), 0..200)) {
        for (name, _) in targets::TARGETS {
            targets::run(name, &bytes);
        }
    }

    #[test]
    fn every_target_holds_on_seeds_with_one_byte_changed(
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        for (name, _) in targets::TARGETS {
            for mut seed in seeds(name) {
                *place.get_mut(&mut seed) = byte;
                targets::run(name, &seed);
            }
        }
    }
}

/// What each target starts from.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match target {
        "link_requests" => vec![
            Named { artifact: ID }.encode().to_vec(),
            Size { size: 9 }.encode().to_vec(),
            Run { artifact: ID, first: 1, count: 2 }.encode().to_vec(),
            Keep { artifact: ID, size: 1, until: Millis(2) }.encode().to_vec(),
            News::Kept { sent: 3 }.encode().to_vec(),
        ],
        "link_groups" => groups().iter().map(|groups| groups.encode().to_vec()).collect(),
        "link_grant" => {
            let grant = grant().encode().to_vec();
            vec![grant.clone(), grant[..40].to_vec(), vec![0xff; 130]]
        }
        "link_manifest" => {
            let manifest = manifest().encode().to_vec();
            vec![manifest.clone(), manifest[..60].to_vec(), vec![1, 0]]
        }
        "link_file_path" => texts(&["a/b.txt", "../x", "/etc/passwd", "a\\b", "nul.txt", "ü/中"]),
        _ => {
            let id = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
            let with = |place: &str| format!("{id}@{place}");
            let (relay, both) = (with("https://r.example/"), with("http://127.0.0.1:1/,[::1]:2"));
            texts(&[id, &relay, &both, &with("8.8.8.8:53")])
        }
    }
}

#[test]
#[ignore = "writes files; run it after a change of encodings"]
fn write_the_seeds() {
    for (name, _) in targets::TARGETS {
        fs::create_dir_all(corpus(name)).unwrap();
        for (number, bytes) in seeds(name).iter().enumerate() {
            fs::write(corpus(name).join(format!("seed-{number}")), bytes).unwrap();
        }
    }
}
