//! The bodies of the fuzz targets as plain tests: over the corpus, and over random bytes.

use crate::values::{Stream, every_type};
use commonware_codec::Encode as _;
use opengpu_crypto::{Keypair, KeystoreCost, PublicKey, Sealed, Signature, merkle};
use opengpu_types::{Address, Amount, Digest};
use proptest::{collection::vec, prelude::*};
use std::{fs, path::PathBuf};

#[path = "../../../../../fuzz/targets.rs"]
mod targets;

fn corpus(target: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus");
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
}

#[test]
fn there_is_no_corpus_without_a_target() {
    for folder in fs::read_dir(corpus("")).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(targets::TARGETS.iter().any(|(known, _)| *known == name), "{name}");
    }
}

proptest! {
    #[test]
    fn every_target_holds_on_random_bytes(bytes in vec(any::<u8>(), 0..200)) {
        for (name, _) in targets::TARGETS {
            targets::run(name, &bytes);
        }
    }

    #[test]
    fn every_target_holds_on_random_values(stream in vec(any::<u8>(), 0..1_000)) {
        for (name, _) in targets::TARGETS {
            if let Some(bytes) = encoded(name, &stream) {
                targets::run(name, &bytes);
            }
        }
    }

    #[test]
    fn every_target_holds_on_random_text(text in "[0-9a-fx.:% \\[\\]]{0,48}") {
        for (name, _) in targets::TARGETS {
            targets::run(name, text.as_bytes());
        }
    }
}

/// The encoding of the value of a stream, for a target that decodes one of our types.
fn encoded(target: &str, stream: &[u8]) -> Option<Vec<u8>> {
    let type_name = match target.strip_prefix("decode_")? {
        "transaction" => "SignedTransaction".to_owned(),
        name => name.split('_').map(capitalized).collect(),
    };
    let kind = every_type().into_iter().find(|kind| kind.name == type_name)?;
    Some((kind.encode)(&mut Stream::new(stream)))
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// What each target starts from.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let (native, ethereum) = (Keypair::ed25519([1; 32]), Keypair::secp256k1([1; 32]).unwrap());
    let secret =
        opengpu_crypto::SigningMessage { body: Digest([1; 32]), text: "seed".into(), chain_id: 1 };
    match target {
        "decode_public_key" => vec![
            native.public_key().encode().to_vec(),
            ethereum.public_key().encode().to_vec(),
            PublicKey::Ed25519([0; 32]).encode().to_vec(),
            PublicKey::Secp256k1([5; 33]).encode().to_vec(),
        ],
        "decode_signature" => vec![
            native.sign_bytes(&secret).encode().to_vec(),
            Signature::Eip191([2; 64]).encode().to_vec(),
            Signature::Eip712([3; 64]).encode().to_vec(),
        ],
        "decode_merkle_proof" => {
            let leaves: Vec<_> = (0..5).map(|i| Digest([i; 32])).collect();
            let proofs = (0..5).filter_map(|index| merkle::prove(&leaves, index));
            proofs.map(|proof| proof.encode().to_vec()).collect()
        }
        "decode_sealed" => [16, 40, 300]
            .map(|length| Sealed { encapsulated: [1; 32], ciphertext: vec![2; length] })
            .map(|sealed| sealed.encode().to_vec())
            .to_vec(),
        "decode_encrypted_key" => {
            let cost = KeystoreCost::DEFAULT.encode().to_vec();
            let record = |kind| [&[1, kind], &[2; 20][..], &cost, &[3; 16 + 24 + 48]].concat();
            vec![record(0), record(1), cost.clone()]
        }
        "wallet_signature" => {
            [0, 1, 27, 28, 29].map(|v| [&[1; 32][..], &[2; 32], &[v]].concat()).to_vec()
        }
        "address_text" => {
            let checksummed = ethereum.address().to_string();
            let lower = checksummed.to_lowercase();
            texts(&[&checksummed, &lower, &Address::ZERO.to_string(), "0x12"])
        }
        "amount_text" => texts(&["0", "1.5", "0.000000000000000001", &Amount::CAP.to_string()]),
        "memo_text" => texts(&["", "rent for May", "ü中🙂", "\u{202e}"]),
        "network_address_text" => {
            texts(&["127.0.0.1:9000", "[::1]:80", "[fe80::1%3]:80", "localhost:1"])
        }
        "mnemonic_text" => {
            let zeros = "abandon ".repeat(11) + "about";
            texts(&[&zeros, &zeros.to_uppercase(), "abandon", "legal winner thank year wave"])
        }
        _ => {
            let counting: Vec<u8> = (0..250).collect();
            [vec![], vec![1; 400], vec![3; 400], counting, vec![0xff; 400]]
                .iter()
                .filter_map(|stream| encoded(target, stream))
                .collect()
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
