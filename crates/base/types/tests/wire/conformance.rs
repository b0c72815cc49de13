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
    "Parameters 73ecdfb3eed76100ea717a2e25aae6ef7a8cec338591411976b867f6803fff1b",
    "VestingTerms 013eb73936f66ff48706a635fd956dd1e947d6b2f2ee196f65717793105d3ed7",
    "Allocation d75d6ec65622f8a2f277ae3e2442d700165d647ab2cc2c0e745daa66311047bb",
    "TreasuryStream 07f1878aaf7e667cc41dd0391216882b28f2173a754f80dae0ab06457b17a5da",
    "GenesisValidator f46f1feedc184339c4e25b4575b9e009b3ad65753141a892b940475c3dbf1543",
    "Genesis 600b21ea1f857bdbaccfef295b478bd2bee657b0b8f6313646194c0656540983",
    "ValidatorKeys ca2c233c0c37cee7e3a6b4b9ce4b2e44f97182897d34ef28ff6cd3d5b213aa3c",
    "Purpose 447bcd04e26a0f5412f8bc83e08b8ef6c7163dac876693c13cb504a74673d2c0",
    "Operation 72ee9a53d92fd9fb7a08b1a6421d016ae474b58477168a57d89b910325b8e2ea",
    "TransactionId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Transaction e8963e116cdad8e2c67e41049569c535169fc8d148b17c106f7b5933123e2abd",
    "Authorization f4965ccb2295dcd1a4b8e22bcd72013cc962a50aa3582e46649cd6bb5144fe29",
    "SignedTransaction 6e3768d9e6abe503eb938767509aa73c72b133701237ef15a11b191de64ef5f8",
    "VoteKind 60825251ff4c895f5a287d736e5737e58de4b0daaf89a5b83edfa02fc90a81a4",
    "Vote 1f1445d01f08b1807171680d060b1ceae05f349dc07d76846ee86d6a0cb8a7cc",
    "Evidence 43c181c325c763cc27d962891abe5da583c71fdeb73dbbacb8ce406b2bb63d84",
    "Upgrade e44a719b5316923f403ca6ebb34d23c7872098f7a86fc331727d65d9dee31579",
    "StateCommitment 6f8b031e4e32753cca1f8b127329d8ce33128cbec66771c7966aa65951fdf25b",
    "Header df0691869d16458e73b75bdd6200caf60b88428fcf0bb02ee66e65bc74fc07be",
    "Block 2370164d2058b468c30ca3c3eeae07a5121935023c350614617623905242f69f",
    "Failure 26e2591f47d660dd59b7119aec56e9bfd26e2b58b0dd5f59df68ef86057ec3bf",
    "Outcome db02761addecaeddf5f43c3a7b8deb8758599caa94dc3ed3ae5ae5979255f748",
    "SlashReason 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "CloseReason cb137851d56562679c78c099b3f79647a9557e463f1fdaab178eca53bac9dd56",
    "Event 7e407f5c0649cd22bd47e6a219a5e56ee4ba9300f6467d0805ae46979ae3094e",
    "Receipt 29de7cb3b59b93b6b0b7c8d9d8b80d08c3821de2051094c7681050ab9118f076",
    "Account a733e9cd6c46e6004e0916fc27b0e13edeede8c2be0cb82367c76efcf85ce679",
    "SpendingLimit ae7aca96824333c2420d323398c4ba18b3b6d5831c0cead7265047455bf2496d",
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
    "Supply 11bc9064ccd98a784d41a0b8714b2b77897d9a17a28d92a525b1e13be540e392",
    "Treasury 1e01be1186571cfa4a6fcf9831dcd5638b445c0a5404a11d3c291ea379e41477",
    "ChainState 684916d39d2f1faa8aed8846cebc52e550387aa8792c53c99e187a2c19e8b96e",
    "BeaconRecord a6e4206a1e69928990ec84a780b978d9e1baa8007dd989ea1589ef4664f8c588",
    "Record edad4bf1897f7e2e48434aebc4be5819a544d98836849b3c5dcfbda4154c686a",
    "Key 72bfcd247b5e25b54b819105fcd2477d157a7871df9a670fe96a38535d8677a1",
    "Entry 3a258a50053ac987b1cf365f9b9e234d43665c1ec1ba777c134bfd33af280813",
    "ArtifactId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "ProgramId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "SegmentIndex a50543d5e066f4409977d711298e55bccf3a7a0f60d2c3ece1a932adfe164d9b",
    "Metered 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Segment 2b2b250bf5182704046075e87b740b4108725c73abd021a1830bbd5c053e6321",
    "Checkpoint 3c93016a88d82b3cb1acf8f2163fac1ff02cd13550ede0ae1399f3719d8171b6",
    "ProgramKind 7f04fdd4543b213d420786bca708bed734bc1cce0a8979f07cf0b1e80149885a",
    "Precision e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Runtime e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Measure 447bcd04e26a0f5412f8bc83e08b8ef6c7163dac876693c13cb504a74673d2c0",
    "Rating 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Work fbff5a17f88a737d8289d24dbd2b6a3e016f37425f44f6ae57e2adb00587bed3",
    "Trust 447bcd04e26a0f5412f8bc83e08b8ef6c7163dac876693c13cb504a74673d2c0",
    "Requirements dd906c404b79e2694da6520bd21f45591b3b9b5a9b1ec8a410d0925c80d8966c",
    "Offer 2efa2176c70200883c4d05c963c2d47c2e040a668a9a0b398af0f661c9e642e0",
    "Weights 4620f4845aae37d337e9683f232980482fd169f824b225238c2e577ba80eb2b8",
    "Money 26645bbb4002b8c9e4dbee0efe54ffedece245a898c52440f0c5f543e010ce04",
    "MarketParameters 10fbdacde0a409ef6c3e2bd020be5ac8fa2d7da38b27a8bc11aa1fe91b6ffb11",
    "SessionKey 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "Contact ca2dcdb501472de41244ff92a4dcda12bfe466caca72336186dd5dbed0f311e0",
    "ProviderStatus 1c8c2fb81b89d144721df85612a4623878bb675cb1b90dd69421b0016ad916a5",
    "Reputation d3699e78644a0325b8ce496ece604d786f33bbf2d5f61a89dbf22bc710677757",
    "Presence 8d3899def817229dec360c46816ff1a5a1b17a4dbe4f7316c68abb5dc64c24e9",
    "Uptime a4929e7781f75ef43e9524ec72cf91ba688d17a9522caa8a7d4badbb15a0df25",
    "Offered b09541d9f3ea6c16a07a0ebf9c16daa4dcc24bd1c0a16efbe805d619c047794c",
    "Paced 7303f2ff5623baa2400501cab5fa7425ab3a9d24944dac32ea5dc9d9a23d5b01",
    "Past dbaf9f4f0f4944741dbf6335dd7bb3a323372ab354ab679e1ad0d5c5d58c48c3",
    "Provider 7d081b63aa8dde12a01b5f0f725f89c74708e3e6e9522b5f87d768bc4acb62e6",
    "Shelved 424257f76875933b0d1dda54d8c267e23bad4100fde7d931fbe9317a28b626cb",
    "Shelf 067d6fa1ea4e4fe6942a73c6ff25cb96f84a2bb843579ff70476c61b194070d5",
    "ClassIndex 9fe5bb51f8c4a8a7547149a949f7a599d80cf20678c089eeda0aa4db835fe499",
    "Client e034bfd020521f29417b8cd352dfb6018792720361fe35ad37be727136e30e9e",
    "Leave 447bcd04e26a0f5412f8bc83e08b8ef6c7163dac876693c13cb504a74673d2c0",
    "TaskId 0f39743a434ba119ae69b576e74d984bb0867edd4f4be6239966f41c9aa80d1a",
    "LeaseId 871a3b073c874d273240db74482f1184e9a3161477788cb787cc1c744ea3f668",
    "Class 0978dbf43b7e287f2d5b285ca291b3e8caf99f7bf6b689809c3e7593f0925fcf",
    "Eyes e23fab047f815d07a83166ceaae7bff708bc473568908c343766b54a3b429b17",
    "Allocating 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "Spec 9d8592b1b9767f91352403a37610921eb109b9b49dced1cddef06e8e159930ad",
    "Usage 1ce9748a25455a9ece874ab75f3790322582ded8e8c2ec71319326a38bbaeeca",
    "Ending 8d3899def817229dec360c46816ff1a5a1b17a4dbe4f7316c68abb5dc64c24e9",
    "Commitment 4aede9e6fffb2cb86e3aae1d66cf63e679d390898568e96dcbadb6fb1ce2dc85",
    "Witness e01c57284ddabfe15ae6ec7d6e4b198ef1d0fa23d5f29e677a267b48b47b2bb8",
    "Verdict 8d3899def817229dec360c46816ff1a5a1b17a4dbe4f7316c68abb5dc64c24e9",
    "LeasePhase 3616ce5892a814ab4f3fa25b3d9d8db15bcc49d09ef5c6e5bad20b06044fe430",
    "Lease f8967b5e8c1232a6bc3ef7e066a64af4f774a8dfc523291f8e1e38634f768bd9",
    "TaskPhase 84bad87ba4bbce6ef999d198bd09df79139bfc063f7617ee88257b1d3e0d6e83",
    "Task 0bcc2e9293897c2b3217c927bdb86f0df8a066d6ae24f63e5203c862faee7c47",
    "Bid d58f6a61ca8494df34e798f54724a490c1b6bdf385ae4d1e0c5c03aa796c69ec",
    "Auction f8e1386d330ce6369b2567faa008eac55e01b1419600dbe37090ced51d56ea4f",
    "Tick c3cff26dfe308f3590d58a5232c9890b1a04b25c63b5574f3d5f5c9a70455114",
    "Urgency 5c589b4e935ef773df23fed20655b697146532a0f8906d82c78e611f9f2385f2",
    "Alarm 136c5495c6cc97f02f8f9f0bc6f8fefc186cd64b350d2c56d038b747131f7b6e",
    "Agenda e44a719b5316923f403ca6ebb34d23c7872098f7a86fc331727d65d9dee31579",
    "AgendaPage 55d258a20eb78885f43a4e457d372f9c993c1eb91184b1dbc247c6cf766d0477",
    "MarketOperation 7949dc8f425e229b80beb95bee8ca78a730955401f259c73d55640d688c04800",
    "AuditParameters edca2c9c09b1946fd676a29231d2ae3280b32f833b7b8556f3a813187d17d567",
    "Reply 8214e20172eb71a5132fdd54d610de033f2025b2d33e72d852f308e6b1111188",
    "AuditReply 84a3ee654dee2186647948351f4665cfd325c6e642752d3cfbfa169139b22686",
    "AuditLeaf 84ac184adfdbcc7a526cc88213537a23b8d8fdc33faae9b1163dbbf4e8f9ab66",
    "AuditReveal 5f2f78e4457680017534280a5ffa6925333aa411aa56c5fec791ae9f4a084267",
    "DisputeMove 95a97cf270af8fa098134087fbb1292a90ad3eb291b94e0061e0dc0a45e3df25",
    "Frontier 53f3a5c06efa9d9a28a2286d4e09ca942bf774b37e0e5b7c0a3ebf54d27c9f18",
    "Unit 8ee7032d3cbcfeb3cb738f617d3b036d426445760f15a701dc54650ccc644df9",
    "Said 6a81399fab4b08f832039ecab6f947e5abfe576bb463de0c9dd5e57311a3dca0",
    "AuditDuty 82e6b31c2872840354ccb58f7597dbda4eecdd156833c200abf4479e320b242b",
    "AuditSeat 1dc0346ec22e2b262be00dbd9141a6357d1241bbe463ab9a1d59d2691baa4246",
    "Challenger ef7498759844615a0d9b37184b6f5ec2a51084fce35e04ea8c80a082ef55f0d4",
    "Fault 893e961605b6a428719fd87085cf75af23a2a7985d69a606e4de65e91932a114",
    "Finding 399098d9abee2558202cbaa0dfcd42b6ea0d4565f524f75a72cae9c0b6d44c51",
    "Step 6c8b9b2f353de1322b087495c38cb7ba37269357f86e386ee581929eb452118d",
    "Dissection ccd5a74f11c3359c88f77fa353eda631866d44ddc582469c000bbf12c3193bad",
    "Dispute 0b837ff05d7827a2c4fbb078cc8d15e1c6b3c7b36918432169f2f8aed1e9afdc",
    "AuditPhase c0c2d601e834c5d7a1948167969c4029ba372ec2c687179270e0be0ce4a087c6",
    "Audit 806ce86a1118e109beebed3a56ca72eca3a1a2be0675e465f7e832d6ab0f83a6",
    "TrialParameters 31abbc30f6c32865ba4b7ceba7e7097e96676acb55247cb6d9b1d782d8f0b5fa",
    "Tried c462febd219888e5968410b13c57abbf2e164fc237d2312d04f86dead68dffaf",
    "TrialPhase 550640626daa4ccbf045c55c409b93fc5c3f4fd3c3dbc7caa09ca4ef90626bb8",
    "Trial cd82f60c516507abf9ccdc5f822d6bb7ac4f9536987519da57f9b13cae1fdd13",
    "TrialBlock 9f5ecfde018b29968fc0a3385dd36414681eaf23c960a7f327dc6b95762b84f3",
];

const DIGESTS: &[&str] = &[
    "Transaction::body b517c82443ea98b525a0228d62b68602d8e93e4b0186336ef61d3fc338ccb1d7",
    "Transaction::summary 1198f52a11202f204c01b3cda76c6d0a87c385879e9ed32cea32a5335338bf64",
    "SignedTransaction::witness 977042d09d314d23394a930600553711bdceb3bd9fa73a7582a5b4a343072953",
    "Block::transactions_root bbde41d7d2119bbf6bc13ee1ad88372ea44d5792870876653e7175a32aef4942",
    "Header::digest db9112fed30ea3114bd9e0609619c6564bc92fe970ac06cde3afb12d7e72cdd9",
    "SeatSet::digest bd14c3d74d4eb065b46205831598f25d4b720bb26c98405ab1c4ccb62c18a499",
    "Genesis::digest 2eeb95b97ab82dc896bc45f673ccdf6a962500bd32dab1ab19db26b27154203a",
    "Receipt::digest aa015289806cbac858c05126aae1056a757d8afeca65a6dbece855aa8d57b702",
    "Key::digest bee435d0a7a7655b3f80583b757f25981d7015264910bb249603791a5e8f1c2e",
    "Vote::signed_parts d7efa1930039cdf952b2468c79152e996ec5a278ead1749a5bb94f7cd96d3da6",
];
