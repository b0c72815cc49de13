//! Settlements of one block in another sequence: whoever comes first, everybody is paid and owns the same.
//!
//! Two transactions that settle leases of different tasks and are of different senders change places. What
//! the sender of the later one sent in between goes with it, so that nonces stay in order; where that would
//! pass something about a task that it touches itself, the two stay as they are.

use opengpu_ledger::{Executed, Memory};
use opengpu_types::{
    Address, Amount, CloseReason, Entry, Event, Key, LeaseId, MarketOperation, Operation, Receipt,
    SignedTransaction, TaskId, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};

/// The transactions of a block with two of its settlements in another sequence, if there are such two.
pub(super) fn another(
    block: &[SignedTransaction],
    executed: &Executed,
) -> Option<Vec<SignedTransaction>> {
    // The first receipt is the block's own.
    let transactions: Vec<_> = block.iter().zip(executed.receipts.get(1..)?).collect();
    let settling = |place: &usize| transactions.get(*place).is_some_and(|(_, it)| settles(it));
    let settling: Vec<usize> = (0..transactions.len()).filter(settling).collect();
    let pairs =
        settling.iter().flat_map(|first| settling.iter().map(move |later| (*first, *later)));
    let mut pairs = pairs.filter(|(first, later)| first < later);
    pairs.find_map(|(first, later)| {
        let sender = transactions.get(later)?.0.transaction.sender;
        let between = transactions.get(first..=later)?.iter().map(|(signed, _)| *signed);
        let (moved, passed): (Vec<_>, Vec<_>) =
            between.partition(|signed| signed.transaction.sender == sender);
        let apart = touched(&moved).is_disjoint(&touched(&passed));
        // The sender of the first of the two is another one, or it would have moved too.
        let first_stays = transactions.get(first)?.0.transaction.sender != sender;
        (apart && first_stays).then(|| {
            let all = || transactions.iter().map(|(signed, _)| *signed);
            let (before, after) = (all().take(first), all().skip(later).skip(1));
            before.chain(moved).chain(passed).chain(after).cloned().collect()
        })
    })
}

fn settles(receipt: &Receipt) -> bool {
    receipt.events.iter().any(|event| matches!(event, Event::LeaseClosed { .. }))
}

/// Tasks that these are about.
fn touched(transactions: &[&SignedTransaction]) -> BTreeSet<TaskId> {
    let operations = transactions.iter().flat_map(|signed| &signed.transaction.operations);
    operations.filter_map(task_of).collect()
}

fn task_of(operation: &Operation) -> Option<TaskId> {
    let Operation::Market(operation) = operation else { return None };
    match operation {
        MarketOperation::TopUp { task, .. }
        | MarketOperation::ExtendTask { task, .. }
        | MarketOperation::EditTask { task, .. }
        | MarketOperation::CancelTask { task }
        | MarketOperation::SealBid { task, .. }
        | MarketOperation::OpenBid { task, .. } => Some(*task),
        MarketOperation::CommitTrace { lease, .. }
        | MarketOperation::OpenOutput { lease, .. }
        | MarketOperation::ReleaseLease { lease, .. }
        | MarketOperation::ClaimUsage { lease, .. } => Some(lease.task),
        said => said.audit().map(|lease| lease.task),
    }
}

/// What a block did to money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Money {
    /// What each lease that ended was paid, and why.
    paid: BTreeMap<LeaseId, (Amount, CloseReason, Option<Verdict>)>,
    /// What everybody owns, wherever it is held: balances, stake, locks, escrow, pledges, reserves.
    owned: BTreeMap<Address, Amount>,
}

impl Money {
    /// After a block.
    pub(super) fn of(executed: &Executed, after: &Memory) -> Self {
        let events = executed.receipts.iter().flat_map(|receipt| receipt.events.iter());
        let paid = events.filter_map(|event| match event {
            Event::LeaseClosed { lease, paid, reason, verdict, .. } => {
                Some((*lease, (*paid, *reason, *verdict)))
            }
            _ => None,
        });
        let mut owned = BTreeMap::new();
        for (owner, amount) in after.iter().flat_map(|(key, entry)| held(key, entry)) {
            let sum: &mut Amount = owned.entry(owner).or_insert(Amount::ZERO);
            *sum = sum.plus(amount).unwrap_or(Amount::CAP);
        }
        Self { paid: paid.collect(), owned }
    }
}

/// What an entry of accounts and of the market holds, and whose it is.
fn held(key: &Key, entry: &Entry) -> Vec<(Address, Amount)> {
    match (key, entry) {
        (Key::Account(owner), Entry::Account(it)) => {
            vec![(*owner, it.balance), (*owner, it.reserve)]
        }
        (Key::Provider(owner), Entry::Provider(it)) => {
            vec![(*owner, it.stake), (*owner, it.locked), (*owner, it.reserve)]
        }
        (Key::Client(owner), Entry::Client(it)) => vec![(*owner, it.reserve)],
        (Key::Past(owner), Entry::Past(it)) => vec![(*owner, it.reserve)],
        (Key::Task(_), Entry::Task(it)) => {
            [it.escrow(), it.lock, it.reserve].map(|amount| (it.client, amount)).to_vec()
        }
        (Key::Auction(_), Entry::Auction(it)) => {
            it.bids.iter().map(|bid| (bid.provider, bid.pledge)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::cast::{Cast, market};
    use opengpu_crypto::Keypair;
    use opengpu_types::{Digest, Height, Leave, List, Millis, Nonce, Outcome, Weight};

    fn lease(task: u8) -> LeaseId {
        LeaseId { task: TaskId(Digest([task; 32])), number: 0 }
    }

    fn release(task: u8) -> MarketOperation {
        MarketOperation::ReleaseLease { lease: lease(task), leave: Leave::Refused }
    }

    fn receipt(events: List<Event, { Receipt::MAX_EVENTS }>) -> Receipt {
        Receipt {
            height: Height(1),
            index: 0,
            transaction: None,
            outcome: Outcome::Applied,
            fee: Amount::ZERO,
            weight: Weight(0),
            events,
        }
    }

    /// The places at which transactions stand afterwards, if two change places. Each is of an account, and
    /// settles the lease of its task if it gives one back.
    fn order(sent: &[(usize, MarketOperation)]) -> Option<Vec<usize>> {
        let accounts: Vec<Keypair> = Cast::new(4, 3).accounts;
        let nonces = (0..).map(Nonce);
        let sent = sent.iter().zip(nonces);
        let signed: Vec<_> =
            sent.map(|((by, said), nonce)| market(&accounts[*by], nonce, said.clone())).collect();
        let receipts = signed.iter().map(|it| {
            let closed = |lease| Event::LeaseClosed {
                lease,
                provider: it.transaction.sender,
                reason: CloseReason::Refused,
                verdict: None,
                root: None,
                output: None,
                time: Millis(0),
                paid: Amount::ZERO,
            };
            let operations = it.transaction.operations.iter();
            let settled = operations.filter_map(|said| match said {
                Operation::Market(MarketOperation::ReleaseLease { lease, .. }) => Some(*lease),
                _ => None,
            });
            let events = List::new(settled.map(closed).collect()).unwrap();
            receipt(events)
        });
        let executed = Executed {
            changes: opengpu_ledger::Changes::new(),
            receipts: std::iter::once(receipt(List::empty())).chain(receipts).collect(),
            next_seats: Digest([0; 32]),
            weight: Weight(0),
        };
        let found = another(&signed, &executed)?;
        let place = |it: &SignedTransaction| signed.iter().position(|other| other == it);
        found.iter().map(place).collect()
    }

    #[test]
    fn the_later_settlement_comes_first_with_what_its_sender_sent_in_between() {
        let beat = MarketOperation::Heartbeat;
        let two = [(0, release(1)), (1, release(2))];
        assert_eq!(order(&two), Some(vec![1, 0]));
        let more = [
            (2, beat.clone()),
            (0, release(1)),
            (1, beat.clone()),
            (0, beat.clone()),
            (1, release(2)),
            (2, beat.clone()),
        ];
        assert_eq!(order(&more), Some(vec![0, 2, 4, 1, 3, 5]));
        assert_eq!(order(&[(0, release(1)), (1, beat)]), None);
    }

    #[test]
    fn nothing_changes_places_within_a_task_or_a_sender() {
        assert_eq!(order(&[(0, release(1)), (1, release(1))]), None);
        assert_eq!(order(&[(0, release(1)), (0, release(2))]), None);
        let cancel = MarketOperation::CancelTask { task: lease(1).task };
        assert_eq!(order(&[(0, release(1)), (1, cancel), (1, release(2))]), None);
    }
}
