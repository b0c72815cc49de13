//! The text that a wallet shows and a signature covers: it names every fact that moves money.

use crate::values::{Stream, Value};
use opengpu_types::{
    Address, Amount, ArtifactId, AuditLeaf, Authorization, BeaconPublicKey, BeaconSignature, Boxed,
    ChainId, Commitment, ConsensusKey, Contact, Digest, DisputeMove, Epoch, Evidence, Height,
    LeaseId, Leave, List, MarketOperation, Millis, Money, Nonce, Offer, Operation, Permille,
    PublicKey, Purpose, RateUnit, SealPublicKey, SegmentIndex, SessionKey, Signature, Spec, TaskId,
    Text, Transaction, UnbondingId, ValidatorKeys, View, Vote, VoteKind,
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

/// Bytes that are no point of the curve.
const NO_KEY: PublicKey = PublicKey::Secp256k1([0; 33]);

const fn authorization(key: PublicKey) -> Authorization {
    Authorization { key, signature: Signature::Ed25519([0; 64]) }
}

fn evidence() -> Boxed<Evidence> {
    let vote = Vote { kind: VoteKind::Nullify, signature: [3; 64] };
    let (epoch, view) = (Epoch(4), View(9));
    Evidence { voter: ConsensusKey([0xcc; 32]), epoch, view, first: vote, second: vote }.into()
}

const NONE: Digest = Digest([0; 32]);

/// A leaf of which the text shows the number alone.
fn leaf(index: u32) -> AuditLeaf {
    let mut leaf: AuditLeaf = Stream::new(&[]).take();
    leaf.segment.index = SegmentIndex(index);
    leaf
}

/// As many items, of which the text shows nothing.
fn blank<T: Value, const MAX: usize>(items: &mut List<T, MAX>) {
    items.iter_mut().for_each(|item| *item = Stream::new(&[]).take());
}

/// Every operation and its line.
#[expect(clippy::too_many_lines, reason = "one after the other")]
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
        (
            Operation::ChangeKey { to: authorization(PublicKey::Ed25519([1; 32])) },
            "Give the account to the key 0xCF8FA1F1Df5311eae5331404e0c002ab72ec68e6",
        ),
    ]
}

/// Every operation on the market and its line.
#[expect(clippy::too_many_lines, reason = "one after the other")]
fn golden_market() -> Vec<(MarketOperation, String)> {
    let amount: Amount = "1.5".parse().unwrap();
    let keys = |byte: u8| {
        let (session, sealing) = (SessionKey([byte; 32]), SealPublicKey([byte + 1; 32]));
        let contact = Contact { session, sealing, relay: Text::default() };
        (contact, format!("session key {session}, sealing key {sealing}"))
    };
    let (contact, shown) = keys(5);
    let task = TaskId(Digest([0xdd; 32]));
    let tree = NONE;
    let lease = LeaseId { task, number: 2 };
    let spec: Spec = Stream::new(&[]).take();
    let (program, input) = (spec.program, spec.input);
    let commitment: Commitment = Stream::new(&[]).take();
    let digest = Digest([7; 32]);
    let output = ArtifactId(digest);
    let offer = Offer { rate: Money::tokens(amount), ..Stream::new(&[]).take() };
    use MarketOperation as Op;
    vec![
        (
            Op::RegisterProvider {
                contact: contact.clone(),
                offers: List::new(vec![offer]).unwrap(),
                stake: amount,
            },
            format!("Register as provider with 1.5 oGPU, offers at 1.5 oGPU, {shown}"),
        ),
        (
            Op::EditProvider { contact: contact.clone(), offers: List::empty() },
            format!("Set the provider's offers at nothing, {shown}"),
        ),
        (Op::StakeProvider { amount }, "Stake 1.5 oGPU as provider".into()),
        (Op::DrainProvider { draining: true }, "Take no more leases".into()),
        (Op::LeaveProvider, "End the provider".into()),
        (Op::Heartbeat, "Say that the provider is there".into()),
        (
            Op::SubmitTask {
                spec: spec.into(),
                budget: Money { amount, unit: RateUnit::Usd },
                escrow: amount,
                contact: contact.clone(),
            },
            format!(
                "Submit a task of program {program} on input {input} for at most 1.5 USD, 1.5 oGPU \
                 in escrow, {shown}"
            ),
        ),
        (Op::TopUp { task, amount }, format!("Add 1.5 oGPU to task {task}")),
        (
            Op::ExtendTask { task, longest: Millis(9) },
            format!("Let leases of task {task} take 9 ms"),
        ),
        (
            Op::EditTask { task, contact },
            format!("Set {} of task {task}", shown.replace(", sealing", " and sealing")),
        ),
        (Op::CancelTask { task }, format!("Cancel task {task}")),
        (
            Op::SealBid { task, offer: 3, seal: digest },
            format!("Bid for task {task} by offer 3, sealed {digest}"),
        ),
        (
            Op::OpenBid { task, rate: amount, salt: [1; 32] },
            format!("Open the bid of 1.5 oGPU a second for task {task}"),
        ),
        (
            Op::CommitTrace { lease, commitment, witness: None },
            format!("Commit to trace {} of lease {task}/2", commitment.root),
        ),
        (
            Op::OpenOutput { lease, output, salt: [1; 32] },
            format!("Open output {output} of lease {task}/2"),
        ),
        (Op::ReleaseLease { lease, leave: Leave::Broken }, format!("Give back lease {task}/2")),
        (
            Op::ClaimUsage { lease, time: Millis(9), signature: [1; 64] },
            format!("Claim 9 ms of lease {task}/2"),
        ),
        (
            Op::AnswerAudit { lease, replies: Stream::new(&[2]).take() },
            format!("Answer about 2 segments of lease {task}/2"),
        ),
        (
            Op::PostState { lease, tree, before: leaf(3), state: List::empty().into() },
            format!("Make the state after segment 3 of lease {task}/2 public"),
        ),
        (
            Op::OpenLeaves { lease, tree, leaves: List::new(vec![leaf(3)]).unwrap() },
            format!("Open 1 segments of lease {task}/2"),
        ),
        (
            Op::RevealAnswers { lease, tree, reveals: Stream::new(&[2]).take() },
            format!("Open the answers about 2 segments of lease {task}/2"),
        ),
        (
            Op::DisputeSegment { lease, tree, before: None, claimed: leaf(3) },
            format!("Dispute segment 3 of lease {task}/2"),
        ),
        (
            Op::MoveDispute { lease, said: DisputeMove::State(Stream::new(&[2]).take()) },
            format!("State 2 points of the disputed segment of lease {task}/2"),
        ),
        (
            Op::MoveDispute { lease, said: DisputeMove::Dispute(4) },
            format!("Dispute interval 4 of the disputed segment of lease {task}/2"),
        ),
        (
            Op::ShowUnit { lease, unit: Stream::new(&[]).take() },
            format!("Make the disputed unit of lease {task}/2 public"),
        ),
        (Op::RequestTrial, "Ask for a trial of the provider's devices".to_owned()),
        (Op::CommitTrial { root: NONE }, format!("Commit to trial {NONE}")),
        (
            Op::OpenTrial { rounds: 9, blocks: Stream::new(&[2]).take() },
            "Open 2 blocks of the trial, of 9 rounds".to_owned(),
        ),
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
    assert_eq!(golden.len() + 1, Operation::VARIANTS, "those on the market have their own list");
    for (operation, line) in golden {
        assert_eq!(operation.to_string(), line);
    }
    let golden = golden_market();
    assert_eq!(golden.len(), MarketOperation::VARIANTS + 1, "a dispute has two kinds of moves");
    for (operation, line) in golden {
        assert_eq!(Operation::Market(operation).to_string(), line);
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
        Operation::ChangeKey { to } => {
            let key = if to.key.address().is_ok() { to.key } else { NO_KEY };
            *to = authorization(key);
        }
        Operation::Market(market) => shown_market(market),
        _ => {}
    }
    operation
}

fn shown_market(operation: &mut MarketOperation) {
    type Op = MarketOperation;
    match operation {
        Op::RegisterProvider { contact, offers, .. } | Op::EditProvider { contact, offers } => {
            contact.relay = Text::default();
            for offer in offers.iter_mut() {
                *offer = Offer { rate: offer.rate, ..Stream::new(&[]).take() };
            }
        }
        Op::SubmitTask { spec, contact, .. } => {
            let (program, input) = (spec.program, spec.input);
            **spec = Spec { program, input, ..Stream::new(&[]).take() };
            contact.relay = Text::default();
        }
        Op::EditTask { contact, .. } => contact.relay = Text::default(),
        Op::OpenBid { salt, .. } | Op::OpenOutput { salt, .. } => *salt = [0; 32],
        Op::CommitTrace { commitment, witness, .. } => {
            *commitment = Commitment { root: commitment.root, ..Stream::new(&[]).take() };
            *witness = None;
        }
        Op::ReleaseLease { leave, .. } => *leave = Leave::Broken,
        Op::ClaimUsage { signature, .. } => *signature = [0; 64],
        Op::AnswerAudit { replies, .. } => blank(replies),
        Op::PostState { tree, before, state, .. } => {
            (*tree, *before, *state) = (NONE, leaf(before.segment.index.0), List::empty().into());
        }
        Op::OpenLeaves { tree, leaves, .. } => {
            *tree = NONE;
            blank(leaves);
        }
        Op::RevealAnswers { tree, reveals, .. } => {
            *tree = NONE;
            blank(reveals);
        }
        Op::DisputeSegment { tree, before, claimed, .. } => {
            (*tree, *before, *claimed) = (NONE, None, leaf(claimed.segment.index.0));
        }
        Op::MoveDispute { said: DisputeMove::State(points), .. } => blank(points),
        Op::ShowUnit { unit, .. } => *unit = Stream::new(&[]).take(),
        Op::OpenTrial { blocks, .. } => {
            let length = u8::try_from(blocks.len()).unwrap();
            *blocks = Stream::new(&[length]).take();
        }
        _ => {}
    }
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

#[test]
fn a_key_that_is_none_is_called_so() {
    let change = Operation::ChangeKey { to: authorization(NO_KEY) };
    assert_eq!(change.to_string(), "Give the account to something that is no key");
}
