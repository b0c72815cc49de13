//! Keys on paper: BIP-39 words, and the keys that follow from them.
//!
//! | kind | derivation | path |
//! |---|---|---|
//! | secp256k1 | BIP-32 | `m/44'/60'/0'/0/index`, as Ethereum wallets do |
//! | ed25519 | SLIP-10 | `m/44'/7265'/index'` |
//!
//! So the words of an Ethereum wallet give the account that the wallet shows. Only the English
//! word list is known; upper case and extra spaces are forgiven.

use std::{fmt, str::FromStr};

use hmac::{Hmac, KeyInit as _, Mac as _};
use k256::NonZeroScalar;
use rand_core::CryptoRng;
use sha2::Sha512;
use zeroize::Zeroizing;

use crate::keypair::Keypair;

/// Marks a hardened step of a path.
const HARDENED: u32 = 1 << 31;

/// The words from which keys are derived.
#[derive(Clone, PartialEq, Eq)]
pub struct Mnemonic(bip39::Mnemonic);

/// How many words a fresh mnemonic has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MnemonicLength {
    /// 128 bits.
    Words12,
    /// 256 bits.
    #[default]
    Words24,
}

/// Why words are no mnemonic, or give no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MnemonicError {
    /// The number of words is none of 12, 15, 18, 21 and 24.
    #[error("{count} words; a mnemonic has 12, 15, 18, 21 or 24")]
    WordCount {
        /// Words given.
        count: usize,
    },
    /// A word is not in the list. Which one it was is not repeated, as errors get logged.
    #[error("word {position} is not in the English BIP-39 list")]
    UnknownWord {
        /// Its position, counted from 1.
        position: usize,
    },
    /// All words are known, but do not fit together: one is wrong or two are swapped.
    #[error("the checksum is wrong, a word may be mistyped or out of order")]
    Checksum,
    /// The index is 2^31 or more.
    #[error("key index {index} is not below 2^31")]
    Index {
        /// The index given.
        index: u32,
    },
    /// The one case in 2^127 in which an index has no key; the next one has.
    #[error("there is no key at index {index}, take the next one")]
    NoKey {
        /// The index given.
        index: u32,
    },
}

impl Mnemonic {
    /// A fresh mnemonic.
    pub fn generate(rng: &mut impl CryptoRng, length: MnemonicLength) -> Self {
        let mut entropy = Zeroizing::new([0; 32]);
        rng.fill_bytes(entropy.as_mut_slice());
        let (half, _) = entropy.split_at(16);
        let entropy = match length {
            MnemonicLength::Words12 => half,
            MnemonicLength::Words24 => entropy.as_slice(),
        };
        Self(bip39::Mnemonic::from_entropy(entropy).expect("16 and 32 bytes are legal entropy"))
    }

    /// The words, separated by single spaces.
    pub fn phrase(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.to_string())
    }

    /// The secp256k1 key that Ethereum wallets show as account `index`. `passphrase` is BIP-39's
    /// optional extra word, empty for most people.
    pub fn secp256k1(&self, passphrase: &str, index: u32) -> Result<Keypair, MnemonicError> {
        let path = [44 | HARDENED, 60 | HARDENED, HARDENED, 0, checked(index)?];
        let no_key = MnemonicError::NoKey { index };
        let mut node = Node::master(b"Bitcoin seed", self.seed(passphrase).as_slice());
        for step in path {
            node = node.child_secp256k1(step).ok_or_else(|| no_key.clone())?;
        }
        Keypair::secp256k1(*node.key).map_err(|_| no_key)
    }

    /// The ed25519 key number `index`.
    pub fn ed25519(&self, passphrase: &str, index: u32) -> Result<Keypair, MnemonicError> {
        let path = [44 | HARDENED, 7265 | HARDENED, checked(index)? | HARDENED];
        let master = Node::master(b"ed25519 seed", self.seed(passphrase).as_slice());
        let node = path.into_iter().fold(master, |node, step| node.child_ed25519(step));
        Ok(Keypair::ed25519(*node.key))
    }

    fn seed(&self, passphrase: &str) -> Zeroizing<[u8; 64]> {
        Zeroizing::new(self.0.to_seed(passphrase))
    }
}

impl FromStr for Mnemonic {
    type Err = MnemonicError;

    fn from_str(phrase: &str) -> Result<Self, MnemonicError> {
        let words: Vec<&str> = phrase.split_whitespace().collect();
        let phrase = Zeroizing::new(words.join(" ").to_lowercase());
        bip39::Mnemonic::parse_in(bip39::Language::English, phrase.as_str()).map(Self).map_err(
            |error| match error {
                bip39::Error::UnknownWord(index) => {
                    MnemonicError::UnknownWord { position: index.saturating_add(1) }
                }
                bip39::Error::InvalidChecksum => MnemonicError::Checksum,
                bip39::Error::BadWordCount(_)
                | bip39::Error::BadEntropyBitCount(_)
                | bip39::Error::AmbiguousLanguages(_) => {
                    MnemonicError::WordCount { count: words.len() }
                }
            },
        )
    }
}

impl fmt::Debug for Mnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mnemonic({} words)", self.0.word_count())
    }
}

const fn checked(index: u32) -> Result<u32, MnemonicError> {
    if index < HARDENED { Ok(index) } else { Err(MnemonicError::Index { index }) }
}

/// A secret of the key tree with its chain code.
struct Node {
    key: Zeroizing<[u8; 32]>,
    chain: Zeroizing<[u8; 32]>,
}

impl Node {
    fn master(curve: &[u8], seed: &[u8]) -> Self {
        Self::from_hmac(curve, &[seed])
    }

    /// SLIP-10 for ed25519: every step is hardened and every half digest is a key.
    fn child_ed25519(&self, step: u32) -> Self {
        let step = step | HARDENED;
        Self::from_hmac(self.chain.as_slice(), &[&[0], self.key.as_slice(), &step.to_be_bytes()])
    }

    /// BIP-32; none in the negligible case that the sum is no key.
    fn child_secp256k1(&self, step: u32) -> Option<Self> {
        let parent = scalar(&self.key)?;
        let tail = step.to_be_bytes();
        let mut child = if step & HARDENED != 0 {
            Self::from_hmac(self.chain.as_slice(), &[&[0], self.key.as_slice(), &tail])
        } else {
            let public = k256::PublicKey::from_secret_scalar(&parent).to_sec1_bytes();
            Self::from_hmac(self.chain.as_slice(), &[&public, &tail])
        };
        let tweak = scalar(&child.key)?;
        let sum = Zeroizing::new(parent.as_ref().add(tweak.as_ref()));
        child.key = Zeroizing::new(sum.to_bytes().into());
        scalar(&child.key)?;
        Some(child)
    }

    fn from_hmac(key: &[u8], parts: &[&[u8]]) -> Self {
        let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("HMAC takes a key of any length");
        for part in parts {
            mac.update(part);
        }
        let digest = Zeroizing::new(<[u8; 64]>::from(mac.finalize().into_bytes()));
        let (halves, _) = digest.as_chunks::<32>();
        let [key, chain] = halves else { unreachable!("64 bytes are two halves of 32") };
        Self { key: Zeroizing::new(*key), chain: Zeroizing::new(*chain) }
    }
}

/// The scalar of a BIP-32 key; none if it is zero or not below the group order.
fn scalar(key: &[u8; 32]) -> Option<Zeroizing<NonZeroScalar>> {
    Option::from(NonZeroScalar::from_repr((*key).into())).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    const JUNK: &str = "test test test test test test test test test test test junk";

    fn mnemonic(phrase: &str) -> Mnemonic {
        phrase.parse().unwrap()
    }

    #[test]
    fn the_words_of_local_ethereum_networks_give_their_accounts() {
        let words = mnemonic(JUNK);
        let address = |index| words.secp256k1("", index).unwrap().address().to_string();
        assert_eq!(address(0), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(address(1), "0x70997970C51812dc3A010C7d01b50e0d17dc79C8");
        assert_eq!(address(9), "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
    }

    #[test]
    fn the_official_vector_of_bip_39_gives_its_seed() {
        let words = mnemonic(&format!("{}about", "abandon ".repeat(11)));
        let seed = "c55257c360c07c72029aebc1b53c05ed0362ada38ead3e3e9efa3708e5349553\
                    1f09a6987599d18264c1e1c92f2cf141630c7a3c4ab7c81b2f001698e7463b04";
        assert_eq!(hex::encode(*words.seed("TREZOR")), seed);
    }

    /// Test vector 1 of SLIP-10 for ed25519: path, chain code, secret.
    const SLIP_10: [(&[u32], &str, &str); 6] = [
        (
            &[],
            "90046a93de5380a72b5e45010748567d5ea02bbf6522f979e05c0d8d8ca9fffb",
            "2b4be7f19ee27bbf30c667b642d5f4aa69fd169872f8fc3059c08ebae2eb19e7",
        ),
        (
            &[0],
            "8b59aa11380b624e81507a27fedda59fea6d0b779a778918a2fd3590e16e9c69",
            "68e0fe46dfb67e368c75379acec591dad19df3cde26e63b93a8e704f1dade7a3",
        ),
        (
            &[0, 1],
            "a320425f77d1b5c2505a6b1b27382b37368ee640e3557c315416801243552f14",
            "b1d0bad404bf35da785a64ca1ac54b2617211d2777696fbffaf208f746ae84f2",
        ),
        (
            &[0, 1, 2],
            "2e69929e00b5ab250f49c3fb1c12f252de4fed2c1db88387094a0f8c4c9ccd6c",
            "92a5b23c0b8a99e37d07df3fb9966917f5d06e02ddbd909c7e184371463e9fc9",
        ),
        (
            &[0, 1, 2, 2],
            "8f6d87f93d750e0efccda017d662a1b31a266e4a6f5993b15f5c1f07f74dd5cc",
            "30d1dc7e5fc04c31219ab25a27ae00b50f6fd66622f6e9c913253d6511d1e662",
        ),
        (
            &[0, 1, 2, 2, 1_000_000_000],
            "68789923a0cac2cd5a29172a475fe9e0fb14cd6adb5ad98a3fa70333e7afa230",
            "8f94d394a8e8fd6b1bc2f3f49f5c47e385281d5c17e65324b0f62483e37e8793",
        ),
    ];

    #[test]
    fn the_official_vectors_of_slip_10_hold() {
        let seed = hex::decode("000102030405060708090a0b0c0d0e0f").unwrap();
        for (path, chain, key) in SLIP_10 {
            let master = Node::master(b"ed25519 seed", &seed);
            let node = path.iter().fold(master, |node, step| node.child_ed25519(*step));
            assert_eq!(hex::encode(*node.chain), chain, "{path:?}");
            assert_eq!(hex::encode(*node.key), key, "{path:?}");
        }
    }

    #[test]
    fn an_official_vector_of_bip_32_holds_over_hardened_and_plain_steps() {
        // Test vector 1, chain m/0'/1/2'/2/1000000000.
        let seed = hex::decode("000102030405060708090a0b0c0d0e0f").unwrap();
        let path = [HARDENED, 1, 2 | HARDENED, 2, 1_000_000_000];
        let master = Node::master(b"Bitcoin seed", &seed);
        let node = path.into_iter().fold(master, |node, step| node.child_secp256k1(step).unwrap());
        let key = "471b76e389e528d6de6d816857e012c5455051cad6660850e58372a6c3e6e7c8";
        assert_eq!(hex::encode(*node.key), key);
    }

    #[test]
    fn the_path_of_ed25519_keys_never_changes() {
        let words = mnemonic(JUNK);
        let by_hand = [44, 7265, 3]
            .into_iter()
            .fold(Node::master(b"ed25519 seed", words.seed("").as_slice()), |node, step| {
                node.child_ed25519(step)
            });
        let keypair = words.ed25519("", 3).unwrap();
        assert_eq!(*keypair.secret_bytes(), *by_hand.key);
        assert_eq!(keypair.address().to_string(), "0xA3C91C1C44f972eA6b2f3029CB19ff5186fb645A");
    }

    #[test]
    fn every_index_and_passphrase_has_its_own_keys() {
        let words = mnemonic(JUNK);
        let mut all = std::collections::BTreeSet::new();
        for (passphrase, index) in [("", 0), ("", 1), ("extra", 0), ("extra", 1)] {
            all.insert(words.secp256k1(passphrase, index).unwrap().address());
            all.insert(words.ed25519(passphrase, index).unwrap().address());
        }
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn an_index_is_below_the_hardened_range() {
        let error = MnemonicError::Index { index: HARDENED };
        assert_eq!(mnemonic(JUNK).ed25519("", HARDENED).unwrap_err(), error);
        assert_eq!(mnemonic(JUNK).secp256k1("", HARDENED).unwrap_err(), error);
        assert!(mnemonic(JUNK).ed25519("", HARDENED - 1).is_ok());
    }

    #[test]
    fn case_and_spaces_are_forgiven_but_wrong_words_are_not() {
        let parse = |phrase: &str| phrase.parse::<Mnemonic>();
        let shouted = format!("  {}\n", JUNK.to_uppercase().replace(' ', "   "));
        assert_eq!(parse(&shouted), Ok(mnemonic(JUNK)));
        let unknown = JUNK.replacen("test", "tezt", 2).replacen("tezt", "test", 1);
        assert_eq!(parse(&unknown), Err(MnemonicError::UnknownWord { position: 2 }));
        assert_eq!(parse(&JUNK.replace("junk", "test")), Err(MnemonicError::Checksum));
        assert_eq!(parse("test junk"), Err(MnemonicError::WordCount { count: 2 }));
    }

    #[test]
    fn a_fresh_mnemonic_is_read_back_and_is_not_printed() {
        let mut rng = StdRng::seed_from_u64(1);
        for (length, count) in [(MnemonicLength::Words12, 12), (MnemonicLength::Words24, 24)] {
            let words = Mnemonic::generate(&mut rng, length);
            assert_eq!(words.phrase().split(' ').count(), count);
            assert_eq!(words.phrase().parse::<Mnemonic>().unwrap(), words);
            assert_eq!(format!("{words:?}"), format!("Mnemonic({count} words)"));
        }
    }
}
