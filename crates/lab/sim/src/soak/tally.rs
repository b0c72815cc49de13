//! What happened: how often each operation and each reason to refuse occurred.

use commonware_codec::DecodeExt as _;
use opengpu_ledger::Invalid;
use opengpu_types::{Failure, Outcome, Receipt, SignedTransaction};
use std::{collections::BTreeMap, fmt};

/// Every operation, by [`Operation::name`](opengpu_types::Operation::name).
const OPERATIONS: [&str; 39] = [
    "authorize",
    "burn",
    "cancel-task",
    "change-key",
    "claim-rewards",
    "claim-usage",
    "close-account",
    "commit-trace",
    "commit-trial",
    "confirm-seat",
    "delegate",
    "drain-provider",
    "edit-provider",
    "edit-task",
    "edit-validator",
    "extend-task",
    "heartbeat",
    "leave-provider",
    "open-bid",
    "open-output",
    "open-trial",
    "redelegate",
    "register-provider",
    "register-validator",
    "release-lease",
    "release-vested",
    "request-trial",
    "report-evidence",
    "retire",
    "revoke",
    "rotate-keys",
    "seal-bid",
    "stake-provider",
    "submit-task",
    "top-up",
    "transfer",
    "undelegate",
    "unjail",
    "withdraw",
];

/// Every reason by which a block refuses a transaction, by [`Invalid::name`].
const REFUSALS: [&str; 16] = [
    "bad-key",
    "block-full",
    "cannot-pay",
    "empty",
    "expired",
    "fee-too-low",
    "free-space-full",
    "limit-expired",
    "limit-too-small",
    "no-account",
    "no-open-duty",
    "nonce-ahead",
    "nonce-used",
    "not-authorized",
    "sponsor-mismatch",
    "too-large",
];

/// How often one operation took effect, and how often it made its transaction fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    applied: u64,
    failed: u64,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks executed and checked.
    pub blocks: u64,
    /// Transactions offered to them.
    pub transactions: u64,
    /// Transactions all of whose operations took effect.
    pub applied: u64,
    operations: BTreeMap<&'static str, Count>,
    failures: BTreeMap<Failure, u64>,
    refusals: BTreeMap<&'static str, u64>,
}

const fn bump(count: &mut u64) {
    *count = count.saturating_add(1);
}

impl Tally {
    /// Records a transaction that a block took.
    pub(crate) fn included(&mut self, signed: &SignedTransaction, receipt: &Receipt) {
        bump(&mut self.transactions);
        match receipt.outcome {
            Outcome::Applied => {
                bump(&mut self.applied);
                for operation in &signed.transaction.operations {
                    bump(&mut self.operations.entry(operation.name()).or_default().applied);
                }
            }
            Outcome::Failed { operation, failure } => {
                bump(self.failures.entry(failure).or_default());
                if let Some(operation) = signed.transaction.operations.get(usize::from(operation)) {
                    bump(&mut self.operations.entry(operation.name()).or_default().failed);
                }
            }
        }
    }

    /// Records a transaction that a block refused.
    pub(crate) fn refused(&mut self, invalid: &Invalid) {
        bump(&mut self.transactions);
        bump(self.refusals.entry(invalid.name()).or_default());
    }

    /// Everything that should have occurred and did not; empty if the run means something.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        for name in OPERATIONS {
            if self.operations.get(name).is_none_or(|count| count.applied == 0) {
                gaps.push(format!("{name} never took effect"));
            }
        }
        for failure in failures().filter(|failure| !self.failures.contains_key(failure)) {
            gaps.push(format!("no transaction failed by {failure:?}"));
        }
        for name in REFUSALS.into_iter().filter(|name| !self.refusals.contains_key(name)) {
            gaps.push(format!("no transaction was refused by {name}"));
        }
        if self.applied.saturating_mul(2) < self.transactions {
            gaps.push(format!("only {} of {} took effect", self.applied, self.transactions));
        }
        gaps
    }
}

/// Failures that a run of this size cannot meet, and those of audits, which are switched off here; tests of
/// the ledger do.
const ELSEWHERE: [Failure; 6] = [
    Failure::TooManyTasks,
    Failure::TooManyBids,
    Failure::BadLeaf,
    Failure::NotAsked,
    Failure::BadMove,
    Failure::BadUnit,
];

/// All other failures, by their tags on the wire.
fn failures() -> impl Iterator<Item = Failure> {
    let all = (0..=u8::MAX).map_while(|tag| Failure::decode(vec![tag]).ok());
    all.filter(|failure| !ELSEWHERE.contains(failure))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24}{:>12}{:>12}", "operation", "applied", "failed")?;
        for (name, Count { applied, failed }) in &self.operations {
            writeln!(f, "{name:<24}{applied:>12}{failed:>12}")?;
        }
        writeln!(f, "\n{:<24}{:>12}", "failed by", "")?;
        for (failure, count) in &self.failures {
            writeln!(f, "{:<24}{count:>12}", format!("{failure:?}"))?;
        }
        writeln!(f, "\n{:<24}{:>12}", "refused by", "")?;
        for (name, count) in &self.refusals {
            writeln!(f, "{name:<24}{count:>12}")?;
        }
        Ok(())
    }
}
