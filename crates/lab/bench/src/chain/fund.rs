//! Opens the accounts that send: a few rich accounts of the genesis pay them, sixteen at a time.
//!
//! An account's first nonce follows from the block that opened it. A funder's payments are executed
//! in their sequence, so its accounts' nonces ascend with few steps, and few questions find them.

use super::{
    accounts::{Terms, keypair, transaction},
    send_ours::submit_all,
};
use crate::{error::BenchError, tell};
use opengpu_client::Rpc;
use opengpu_crypto::{Keypair, hash};
use opengpu_types::{Amount, Operation, SignedTransaction, Transaction};
use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

/// What an account gets.
const BALANCE: Amount = Amount::whole(10);
/// Accounts that one funder pays: its nonces must not run too far ahead.
const PER_FUNDER: u32 = 4_096;
/// What a funder has: its payments, and fees as they may become.
const FUNDS: Amount = Amount::whole(50_000);
/// Transactions in one request.
const BATCH: usize = 256;
/// How long everything may take to become final.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Who pays, and what each needs in the genesis.
pub(super) fn funders(accounts: u32) -> impl Iterator<Item = (Keypair, Amount)> {
    (0..accounts.div_ceil(PER_FUNDER)).map(|number| (funder(number), FUNDS))
}

fn funder(number: u32) -> Keypair {
    Keypair::ed25519(hash("opengpu/bench-funder/v1", &[&number.to_be_bytes()]).0)
}

/// Pays every account and waits until each has its tokens; the first nonce of each account.
pub(super) fn fund(urls: &[String], accounts: u32) -> Result<Vec<u64>, BenchError> {
    let begin = Instant::now();
    let rpcs: Vec<_> = urls.iter().map(|url| Rpc::new(url)).collect();
    let first = rpcs.first().ok_or(BenchError::Nothing("no node"))?;
    let terms = Terms::ask(first)?;
    let mut ranges = Vec::new();
    for ((number, (funder, _)), rpc) in (0u32..).zip(funders(accounts)).zip(rpcs.iter().cycle()) {
        let from = number.saturating_mul(PER_FUNDER);
        let to = from.saturating_add(PER_FUNDER).min(accounts);
        for batch in payments(&terms, &funder, from..to).chunks(BATCH) {
            submit_all(rpc, batch)?;
        }
        ranges.push(from..to);
    }
    let mut nonces = Vec::new();
    for range in ranges {
        let last = keypair(range.end.saturating_sub(1)).address();
        while !first.account(last)?.exists {
            if begin.elapsed() > PATIENCE {
                let (what, seconds) = ("paying the accounts", PATIENCE.as_secs());
                return Err(BenchError::Slow { what, seconds });
            }
            thread::sleep(LOOK_EVERY);
        }
        let ask = |number: u32| {
            let account = first.account(keypair(number).address());
            account.map(|account| account.nonce.0)
        };
        nonces.extend(ascending(range, &ask)?);
    }
    tell(format!("{accounts} accounts are open after {:.1} s", begin.elapsed().as_secs_f64()));
    Ok(nonces)
}

/// The values of a range whose values ascend, by halves: equal ends are equal all the way.
fn ascending<E>(range: Range<u32>, ask: &impl Fn(u32) -> Result<u64, E>) -> Result<Vec<u64>, E> {
    let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
        return Ok(Vec::new());
    };
    let (low, high) = (ask(range.start)?, ask(last)?);
    if low == high {
        return Ok(range.map(|_| low).collect());
    }
    let middle = range.start.midpoint(range.end);
    let mut values = ascending(range.start..middle, ask)?;
    values.extend(ascending(middle..range.end, ask)?);
    Ok(values)
}

fn payments(terms: &Terms, funder: &Keypair, accounts: Range<u32>) -> Vec<SignedTransaction> {
    let operations: Vec<_> = accounts
        .map(|number| Operation::Transfer { to: keypair(number).address(), amount: BALANCE })
        .collect();
    let payments = operations.chunks(Transaction::MAX_OPERATIONS).zip(0..);
    payments.map(|(some, nonce)| transaction(terms, funder, some.to_vec(), nonce)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{ChainId, Height};
    use std::collections::BTreeSet;

    #[test]
    fn every_account_is_paid_once_in_the_sequence_of_nonces() {
        let base_fee = Amount(1_000_000_000);
        let terms = Terms { chain: ChainId(7), valid_until: Height(9), base_fee };
        let paid = payments(&terms, &funder(0), 0..40);
        assert_eq!(paid.len(), 3);
        let nonces: Vec<_> = paid.iter().map(|signed| signed.transaction.nonce.0).collect();
        assert_eq!(nonces, [0, 1, 2]);
        let receivers: BTreeSet<_> = paid
            .iter()
            .flat_map(|signed| signed.transaction.operations.iter())
            .filter_map(|operation| match operation {
                Operation::Transfer { to, .. } => Some(*to),
                _ => None,
            })
            .collect();
        assert_eq!(receivers, (0..40).map(|number| keypair(number).address()).collect());
    }

    #[test]
    fn ascending_values_are_found_with_few_questions() {
        let values: Vec<u64> = (0..1_000u64).map(|it| if it < 700 { 3 } else { 9 }).collect();
        let asked = std::cell::Cell::new(0);
        let ask = |number: u32| {
            asked.set(asked.get() + 1);
            Ok::<_, ()>(values[usize::try_from(number).unwrap()])
        };
        assert_eq!(ascending(0..1_000, &ask), Ok(values.clone()));
        assert!(asked.get() < 50, "{}", asked.get());
        assert_eq!(ascending(5..5, &ask), Ok(Vec::new()));
    }

    #[test]
    fn there_is_a_funder_for_the_last_account_and_none_more() {
        assert_eq!(funders(PER_FUNDER).count(), 1);
        assert_eq!(funders(PER_FUNDER + 1).count(), 2);
    }
}
