//! How many bytes a task takes on chain: hashes, verdicts and money, whatever it computes.

use super::bazaar::{Bazaar, commitment, contact, first, provider, spec};
use crate::support::{CHAIN, alice};
use commonware_codec::EncodeSize as _;
use opengpu_types::{
    Amount, Commitment, Entry, Key, MarketOperation, Money, Operation, Receipt, SignedTransaction,
    Spec, TaskId, Trust,
};

/// Transactions, receipts and the entry of a task that one provider runs in one go.
const MOST: usize = 2_500;

/// Bytes of transactions, of receipts and of the entry at its largest.
fn sizes(spec: Spec, commitment: Commitment) -> [usize; 3] {
    let mut bazaar = Bazaar::new(1);
    let mut sizes = [0; 3];
    let mut take = |bazaar: &mut Bazaar, signed: SignedTransaction| {
        sizes[0] += signed.encode_size();
        let receipt = bazaar.network.apply(signed);
        sizes[1] += receipt.encode_size();
        // What the block did by itself.
        sizes[1] += bazaar.network.last.first().map_or(0, Receipt::encode_size);
    };
    let escrow = Amount::whole(5);
    let submit = MarketOperation::SubmitTask {
        spec: spec.into(),
        budget: Money::tokens(escrow),
        escrow,
        contact: contact(),
    };
    let signed = bazaar.network.tx(&alice(), Operation::Market(submit)).sign();
    let id = TaskId::of(&signed.transaction.id(CHAIN), 0);
    take(&mut bazaar, signed);
    bazaar.work(2_000);
    let commit = MarketOperation::CommitTrace { lease: first(id), commitment, witness: None };
    let signed = bazaar.sign(&provider(0), commit);
    take(&mut bazaar, signed);
    let task = bazaar.task(id);
    assert!(task.is_closed(), "{:?}", task.phase);
    sizes[2] = Key::Task(id).encode_size() + Entry::Task(task.into()).encode_size();
    sizes
}

fn fast() -> Spec {
    let mut spec = spec();
    spec.requirements.trust = Trust::Fast;
    spec
}

#[test]
fn a_task_takes_few_bytes_on_chain() {
    let sizes = sizes(fast(), commitment(8, 2_000));
    assert!(sizes.iter().all(|size| *size > 300), "something was not counted: {sizes:?}");
    assert!(sizes.iter().sum::<usize>() <= MOST, "{sizes:?}");
}

#[test]
fn bytes_do_not_grow_with_the_number_of_segments() {
    let many = 131_072;
    let spec = Spec { segments: many, ..fast() };
    let mut whole = commitment(8, 2_000);
    whole.segments = many;
    whole.steps = u64::from(many);
    whole.reached.index.0 = many;
    assert_eq!(sizes(spec, whole), sizes(fast(), commitment(8, 2_000)));
}
