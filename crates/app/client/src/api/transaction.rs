//! Transactions on their way: submission, progress, outcome.

use super::{EventInfo, form};
use opengpu_types::{
    Amount, Failure, Height, List, Outcome, Receipt, SignedTransaction, TransactionId,
};
use serde::{Deserialize, Serialize};

/// Most transactions in one submission.
pub const MAX_BATCH: usize = 4_096;
/// Largest body of a submission in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// Body of a submission, in its canonical encoding.
pub type Batch = List<SignedTransaction, MAX_BATCH>;

/// Some receipts of one block.
pub type ReceiptPage = List<Receipt, MAX_BATCH>;

/// Some transactions of one block.
pub type TransactionPage = List<SignedTransaction, MAX_BATCH>;

/// What a node says to one submitted transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Which transaction.
    #[serde(with = "form")]
    pub id: TransactionId,
    /// Whether the node took it.
    pub status: SubmissionStatus,
    /// Why not, for programs: a name of `opengpu_ledger::Invalid`, or of [`super::codes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether a node took a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubmissionStatus {
    /// It will be forwarded to leaders.
    Accepted,
    /// The node has it already.
    Known,
    /// It cannot be included as it is.
    Refused,
}

/// How far a transaction is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionInfo {
    /// Which transaction.
    #[serde(with = "form")]
    pub id: TransactionId,
    /// How far it is.
    pub status: Progress,
    /// Height of its block.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub height: Option<Height>,
    /// Place of its receipt in the block; the first transaction has place one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeName>,
    /// The operation that failed, counted from zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u8>,
    /// What was paid.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub fee: Option<Amount>,
    /// Why it failed or was refused, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it failed or was refused, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventInfo>,
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// It waits for a block, or its block waits for finality.
    Pending,
    /// It is in a final block.
    Finalized,
    /// This node refused or dropped it.
    Refused,
    /// This node knows nothing about it.
    Unknown,
}

/// How a final transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeName {
    /// Every operation took effect.
    Applied,
    /// None did; the fee was charged.
    Failed,
}

impl TransactionInfo {
    const fn new(id: TransactionId, status: Progress) -> Self {
        Self {
            id,
            status,
            height: None,
            index: None,
            outcome: None,
            operation: None,
            fee: None,
            code: None,
            reason: None,
            events: Vec::new(),
        }
    }

    /// A transaction that this node has never seen, or has forgotten.
    pub const fn unknown(id: TransactionId) -> Self {
        Self::new(id, Progress::Unknown)
    }

    /// A transaction that waits.
    pub const fn pending(id: TransactionId) -> Self {
        Self::new(id, Progress::Pending)
    }

    /// A transaction that this node refused or dropped.
    pub fn refused(id: TransactionId, code: &str, reason: impl Into<String>) -> Self {
        let (code, reason) = (Some(code.to_owned()), Some(reason.into()));
        Self { code, reason, ..Self::new(id, Progress::Refused) }
    }

    /// A final transaction.
    pub fn finalized(id: TransactionId, receipt: &Receipt) -> Self {
        let mut info = Self {
            height: Some(receipt.height),
            index: Some(receipt.index),
            outcome: Some(OutcomeName::Applied),
            fee: Some(receipt.fee),
            events: receipt.events.iter().map(EventInfo::from).collect(),
            ..Self::new(id, Progress::Finalized)
        };
        if let Outcome::Failed { operation, failure } = receipt.outcome {
            info.outcome = Some(OutcomeName::Failed);
            info.operation = Some(operation);
            info.code = Some(failure_code(failure).to_owned());
            info.reason = Some(failure.to_string());
        }
        info
    }
}

/// Stable name of a failure, for programs.
const fn failure_code(failure: Failure) -> &'static str {
    match failure {
        Failure::InsufficientBalance => "insufficient-balance",
        Failure::ZeroAmount => "zero-amount",
        Failure::BelowReserve => "below-reserve",
        Failure::SameAccount => "same-account",
        Failure::AccountInUse => "account-in-use",
        Failure::UnknownLimit => "unknown-limit",
        Failure::TimePassed => "time-passed",
        Failure::OutsidePurpose => "outside-purpose",
        Failure::LimitExceeded => "limit-exceeded",
        Failure::NothingVested => "nothing-vested",
        Failure::UnknownValidator => "unknown-validator",
        Failure::ValidatorExists => "validator-exists",
        Failure::KeyInUse => "key-in-use",
        Failure::InvalidKeys => "invalid-keys",
        Failure::BelowMinimumStake => "below-minimum-stake",
        Failure::TooManyValidators => "too-many-validators",
        Failure::NotJailed => "not-jailed",
        Failure::StillJailed => "still-jailed",
        Failure::Retired => "retired",
        Failure::InsufficientStake => "insufficient-stake",
        Failure::NothingToClaim => "nothing-to-claim",
        Failure::InvalidEvidence => "invalid-evidence",
        Failure::EvidenceExpired => "evidence-expired",
        Failure::AlreadyPunished => "already-punished",
        Failure::NoSuchDuty => "no-such-duty",
        Failure::Overflow => "overflow",
        Failure::UnknownUnbonding => "unknown-unbonding",
        Failure::StillUnbonding => "still-unbonding",
        Failure::UnknownProvider => "unknown-provider",
        Failure::ProviderExists => "provider-exists",
        Failure::NotActive => "not-active",
        Failure::StillLeased => "still-leased",
        Failure::OfferInUse => "offer-in-use",
        Failure::BadOffer => "bad-offer",
        Failure::UnknownTask => "unknown-task",
        Failure::BadSpec => "bad-spec",
        Failure::TooManyTasks => "too-many-tasks",
        Failure::BudgetTooSmall => "budget-too-small",
        Failure::WrongPhase => "wrong-phase",
        Failure::NotParty => "not-party",
        Failure::UnknownLease => "unknown-lease",
        Failure::UnknownOffer => "unknown-offer",
        Failure::UnfitOffer => "unfit-offer",
        Failure::AlreadyBid => "already-bid",
        Failure::TooManyBids => "too-many-bids",
        Failure::UnknownBid => "unknown-bid",
        Failure::WrongSeal => "wrong-seal",
        Failure::BadCommitment => "bad-commitment",
        Failure::BadSignature => "bad-signature",
        Failure::BadWitness => "bad-witness",
        Failure::Rejected => "rejected",
        Failure::TooSoon => "too-soon",
        Failure::BadKey => "bad-key",
        Failure::KeyChanged => "key-changed",
        Failure::BadLeaf => "bad-leaf",
        Failure::NotAsked => "not-asked",
        Failure::BadMove => "bad-move",
        Failure::BadUnit => "bad-unit",
        Failure::BadTrial => "bad-trial",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Address, Digest, Event, Weight};

    const ID: TransactionId = TransactionId(Digest([0xab; 32]));

    fn receipt(outcome: Outcome) -> Receipt {
        let event = Event::Burned { from: Address::ZERO, amount: Amount::ONE };
        Receipt {
            height: Height(7),
            index: 1,
            transaction: Some(ID),
            outcome,
            fee: "0.25".parse().unwrap(),
            weight: Weight(300),
            events: List::new(vec![event]).unwrap(),
        }
    }

    #[test]
    fn a_final_transaction_tells_height_fee_and_events() {
        let info = TransactionInfo::finalized(ID, &receipt(Outcome::Applied));
        let id = "ab".repeat(32);
        let zero = Address::ZERO;
        let wanted = format!(
            concat!(
                r#"{{"id":"0x{}","status":"finalized","height":7,"index":1,"#,
                r#""outcome":"applied","fee":"0.25","#,
                r#""events":[{{"kind":"burned","amount":"1","from":"{}"}}]}}"#
            ),
            id, zero
        );
        let json = serde_json::to_string(&info).unwrap();
        assert_eq!(json, wanted);
        assert_eq!(serde_json::from_str::<TransactionInfo>(&json).unwrap(), info);
    }

    #[test]
    fn a_failed_transaction_names_the_operation_and_the_reason() {
        let failure = Failure::InsufficientBalance;
        let failed = receipt(Outcome::Failed { operation: 2, failure });
        let info = TransactionInfo::finalized(ID, &failed);
        assert_eq!(info.outcome, Some(OutcomeName::Failed));
        assert_eq!(info.operation, Some(2));
        assert_eq!(info.code.as_deref(), Some("insufficient-balance"));
        assert_eq!(info.reason.as_deref(), Some("the balance is too small"));
    }

    #[test]
    fn an_unknown_transaction_is_only_its_id() {
        let json = serde_json::to_value(TransactionInfo::unknown(ID)).unwrap();
        assert_eq!(json.as_object().unwrap().len(), 2);
        assert_eq!(json["status"], "unknown");
    }

    #[test]
    fn a_submission_says_whether_and_why_not() {
        let refused = Submission {
            id: ID,
            status: SubmissionStatus::Refused,
            code: Some("nonce-used".into()),
            reason: None,
        };
        let json = serde_json::to_value(&refused).unwrap();
        assert_eq!(json["status"], "refused");
        assert_eq!(json["code"], "nonce-used");
        assert_eq!(json.get("reason"), None);
    }
}
