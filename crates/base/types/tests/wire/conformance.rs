//! One pinned hash per type, over fixed values of all its variants.
//!
//! A hash that changes is a change of the protocol: other nodes, wallets and stored data disagree.
//! It needs a decision record, and shows here as one line.

use crate::values::{Kind, Stream, Value, every_type};
use opengpu_crypto::{Digest, hash};
use opengpu_types::{
    Block, ChainId, Genesis, Header, Key, Receipt, SeatSet, SignedTransaction, Transaction, Vote,
};
use std::fs;

/// Streams that differ in everything a field can differ in: nothing, all bits, all bytes apart.
fn streams() -> [Vec<u8>; 3] {
    let counting = (0..2_048u32).map(|i| u8::try_from(i.wrapping_mul(167) % 251).unwrap());
    [vec![0; 2_048], vec![0xff; 2_048], counting.collect()]
}

/// The streams of every variant, which the first byte chooses.
fn samples(variants: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..variants).flat_map(move |variant| {
        streams().into_iter().map(move |mut stream| {
            if variants > 1 {
                stream[0] = u8::try_from(variant).unwrap();
            }
            stream
        })
    })
}

fn pin(name: &str, parts: &[Vec<u8>]) -> String {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    format!("{name} {}", hash("conformance", &parts))
}

fn pin_kind(kind: &Kind) -> String {
    let encodings: Vec<_> =
        samples(kind.variants).map(|stream| (kind.encode)(&mut Stream::new(&stream))).collect();
    pin(kind.name, &encodings)
}

/// Pins what is hashed or signed rather than sent.
fn pin_digest<T: Value>(name: &str, digest: impl Fn(&T) -> Digest) -> String {
    let digests: Vec<_> = samples(T::VARIANTS)
        .map(|stream| digest(&Stream::new(&stream).take()).as_ref().to_vec())
        .collect();
    pin(name, &digests)
}

fn assert_pinned(actual: &[String], pinned: &[&str]) {
    let changed: Vec<_> = actual.iter().filter(|line| !pinned.contains(&line.as_str())).collect();
    assert!(changed.is_empty(), "changed or new:\n{}", lines(&changed));
    assert_eq!(actual.len(), pinned.len(), "a pinned type is gone");
}

fn lines(lines: &[&String]) -> String {
    lines.iter().map(|line| format!("    \"{line}\",\n")).collect()
}

#[test]
fn no_encoding_has_changed() {
    let actual: Vec<_> = every_type().iter().map(pin_kind).collect();
    assert_pinned(&actual, TYPES);
}

#[test]
fn nothing_that_is_hashed_or_signed_has_changed() {
    let chain = ChainId(7);
    let actual = [
        pin_digest("Transaction::body", |value: &Transaction| value.body(chain)),
        pin_digest("Transaction::summary", |value: &Transaction| {
            hash("text", &[value.summary(chain).as_bytes()])
        }),
        pin_digest("SignedTransaction::witness", SignedTransaction::witness),
        pin_digest("Block::transactions_root", |value: &Block| {
            Block::transactions_root(&value.transactions)
        }),
        pin_digest("Header::digest", Header::digest),
        pin_digest("SeatSet::digest", SeatSet::digest),
        pin_digest("Genesis::digest", Genesis::digest),
        pin_digest("Receipt::digest", Receipt::digest),
        pin_digest("Key::digest", Key::digest),
        pin_digest("Vote::signed_parts", |value: &Vote| {
            let (namespace, message) =
                value.signed_parts(chain, opengpu_types::Epoch(300), opengpu_types::View(70_000));
            hash("parts", &[&namespace, &message])
        }),
    ];
    assert_pinned(&actual, DIGESTS);
}

#[test]
fn the_samples_of_a_type_differ_from_each_other() {
    for kind in every_type() {
        let mut encodings: Vec<_> =
            samples(kind.variants).map(|stream| (kind.encode)(&mut Stream::new(&stream))).collect();
        encodings.sort();
        encodings.dedup();
        // A variant without fields has one value.
        assert!(encodings.len() >= kind.variants, "{}", kind.name);
        assert!(kind.variants > 1 || encodings.len() > 1, "{}", kind.name);
    }
}

/// The name behind `codec_struct!(`, or inside `counter!(` on a line of its own.
fn declared(line: &str) -> Option<&str> {
    let macros = ["codec_struct!(", "codec_enum!(", "codec_newtype!("];
    let after = macros.iter().find_map(|name| line.strip_prefix(name));
    let unit =
        || line.strip_prefix("    ").filter(|rest| rest.contains("(u") && rest.ends_with(')'));
    let rest = after.or_else(unit)?;
    rest.split(|c: char| !c.is_alphanumeric()).next().filter(|name| !name.is_empty())
}

#[test]
fn no_type_with_an_encoding_is_forgotten() {
    let known: Vec<_> = every_type().iter().map(|kind| kind.name).collect();
    let mut seen = 0;
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for name in text.lines().filter_map(declared) {
            assert!(known.contains(&name), "{name} is not in the list of types");
            seen += 1;
        }
    }
    assert!(seen > 50, "only {seen} types were found");
}

const TYPES: &[&str] = &[
    "ChainId c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Height c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Epoch c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "View c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Nonce c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Millis c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Weight c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "RuleVersion a50543d5e066f4409977d711298e55bccf3a7a0f60d2c3ece1a932adfe164d9b",
    "UnbondingId c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Shares 1ce9748a25455a9ece874ab75f3790322582ded8e8c2ec71319326a38bbaeeca",
    "RewardIndex 1ce9748a25455a9ece874ab75f3790322582ded8e8c2ec71319326a38bbaeeca",
    "Permille 0fe5b395ddc1e66c742f3f9de679849bf8a41c3702df130bfffab922e32b19eb",
    "Amount 1ce9748a25455a9ece874ab75f3790322582ded8e8c2ec71319326a38bbaeeca",
    "RateUnit 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "RateBase 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "Rate bed76768ae6f87c91c342ad9f843e2daef001d0f7566deffa3fa23c44baa1f7e",
    "ConsensusKey 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "NetworkAddress 357e0a550232f17bbac3317632ca7f9aa8bb7b8b4ee5e0e407eff6fc129e46d2",
    "Seat 915e51ca651a4cb256ccdc4a37a575d937237c8cedeb486e4a10d866a1affe7a",
    "SeatSet 8f6c3b416680ebf281a29d2a20cadb84f5b4c9c216f1e801041fa679e06d7a66",
    "Emission 76c7bf973e67525c26f6e30f4553f347997167029530bae71deaa22307848949",
    "Parameters 71896290c3067149f154862d7476a3fe0e64ecb001d46051cf4add6c3e0d647a",
    "VestingTerms 013eb73936f66ff48706a635fd956dd1e947d6b2f2ee196f65717793105d3ed7",
    "Allocation d75d6ec65622f8a2f277ae3e2442d700165d647ab2cc2c0e745daa66311047bb",
    "TreasuryStream 07f1878aaf7e667cc41dd0391216882b28f2173a754f80dae0ab06457b17a5da",
    "GenesisValidator 9bec4d12cf3cb0626ae9ef7544e04b668d934bbcf52d97f6e2b3607d9ccd7daf",
    "Genesis 32a9a2044a56abddb04cd494bcd8bbf95e24a48eb400d9372a80314a12b74ac2",
    "ValidatorKeys e6c56c0cb298871cab170631914c9ffc1c1cba5ce9f807839dda2510e7f404ca",
    "Purpose 8d3899def817229dec360c46816ff1a5a1b17a4dbe4f7316c68abb5dc64c24e9",
    "Operation 26b3d39d50b890ba6f30f3e1b58e8a1e09e0b1a206a38883f56332c7f1c9e581",
    "TransactionId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Transaction fec1a282129608cd55e52f7eebde6e1c057695a7b662e86836b0ade9fb03d6f3",
    "Authorization f4965ccb2295dcd1a4b8e22bcd72013cc962a50aa3582e46649cd6bb5144fe29",
    "SignedTransaction a9be855aacc208b7a41210025211bbced21a923cb1c0fcbfb6df96f6e23a9e6e",
    "VoteKind 60825251ff4c895f5a287d736e5737e58de4b0daaf89a5b83edfa02fc90a81a4",
    "Vote 1f1445d01f08b1807171680d060b1ceae05f349dc07d76846ee86d6a0cb8a7cc",
    "Evidence 43c181c325c763cc27d962891abe5da583c71fdeb73dbbacb8ce406b2bb63d84",
    "Upgrade e44a719b5316923f403ca6ebb34d23c7872098f7a86fc331727d65d9dee31579",
    "StateCommitment 6f8b031e4e32753cca1f8b127329d8ce33128cbec66771c7966aa65951fdf25b",
    "Header df0691869d16458e73b75bdd6200caf60b88428fcf0bb02ee66e65bc74fc07be",
    "Block ced42030ded907887c3477428354778a7bdcf2e45f2ea8124929b8ab19452ae2",
    "Failure da9185a127b8d7a68f2e8b0b45d863e56a16d4c4d635d0d8f9c32c5dfcbc210b",
    "Outcome b9be912cbe8881049de32b6d6cd65f7fa2d5cafcc2cb72c3a37d0894ed11c366",
    "SlashReason 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "CloseReason e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Event d6bd171b3c81713d80a8ee0990a749dc624250a203d9d9a31678948b2beb1403",
    "Receipt c9a5b2679dc9232003195587721a1e9e329e31b70cac2074b50667382cf5bcbf",
    "Account 88f2accbd93d0cbae2a4ad1450fcd4420994c2d51ea514585035e441c7446b99",
    "SpendingLimit 10010b45d3a8c9026c42573b01dfff43e4c0c84ca489fc971cc6e6c706072c9d",
    "Vesting a6e4206a1e69928990ec84a780b978d9e1baa8007dd989ea1589ef4664f8c588",
    "Jail 6176f4ea4988d8a9d609d5020ea2ef1f70346a1439b311e91c204b87f3122c32",
    "ValidatorStatus b1a948decd47aeffdafdcbfe752bd61103487ef2dcef7ab7ade0a442baeeeaa4",
    "Validator 0641638f9f214734a6f6c6c2abd3e2ba8c54e6549fa651368131072cb5bb38d8",
    "Delegation b9afae961f1bbd25a57bbaeef99325eed308fe6692ccbdaaf839202338024ae7",
    "UnbondingPool 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Unbonding a1d22252428f4101c7f582f49dbac7fe1926282ab964bcbb74eedde9844dff62",
    "Queue 1ce9748a25455a9ece874ab75f3790322582ded8e8c2ec71319326a38bbaeeca",
    "Candidates 0ac9ae4bd27c18b17d05fb62b8f60344658ec5b3ab7d6cb1889b826340ff2309",
    "Turn c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Turns 7e9de15654f0056b758476d36a6776359572b82e74a981e97524852511cc5cec",
    "Offences 0ac9ae4bd27c18b17d05fb62b8f60344658ec5b3ab7d6cb1889b826340ff2309",
    "DutyKind 109265b80c930127ba27be394c5e08b6c9589be2d7168dd8a0553954ba4a8a60",
    "Duty c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Supply 46edd65b82dc31c2a3db281eea3b24234e90ee255a97fc7e8bbd7719f4efb22b",
    "Treasury 1e01be1186571cfa4a6fcf9831dcd5638b445c0a5404a11d3c291ea379e41477",
    "ChainState 684916d39d2f1faa8aed8846cebc52e550387aa8792c53c99e187a2c19e8b96e",
    "BeaconRecord a6e4206a1e69928990ec84a780b978d9e1baa8007dd989ea1589ef4664f8c588",
    "Record 57e3266d4248ea556337e31a76688ad9f96ac73e6abb67e2dce3db49d5c537ed",
    "Key b58a00496c3761ac08b4f121e430455a5145ce8602e6b205f90e24acde3ecb23",
    "Entry b734c0bb4094a0de03304eb8cfdebf0f366cacb8dc9e186a48540d2d56fc2dba",
];

const DIGESTS: &[&str] = &[
    "Transaction::body b9311fd503c240c1e76ff29ac8f20b691ee68522dca1769a2e6f2b58a0fc871c",
    "Transaction::summary a35bd420f8aee7c1e8f5f2b6651d928604a11b72e98f9c61d621e7361fea3f99",
    "SignedTransaction::witness bac3c93f3d42190ba1b46106eb3b6f64452d9e26c441f377ed89c0402aa9816f",
    "Block::transactions_root cf63912131223c1c340158a5ee6e5a1f9f778b0cd557b98d7eb482da6e8e96b2",
    "Header::digest db9112fed30ea3114bd9e0609619c6564bc92fe970ac06cde3afb12d7e72cdd9",
    "SeatSet::digest 4adf6682f1542fcf53fd29dfe3f4c3e514a6fce96c6dbf199e0bc2b50f3c337b",
    "Genesis::digest 9a97d6e322f766b1d9af94a06f28dde0e98bdea8cea0d006daf69e7afb9eda48",
    "Receipt::digest d5f211830d0bc5cd249ddb7c5c8ffb6110ef5e0feb25c8fa782d46687bd21127",
    "Key::digest 81bfb90078230c7a01c5aa18daa3c6451b8f5d7ea3a9c274d72c2c21bcbb5391",
    "Vote::signed_parts d7efa1930039cdf952b2468c79152e996ec5a278ead1749a5bb94f7cd96d3da6",
];
