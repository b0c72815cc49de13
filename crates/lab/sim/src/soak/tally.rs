//! What happened: how often each operation and each reason to refuse occurred.

use commonware_codec::DecodeExt as _;
use opengpu_ledger::{Executed, Invalid};
use opengpu_types::{
    Audit, AuditPhase, Challenger, Event, Failure, Fault, Finding, Outcome, Receipt, Said,
    SignedTransaction,
};
use std::{collections::BTreeMap, fmt};

/// Every operation, by [`Operation::name`](opengpu_types::Operation::name).
const OPERATIONS: [&str; 46] = [
    "answer-audit",
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
    "dispute-segment",
    "drain-provider",
    "edit-provider",
    "edit-task",
    "edit-validator",
    "extend-task",
    "heartbeat",
    "leave-provider",
    "move-dispute",
    "open-bid",
    "open-leaves",
    "open-output",
    "open-trial",
    "post-state",
    "redelegate",
    "register-provider",
    "register-validator",
    "release-lease",
    "release-vested",
    "request-trial",
    "report-evidence",
    "retire",
    "reveal-answers",
    "revoke",
    "rotate-keys",
    "seal-bid",
    "show-unit",
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

/// Every end of an audit, and what else may happen in one.
const AUDITS: [&str; 10] = [
    "a client lost its lock",
    "a state was posted",
    "a verifier lost its pledge",
    "inconclusive",
    "others were drawn",
    "refuted by a verifier",
    "refuted by the client",
    "refuted for closed leaves",
    "refuted for states that were kept",
    "upheld by verifiers",
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
    /// What happened in audits.
    audits: BTreeMap<&'static str, u64>,
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

    /// Records what a block says of audits.
    pub(crate) fn heard(&mut self, block: &Executed) {
        for event in block.receipts.iter().flat_map(|receipt| receipt.events.iter()) {
            match event {
                Event::AuditClosed { audit, .. } => self.audited(audit),
                Event::StatePosted { .. } => self.in_audit("a state was posted"),
                Event::AuditDrawn { draw: 2, .. } => self.in_audit("others were drawn"),
                _ => {}
            }
        }
    }

    fn in_audit(&mut self, what: &'static str) {
        bump(self.audits.entry(what).or_default());
    }

    /// How an audit ended; of one without verifiers, only what its client did.
    fn audited(&mut self, audit: &Audit) {
        let AuditPhase::Decided(finding) = audit.phase else { return };
        let said = |wanted: Said| {
            audit.seats.iter().any(|seat| seat.duties.iter().any(|duty| duty.said == wanted))
        };
        if said(Said::Dismissed) {
            self.in_audit("a verifier lost its pledge");
        }
        if audit.objected && finding == Finding::Upheld {
            self.in_audit("a client lost its lock");
        }
        let wrong = |by: Challenger| match by {
            Challenger::Client => "refuted by the client",
            Challenger::Verifier(_) => "refuted by a verifier",
        };
        match finding {
            Finding::Upheld if said(Said::Agreed) => self.in_audit("upheld by verifiers"),
            Finding::Upheld => {}
            Finding::Inconclusive => self.in_audit("inconclusive"),
            Finding::Refuted(Fault::Wrong { finder, .. }) => self.in_audit(wrong(finder)),
            Finding::Refuted(Fault::Unopened) => self.in_audit("refuted for closed leaves"),
            Finding::Refuted(Fault::Unposted) => self.in_audit("refuted for states that were kept"),
        }
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
        for name in AUDITS.into_iter().filter(|name| !self.audits.contains_key(name)) {
            gaps.push(format!("of audits, this never happened: {name}"));
        }
        if self.applied.saturating_mul(2) < self.transactions {
            gaps.push(format!("only {} of {} took effect", self.applied, self.transactions));
        }
        gaps
    }
}

/// Failures that a run of this size cannot meet; tests of the ledger do.
const ELSEWHERE: [Failure; 2] = [Failure::TooManyTasks, Failure::TooManyBids];

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
        writeln!(f, "\n{:<36}{:>12}", "in audits", "")?;
        for (name, count) in &self.audits {
            writeln!(f, "{name:<36}{count:>12}")?;
        }
        Ok(())
    }
}
