//! Receipts checked offline: every link can fail, and is named when it does.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use commonware_codec::Encode as _;
use commonware_consensus::{
    simplex::types::{Finalize, Proposal},
    types::{Epoch as EngineEpoch, Round, View as EngineView},
};
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use commonware_parallel::Sequential;
use commonware_utils::non_empty;
use opengpu_crypto::{BeaconPublicKey, BeaconSignature, Seed, merkle};
use opengpu_light::{
    EpochStep, Finalization, FinalizedHeader, Link, ReceiptBundle, Scheme, Trust, VerifyError,
    voters,
};
use opengpu_types::{
    Address, Amount, ChainId, ConsensusKey, Digest, Epoch, Event, Header, Height, List, Millis,
    NetworkAddress, Outcome, Permille, Receipt, RuleVersion, Seat, SeatSet, StateCommitment, View,
    Weight, consensus_namespace,
};
use rand::{SeedableRng as _, rngs::StdRng};

const CHAIN: ChainId = ChainId(7);

fn keys(first: u64) -> Vec<PrivateKey> {
    (first..first.saturating_add(4)).map(PrivateKey::from_seed).collect()
}

fn seats(epoch: u64, keys: &[PrivateKey]) -> SeatSet {
    let mut seats: Vec<_> = keys
        .iter()
        .map(|key| Seat {
            consensus: ConsensusKey(key.public_key().as_ref().try_into().unwrap()),
            validator: Address::new([1; 20]),
            beacon: BeaconPublicKey([2; 96]),
            weight: 5,
            commission: Permille::ZERO,
            host: "127.0.0.1:9000".parse::<NetworkAddress>().unwrap(),
        })
        .collect();
    seats.sort();
    SeatSet { epoch: Epoch(epoch), seed: Seed([3; 32]), seats: List::new(seats).unwrap() }
}

fn header(height: u64, next: &SeatSet, receipts: Digest) -> Header {
    Header {
        chain: CHAIN,
        rules: RuleVersion(1),
        upgrade: None,
        height: Height(height),
        epoch: Epoch(next.epoch.0.saturating_sub(1)),
        view: View(9),
        parent_view: View(8),
        leader: ConsensusKey([4; 32]),
        parent: Digest([5; 32]),
        time: Millis(1_000),
        beacon: BeaconSignature([6; 48]),
        state: StateCommitment {
            root: Digest([7; 32]),
            log_root: Digest([8; 32]),
            log_start: 0,
            log_end: 9,
        },
        transactions: Digest([10; 32]),
        receipts,
        next_seats: next.digest(),
    }
}

/// A certificate over `header` by three of the four `keys`, on `chain`.
fn finalize(
    chain: ChainId,
    header: Header,
    seats: &SeatSet,
    keys: &[PrivateKey],
) -> FinalizedHeader {
    let round = Round::new(EngineEpoch::new(header.epoch.0), EngineView::new(header.view.0));
    let proposal = Proposal::new(round, EngineView::new(header.parent_view.0), header.digest());
    let voters = voters(seats).unwrap();
    let schemes: Vec<_> = keys[..3]
        .iter()
        .map(|key| {
            Scheme::signer(&consensus_namespace(chain), voters.clone(), key.clone()).unwrap()
        })
        .collect();
    let votes: Vec<_> =
        schemes.iter().map(|scheme| Finalize::sign(scheme, proposal.clone()).unwrap()).collect();
    let certificate = Finalization::from_finalizes(&schemes[0], non_empty![@&votes], &Sequential)
        .unwrap()
        .encode()
        .to_vec();
    FinalizedHeader { header, descendants: Vec::new(), certificate }
}

fn receipt(index: u32) -> Receipt {
    let (from, to) = (Address::new([11; 20]), Address::new([12; 20]));
    let event = Event::Transferred { from, to, amount: Amount::whole(3) };
    Receipt {
        height: Height(12),
        index,
        transaction: None,
        outcome: Outcome::Applied,
        fee: Amount(99),
        weight: Weight(400),
        events: List::new(vec![event]).unwrap(),
    }
}

/// A receipt of epoch 1, with the step from epoch 0.
fn bundle() -> (Trust, ReceiptBundle) {
    let (old, new) = (keys(0), keys(100));
    let (zero, one, two) = (seats(0, &old), seats(1, &new), seats(2, &old));
    let leaves: Vec<_> = (0..5).map(|index| receipt(index).digest()).collect();
    let step = EpochStep {
        finalized: finalize(CHAIN, header(4, &one, Digest([0; 32])), &zero, &old),
        seats: one.clone(),
    };
    let finalized = finalize(CHAIN, header(12, &two, merkle::root(&leaves)), &one, &new);
    let proof = merkle::prove(&leaves, 2).unwrap();
    let bundle = ReceiptBundle { steps: vec![step], finalized, receipt: receipt(2), proof };
    (Trust { chain: CHAIN, seats: zero }, bundle)
}

fn check(trust: Trust, bundle: &ReceiptBundle) -> Result<(), VerifyError> {
    bundle.verify(&mut StdRng::seed_from_u64(1), trust)
}

#[test]
fn a_receipt_is_final_from_genesis_and_from_a_checkpoint() {
    let (trust, bundle) = bundle();
    let bytes = bundle.to_bytes();
    let read = ReceiptBundle::from_bytes(&bytes).unwrap();
    assert_eq!(read, bundle);
    assert_eq!(check(trust.clone(), &read), Ok(()));
    let checkpoint = Trust { seats: bundle.steps[0].seats.clone(), ..trust };
    assert_eq!(check(checkpoint, &read), Ok(()));
}

#[test]
fn a_flipped_bit_at_any_place_is_refused() {
    let (trust, bundle) = bundle();
    let bytes = bundle.to_bytes();
    for place in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            let verdict = ReceiptBundle::from_bytes(&damaged)
                .and_then(|bundle| check(trust.clone(), &bundle));
            assert!(verdict.is_err(), "bit {bit} of byte {place}");
        }
    }
    for length in 0..bytes.len() {
        assert!(ReceiptBundle::from_bytes(&bytes[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn the_broken_link_is_named() {
    type Break = fn(&mut ReceiptBundle);
    let cases: [(Link, Break); 7] = [
        (Link::Header, |b| b.finalized.header.time = Millis(2)),
        (Link::Header, |b| b.finalized.header.chain = ChainId(8)),
        (Link::Certificate, |b| {
            b.finalized.certificate = b.steps[0].finalized.certificate[..9].to_vec()
        }),
        (Link::Seats, |b| b.steps[0].seats.seed = Seed([9; 32])),
        (Link::Proof, |b| b.receipt.fee = Amount(1)),
        (Link::Proof, |b| b.proof.siblings[0] = Digest([1; 32])),
        (Link::Receipt, |b| b.receipt.height = Height(13)),
    ];
    for (link, break_it) in cases {
        let (trust, mut bundle) = bundle();
        break_it(&mut bundle);
        assert_eq!(check(trust, &bundle).unwrap_err().link(), link);
    }
}

/// The same receipt in a block without a certificate of its own: its grandchild has one.
fn split_bundle() -> (Trust, ReceiptBundle) {
    let (trust, mut bundle) = bundle();
    let first = bundle.finalized.header.clone();
    let two = seats(2, &keys(0));
    let child = Header { parent: first.digest(), ..header(13, &two, Digest([0; 32])) };
    let grandchild = Header { parent: child.digest(), ..header(14, &two, Digest([0; 32])) };
    let one = bundle.steps[0].seats.clone();
    let certified = finalize(CHAIN, grandchild.clone(), &one, &keys(100));
    bundle.finalized = FinalizedHeader {
        header: first,
        descendants: vec![child, grandchild],
        certificate: certified.certificate,
    };
    (trust, bundle)
}

#[test]
fn the_certificate_of_a_later_block_finalizes_what_it_is_built_on() {
    let (trust, bundle) = split_bundle();
    let read = ReceiptBundle::from_bytes(&bundle.to_bytes()).unwrap();
    assert_eq!(read, bundle);
    assert_eq!(check(trust.clone(), &read), Ok(()));

    let mut gap = bundle.clone();
    gap.finalized.descendants.remove(0);
    assert_eq!(check(trust.clone(), &gap), Err(VerifyError::Detached { height: Height(14) }));
    let mut short = bundle;
    short.finalized.descendants.pop();
    assert_eq!(check(trust, &short), Err(VerifyError::OtherBlock { height: Height(13) }));
}

#[test]
fn a_receipt_signed_by_another_validator_set_is_refused() {
    let (trust, mut bundle) = bundle();
    let strangers = keys(500);
    let set = seats(1, &strangers);
    let header = bundle.finalized.header.clone();
    bundle.finalized = finalize(CHAIN, header, &set, &strangers);
    assert_eq!(check(trust, &bundle), Err(VerifyError::NoQuorum { epoch: Epoch(1) }));
}

#[test]
fn votes_cast_on_another_chain_do_not_count_here() {
    let (trust, mut bundle) = bundle();
    let (set, header) = (bundle.steps[0].seats.clone(), bundle.finalized.header.clone());
    bundle.finalized = finalize(ChainId(8), header, &set, &keys(100));
    assert_eq!(check(trust, &bundle), Err(VerifyError::NoQuorum { epoch: Epoch(1) }));
}

#[test]
fn a_step_that_is_missing_leaves_the_seats_unknown() {
    let (trust, mut bundle) = bundle();
    bundle.steps.clear();
    let expected = VerifyError::UnknownSeats { got: Epoch(1), known: Epoch(0) };
    assert_eq!(check(trust, &bundle), Err(expected));
}
