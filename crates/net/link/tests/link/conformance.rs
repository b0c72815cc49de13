//! Pinned encodings: a hash that changes is a change of the protocol, and needs a decision record.

use commonware_codec::{Codec, Copying, DecodeExt as _};
use opengpu_crypto::{SealPublicKey, Sealed, hash};
use opengpu_link::EndpointId;
use opengpu_link::artifact::{ArtifactKey, Grant, Groups};
use opengpu_link::folder::{FilePath, Manifest, PackedFile};
use opengpu_link::lease;
use opengpu_link::transfer::{Keep, Named, News, Run, Size};
use opengpu_types::{
    ArtifactId, AuditLeaf, Digest, Ending, LeaseId, List, Metered, Millis, Segment, SegmentIndex,
    TaskId, Text,
};
use std::fmt::Debug;

pub(crate) const ID: ArtifactId = ArtifactId(Digest([7; 32]));

/// Checks that values read back, and pins their encodings.
fn pin<T: Codec<Cfg = ()> + PartialEq + Debug>(name: &str, values: &[T]) -> String {
    let encodings: Vec<_> = values.iter().map(|value| value.encode()).collect();
    for (value, encoding) in values.iter().zip(&encodings) {
        assert_eq!(T::decode(encoding.clone()).unwrap(), *value);
        assert_eq!(value.encode_size(), encoding.len());
        let longer = [encoding.as_ref(), &[0]].concat();
        assert!(T::decode(Copying(&longer)).is_err(), "{name} takes trailing bytes");
    }
    let parts: Vec<&[u8]> = encodings.iter().map(AsRef::as_ref).collect();
    format!("{name} {}", hash("conformance", &parts))
}

pub(crate) fn manifest() -> Manifest {
    let file = |path: &str, executable| PackedFile {
        path: FilePath::new(path).unwrap(),
        executable,
        size: 5,
        artifact: ID,
        key: ArtifactKey::from_bytes([9; 32]),
    };
    Manifest::new(vec![file("a/b", true), file("c", false)]).unwrap()
}

pub(crate) fn grant() -> Grant {
    let sealed = Sealed { encapsulated: [1; 32], ciphertext: vec![2; 48] };
    Grant { artifact: ID, reader: SealPublicKey([3; 32]), sealed }
}

pub(crate) fn groups() -> [Groups; 3] {
    let mut some = Groups::none(13);
    [0, 5, 12].iter().for_each(|index| some.insert(*index));
    [some, Groups::all(1), Groups::none(8)]
}

/// What client and provider of a lease say to each other.
fn lease_words() -> [String; 12] {
    let lease = LeaseId { task: TaskId(Digest([5; 32])), number: 2 };
    let brief = |state| lease::Brief { lease, program: grant(), input: grant(), state };
    let bytes = List::new(vec![1, 2, 3]).unwrap();
    let metered = Metered { fuel: 4, tokens_in: 5, tokens_out: 6, bytes_out: 3 };
    let emitted = Digest([8; 32]);
    let whole = Segment { index: SegmentIndex(3), state: ID, emitted, metered };
    let (segment, parcel) = (SegmentIndex(3), lease::Parcel { size: 9, grant: grant() });
    let hold = |after, state| lease::Hold { lease, segment, after, state, piece: parcel.clone() };
    let held = lease::HeldState { segment, parcel: parcel.clone() };
    let holding = lease::Holding {
        segment,
        states: List::new(vec![held]).unwrap(),
        pieces: List::new(vec![parcel.clone(), parcel.clone()]).unwrap(),
    };
    let again = |state| lease::Again {
        program: parcel.clone(),
        input: parcel.clone(),
        state,
        segments: parcel.clone(),
    };
    let siblings = List::new(vec![Digest([6; 32])]).unwrap();
    let leaf = AuditLeaf { segment: whole, siblings };
    let before = lease::Before { state: parcel.clone(), tree: Digest([5; 32]), leaf };
    let served = |before| lease::Served { program: parcel.clone(), input: parcel.clone(), before };
    let news = [
        lease::News::Begun { segments: 8 },
        lease::News::Reached { segment: whole },
        lease::News::Emitted { bytes: bytes.clone() },
        lease::News::Logged { bytes },
        lease::News::Ended { ending: Ending::Completed },
        lease::News::Failed { why: Text::new("why").unwrap() },
    ];
    [
        pin("lease::Brief", &[brief(None), brief(Some(grant()))]),
        pin("lease::Follow", &[lease::Follow { lease, from: 9 }]),
        pin("lease::Telling", &[lease::Telling { teller: 9 }]),
        pin("lease::Wanted", &[lease::Wanted { lease }]),
        pin("lease::Parcel", &[lease::Parcel { size: 9, grant: grant() }]),
        pin("lease::News", &news),
        pin("lease::Burst", &[List::new(news.to_vec()).unwrap(), lease::Burst::empty()]),
        pin("lease::Standing", &[lease::Standing { lease, segment: SegmentIndex(3) }]),
        pin("lease::Hold", &[hold(None, Some(parcel.clone())), hold(Some(SegmentIndex(1)), None)]),
        pin("lease::Holding", &[holding]),
        pin("lease::Again", &[again(None), again(Some(parcel.clone()))]),
        pin("lease::Served", &[served(None), served(Some(before))]),
    ]
}

#[test]
fn no_encoding_has_changed() {
    let pinned = [
        pin("EndpointId", &[EndpointId([4; 32])]),
        pin("Named", &[Named { artifact: ID }]),
        pin("Size", &[Size { size: 0 }, Size { size: u64::MAX }]),
        pin("Run", &[Run { artifact: ID, first: 3, count: 64 }]),
        pin("Keep", &[Keep { artifact: ID, size: 9, until: Millis(8) }]),
        pin("News", &[News::Fetched { done: 1 }, News::Kept { sent: 2 }, News::Failed]),
        pin("Groups", &groups()),
        pin("Grant", &[grant()]),
        pin("Manifest", &[manifest(), Manifest::new(vec![]).unwrap()]),
    ];
    let pinned = [pinned.as_slice(), &lease_words()].concat();
    assert_eq!(pinned.join("\n"), PINNED.join("\n"));
}

const PINNED: [&str; 21] = [
    "EndpointId 499cae32763b5204da30e3ba76d076a5c2c336fa795707a97f22e6e5c6d1a866",
    "Named c1ac31d7beaa478192a889723e6e835afb28d36c13d54315f32bef17bdb0ad5c",
    "Size 3984e2bccb50e8a421596cfa8d3a052ceb4fa402bf2d5ced32a802fb09616825",
    "Run 7ab73d9761aa8c005cd863e3bb86a3df544ca64befd1a27f933cd738c3db42d4",
    "Keep 45acc0af45ce716b8c9f3dd886d5a642cab56e021e66f96d828ac92fde2ec757",
    "News 59934c01e72dd0a55d8d680dc73c75c7d39eaa434ec9e6afb136941d76ee5b4f",
    "Groups c39381521f5aecd63dd84d8c18491718950e05bd26403d9a3fa3f4dc410a1d20",
    "Grant 8c2c6894403febba730405c88d08c896f69c54bfcc6fd805dfe03065bb754b7d",
    "Manifest 71c4d0bd1cc021ee5e5ad565365b2f27cfb904fcd594e589461939c343fab3c2",
    "lease::Brief d9ff8c11a9728a9722080e1ba6a38d24be0fedcd140d031508fdffc7d3dbc32c",
    "lease::Follow 2730344e6ecd3e2f35600562eb183aeb5d761686cf81c1ad22c3338bcd9831c8",
    "lease::Telling 8657d0648d6ef6bbd7194d9796214f400c2156c47168b95921b44ff35a4d55e4",
    "lease::Wanted d0104d0bf06aff9ef9bd765b4f9022daafb469d4446acc5bab1ef837edd7b6fd",
    "lease::Parcel ec0b5fbe4a762b6db69b0d95745ae96bc4fe410ba1151ebc1dfc49f92ca7203a",
    "lease::News b6667628672c71b99bd033094257cb3f70b7b5da72720d470db194b20bb6622e",
    "lease::Burst 2f8bc84746e121bd1d63cc171b0795dbbed656166189a965622baaf584750233",
    "lease::Standing e9a3d3599fbdf821dbbb767e905ac0fb2f9803b8262c23f93fb367b41d5c3c28",
    "lease::Hold c6ee8d471fba9f74fec13a90de127781cd17e8c8ea7a70020d28303bf8275688",
    "lease::Holding bd5bfe97cdc0c0f5516100cbadd5bde84d32464c8ffae234317d45b8349e0e32",
    "lease::Again 36c447fddb5c687ff6c1a5d8452ddf74ca7d9b1a0dae5078373306ea90d1263e",
    "lease::Served f098686098d0df69bf6cde292fb6c42175769241bad349d388c2faef45fcaab7",
];
