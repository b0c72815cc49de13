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
    "Seat 493db3bbaa9bc748b91f7fe6c49f48b754dd70202c332c7a583385bb61148dbc",
    "SeatSet 45137d76e30765600cdec57cb335a7318c2c92f67897565df4a12c67a8553a5f",
    "Emission 76c7bf973e67525c26f6e30f4553f347997167029530bae71deaa22307848949",
    "Parameters 71896290c3067149f154862d7476a3fe0e64ecb001d46051cf4add6c3e0d647a",
    "VestingTerms 013eb73936f66ff48706a635fd956dd1e947d6b2f2ee196f65717793105d3ed7",
    "Allocation d75d6ec65622f8a2f277ae3e2442d700165d647ab2cc2c0e745daa66311047bb",
    "TreasuryStream 07f1878aaf7e667cc41dd0391216882b28f2173a754f80dae0ab06457b17a5da",
    "GenesisValidator f46f1feedc184339c4e25b4575b9e009b3ad65753141a892b940475c3dbf1543",
    "Genesis a6cbb3b61c629b57cec0649a9d025d4951262610b74512b7bc89d52d06e3afbc",
    "ValidatorKeys ca2c233c0c37cee7e3a6b4b9ce4b2e44f97182897d34ef28ff6cd3d5b213aa3c",
    "Purpose 8d3899def817229dec360c46816ff1a5a1b17a4dbe4f7316c68abb5dc64c24e9",
    "Operation c63818034334e63cec8cf04cae14c7f631352968723ff70f8113b39c6e9b4469",
    "TransactionId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Transaction 1c832a91996d29175262472e6acbe103a4eb1a38baee7816d3755263b8cb2273",
    "Authorization f4965ccb2295dcd1a4b8e22bcd72013cc962a50aa3582e46649cd6bb5144fe29",
    "SignedTransaction eb376dbc29ae402116c78c2875f14d6fe00ad2d1d0481b6e39081109f989fe15",
    "VoteKind 60825251ff4c895f5a287d736e5737e58de4b0daaf89a5b83edfa02fc90a81a4",
    "Vote 1f1445d01f08b1807171680d060b1ceae05f349dc07d76846ee86d6a0cb8a7cc",
    "Evidence 43c181c325c763cc27d962891abe5da583c71fdeb73dbbacb8ce406b2bb63d84",
    "Upgrade e44a719b5316923f403ca6ebb34d23c7872098f7a86fc331727d65d9dee31579",
    "StateCommitment 6f8b031e4e32753cca1f8b127329d8ce33128cbec66771c7966aa65951fdf25b",
    "Header df0691869d16458e73b75bdd6200caf60b88428fcf0bb02ee66e65bc74fc07be",
    "Block 421390dfeca120f3cfbef1e10e307e1ac3fe447b3f359919677c02f5b0afe8a2",
    "Failure 76eadc1af2d17e07af10c82bde8c5778f58827965eb466e409d80ed3d2761178",
    "Outcome 9bf8fa8924c12b7f9c67a7ae8e70e857787301ef97053e94b51f0eaae4a8c0b6",
    "SlashReason 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "CloseReason e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Event 9e1541d957a52dd3443aaee825469e510b7944277f65c85e6ae0cbdd7e9c6921",
    "Receipt f2e3f37c57d4bdce7e4fc52901eea876ed61b47ea66ccdfe2c7922d138e087a4",
    "Account 88f2accbd93d0cbae2a4ad1450fcd4420994c2d51ea514585035e441c7446b99",
    "SpendingLimit 10010b45d3a8c9026c42573b01dfff43e4c0c84ca489fc971cc6e6c706072c9d",
    "Vesting a6e4206a1e69928990ec84a780b978d9e1baa8007dd989ea1589ef4664f8c588",
    "Jail 6176f4ea4988d8a9d609d5020ea2ef1f70346a1439b311e91c204b87f3122c32",
    "ValidatorStatus b1a948decd47aeffdafdcbfe752bd61103487ef2dcef7ab7ade0a442baeeeaa4",
    "Validator 2fc87d279557067613a7c163bd44387da2d74774afd912273662585e566ccb58",
    "Delegation b9afae961f1bbd25a57bbaeef99325eed308fe6692ccbdaaf839202338024ae7",
    "UnbondingPool 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Unbonding a1d22252428f4101c7f582f49dbac7fe1926282ab964bcbb74eedde9844dff62",
    "KeyHolder 8196d6e88e4a9e3466a879e963c5227cd8a396610eb7d8abe95f5a79e51820b5",
    "Candidates 0ac9ae4bd27c18b17d05fb62b8f60344658ec5b3ab7d6cb1889b826340ff2309",
    "Turn c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Turns 7e9de15654f0056b758476d36a6776359572b82e74a981e97524852511cc5cec",
    "Offence 4bb9c8a0ea2f67474574b8eca7fd2a411580fc8694ba2f88ebfde801dd35ab6f",
    "Offences b4fa84341a2b489748b4762b22e9c65ee4c7ffa6d6cffef05657b60b09b6147f",
    "DutyKind 109265b80c930127ba27be394c5e08b6c9589be2d7168dd8a0553954ba4a8a60",
    "Duty c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Supply 46edd65b82dc31c2a3db281eea3b24234e90ee255a97fc7e8bbd7719f4efb22b",
    "Treasury 1e01be1186571cfa4a6fcf9831dcd5638b445c0a5404a11d3c291ea379e41477",
    "ChainState 684916d39d2f1faa8aed8846cebc52e550387aa8792c53c99e187a2c19e8b96e",
    "BeaconRecord a6e4206a1e69928990ec84a780b978d9e1baa8007dd989ea1589ef4664f8c588",
    "Record 64bc34a6f426326e3beb8e76db304f467eed947172adc803be1da312e6c3b3e3",
    "Key b58a00496c3761ac08b4f121e430455a5145ce8602e6b205f90e24acde3ecb23",
    "Entry 4becd28f4a52cfb47002582ce7f27c618d5ef9db385fc3ef77a8e9b356952ddc",
    "ArtifactId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "ProgramId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "SegmentIndex a50543d5e066f4409977d711298e55bccf3a7a0f60d2c3ece1a932adfe164d9b",
    "Metered 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Segment 2b2b250bf5182704046075e87b740b4108725c73abd021a1830bbd5c053e6321",
    "ProgramKind 7f04fdd4543b213d420786bca708bed734bc1cce0a8979f07cf0b1e80149885a",
    "Precision e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Runtime e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Measure 447bcd04e26a0f5412f8bc83e08b8ef6c7163dac876693c13cb504a74673d2c0",
    "Rating 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Work fbff5a17f88a737d8289d24dbd2b6a3e016f37425f44f6ae57e2adb00587bed3",
    "Trust 447bcd04e26a0f5412f8bc83e08b8ef6c7163dac876693c13cb504a74673d2c0",
    "Requirements e68aa3dc153ae7fb3258fba2d267205cf79506469236a5e760d7f8d9e2e60db8",
    "Offer 50d7ab1b4ae937c78082a18665d27b8234da7f55deeb034df20be3ea7f0e895f",
    "Weights 4620f4845aae37d337e9683f232980482fd169f824b225238c2e577ba80eb2b8",
];

const DIGESTS: &[&str] = &[
    "Transaction::body b70e413797cec92d7d384b1096a9869b404cdb10c91376ad65a1a4be96e4d586",
    "Transaction::summary e8ecc348c7cb21f1a306fcb2541f5338ebfabe3e208cf1f988272db5d9c2b8fb",
    "SignedTransaction::witness cebad399db0717f5f1d80095e3c5a040f84253f051479dc04d8387c2a16f97cf",
    "Block::transactions_root be4473eff0cedaaf390853a5a987a8c5f6641a5df62b06df879ae7421273038e",
    "Header::digest db9112fed30ea3114bd9e0609619c6564bc92fe970ac06cde3afb12d7e72cdd9",
    "SeatSet::digest bd14c3d74d4eb065b46205831598f25d4b720bb26c98405ab1c4ccb62c18a499",
    "Genesis::digest 626840b3023e7fa779e9463e8cf4e5841f690e4fb29460867090de27ace4fe87",
    "Receipt::digest 21e453fc1b193a60d9df2771a12abf715f8ed4ec5a073f9b293efb3e21866f6b",
    "Key::digest 81bfb90078230c7a01c5aa18daa3c6451b8f5d7ea3a9c274d72c2c21bcbb5391",
    "Vote::signed_parts d7efa1930039cdf952b2468c79152e996ec5a278ead1749a5bb94f7cd96d3da6",
];
