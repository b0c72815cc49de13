//! The text that a wallet shows and a signature covers: it names every fact that moves money.

use crate::values::{Stream, Value as _};
use opengpu_types::{
    Address, Amount, BeaconPublicKey, BeaconSignature, Boxed, ChainId, ConsensusKey, Digest, Epoch,
    Evidence, Height, List, Millis, Nonce, Operation, Permille, Purpose, Text, Transaction,
    UnbondingId, ValidatorKeys, View, Vote, VoteKind,
};
use proptest::{collection::vec, prelude::*, sample::Index};

const CHAIN: ChainId = ChainId(7);
const A: Address = Address::new([0xaa; 20]);
const B: Address = Address::new([0xbb; 20]);

fn keys() -> ValidatorKeys {
    ValidatorKeys {
        consensus: ConsensusKey([0xcc; 32]),
        consensus_possession: [4; 64],
        beacon: BeaconPublicKey([1; 96]),
        beacon_possession: BeaconSignature([2; 48]),
    }
}

fn evidence() -> Boxed<Evidence> {
    let vote = Vote { kind: VoteKind::Nullify, signature: [3; 64] };
    let (epoch, view) = (Epoch(4), View(9));
    Evidence { voter: ConsensusKey([0xcc; 32]), epoch, view, first: vote, second: vote }.into()
}

/// Every operation and its line.
fn golden() -> Vec<(Operation, &'static str)> {
    let amount: Amount = "1.5".parse().unwrap();
    let commission = Permille::new(50).unwrap();
    let host = "203.0.113.7:9000".parse().unwrap();
    vec![
        (
            Operation::Transfer { to: A, amount },
            "Transfer 1.5 oGPU to 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa",
        ),
        (Operation::Burn { amount }, "Burn 1.5 oGPU"),
        (
            Operation::CloseAccount { to: A },
            "Close the account and send the rest to 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa",
        ),
        (
            Operation::Authorize {
                name: Text::new("ci \"bot\"").unwrap(),
                spender: A,
                amount,
                purpose: Purpose::Transfers,
                until: Millis(1_700_000_000_000),
            },
            "Let 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa spend up to 1.5 oGPU on transfers \
             until 1700000000000, as \"ci \"bot\"\"",
        ),
        (
            Operation::Revoke { spender: A },
            "End the spending limit of 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa",
        ),
        (Operation::ReleaseVested, "Release vested tokens"),
        (
            Operation::RegisterValidator { keys: keys(), host, commission, stake: amount },
            "Register as validator with 1.5 oGPU, commission 50/1000, node \
             cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc at 203.0.113.7:9000",
        ),
        (
            Operation::EditValidator { host, commission },
            "Set validator commission 50/1000, node at 203.0.113.7:9000",
        ),
        (
            Operation::RotateKeys { keys: keys() },
            "Set validator node key \
             cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
        ),
        (Operation::Unjail, "Unjail the validator"),
        (Operation::Retire, "Retire the validator"),
        (
            Operation::Delegate { validator: A, amount },
            "Delegate 1.5 oGPU to 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa",
        ),
        (
            Operation::Undelegate { validator: A, amount },
            "Undelegate 1.5 oGPU from 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa",
        ),
        (
            Operation::Redelegate { from: A, to: B, amount },
            "Redelegate 1.5 oGPU from 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa \
             to 0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB",
        ),
        (
            Operation::ClaimRewards { validator: A },
            "Claim rewards from 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa",
        ),
        (
            Operation::ReportEvidence { evidence: evidence() },
            "Report conflicting votes of \
             cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc in epoch 4, view 9",
        ),
        (Operation::ConfirmSeat { epoch: Epoch(4) }, "Confirm the seat of epoch 4"),
        (Operation::Withdraw { id: UnbondingId(5) }, "Withdraw unbonded stake number 5"),
    ]
}

fn transaction() -> Transaction {
    Transaction {
        sender: A,
        nonce: Nonce(3),
        valid_until: Height(500),
        max_fee: "0.01".parse().unwrap(),
        tip: "0.001".parse().unwrap(),
        sponsor: Some(B),
        operations: List::new(vec![
            Operation::Transfer { to: B, amount: Amount::ONE },
            Operation::Burn { amount: Amount(1) },
        ])
        .unwrap(),
        memo: Text::new("rent").unwrap(),
    }
}

#[test]
fn every_operation_has_its_line() {
    let golden = golden();
    assert_eq!(golden.len(), Operation::VARIANTS);
    for (operation, line) in golden {
        assert_eq!(operation.to_string(), line);
    }
}

#[test]
fn a_transaction_names_chain_account_operations_sponsor_fee_number_and_memo() {
    let text = "\
OpenGPU transaction on chain 7
Account: 0xaAaAaAaaAaAaAaaAaAAAAAAAAaaaAaAaAaaAaaAa
Transfer 1 oGPU to 0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB
Burn 0.000000000000000001 oGPU
Fee paid by: 0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB
Fee: at most 0.01 oGPU, tip 0.001 oGPU
Number: 3, valid until block 500
Memo: rent";
    assert_eq!(transaction().summary(CHAIN), text);
    let bare = Transaction { sponsor: None, memo: Text::default(), ..transaction() };
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("Fee paid") && !line.contains("Memo"))
        .collect();
    assert_eq!(bare.summary(CHAIN), lines.join("\n"));
}

#[test]
fn every_field_changes_the_text_and_the_body() {
    type Change = fn(&mut Transaction);
    let changes: [Change; 9] = [
        |t| t.sender = B,
        |t| t.nonce = Nonce(4),
        |t| t.valid_until = Height(501),
        |t| t.max_fee = Amount(1),
        |t| t.tip = Amount(1),
        |t| t.sponsor = None,
        |t| t.sponsor = Some(A),
        |t| t.operations = List::new(t.operations[..1].to_vec()).unwrap(),
        |t| t.memo = Text::default(),
    ];
    let before = transaction();
    for (place, change) in changes.into_iter().enumerate() {
        let mut after = transaction();
        change(&mut after);
        assert_ne!(after.summary(CHAIN), before.summary(CHAIN), "change {place}");
        assert_ne!(after.body(CHAIN), before.body(CHAIN), "change {place}");
    }
}

#[test]
fn another_chain_changes_the_text_and_the_body() {
    let (here, there) = (CHAIN, ChainId(8));
    assert_ne!(transaction().summary(here), transaction().summary(there));
    assert_ne!(transaction().body(here), transaction().body(there));
    let message = transaction().signing_message(here);
    assert_eq!(message.chain_id, 7);
    assert_eq!(message.body, transaction().body(here));
    assert_eq!(message.text, transaction().summary(here));
}

/// The operation without what the text leaves to the body: it moves no money.
fn shown(operation: &Operation) -> Operation {
    let shown = |keys: &ValidatorKeys| ValidatorKeys {
        consensus: keys.consensus,
        consensus_possession: [0; 64],
        beacon: BeaconPublicKey([0; 96]),
        beacon_possession: BeaconSignature([0; 48]),
    };
    let mut operation = operation.clone();
    match &mut operation {
        Operation::RegisterValidator { keys, .. } | Operation::RotateKeys { keys } => {
            *keys = shown(keys);
        }
        Operation::ReportEvidence { evidence } => {
            let nothing = Vote { kind: VoteKind::Nullify, signature: [0; 64] };
            (evidence.first, evidence.second) = (nothing, nothing);
        }
        _ => {}
    }
    operation
}

proptest! {
    #[test]
    fn operations_with_the_same_line_do_the_same(
        variant in 0..Operation::VARIANTS, mut stream in vec(any::<u8>(), 400), place: Index, byte: u8,
    ) {
        stream[0] = u8::try_from(variant).unwrap();
        let before: Operation = Stream::new(&stream).take();
        let place = place.index(160);
        stream[place] = byte;
        let after: Operation = Stream::new(&stream).take();
        let same = shown(&before) == shown(&after);
        prop_assert_eq!(before.to_string() == after.to_string(), same);
    }

    #[test]
    fn different_transactions_have_different_bodies(
        stream in vec(any::<u8>(), 600), place in 0usize..600, byte: u8, chain: u64, other: u64,
    ) {
        let before: Transaction = Stream::new(&stream).take();
        let mut changed = stream;
        changed[place] = byte;
        let after: Transaction = Stream::new(&changed).take();
        let body = |transaction: &Transaction, chain| -> Digest { transaction.body(ChainId(chain)) };
        prop_assert_eq!(body(&before, chain) == body(&after, chain), before == after);
        prop_assert_eq!(body(&before, chain) == body(&before, other), chain == other);
    }
}
