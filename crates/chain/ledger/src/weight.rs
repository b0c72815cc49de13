//! What a transaction weighs: about a tenth of a microsecond of one core per unit, as measured on
//! the slowest part (signatures), plus what its bytes cost to carry and keep.
//!
//! | part | measured | weight |
//! |---|---|---|
//! | ed25519 signature, in a batch | 20 us | 200 |
//! | secp256k1 signature, with the text it covers | 180 us | 1,800 |
//! | BLS proof of possession | 1.4 ms | 14,000 |
//! | ed25519 proof of possession, alone | 50 us | 500 |
//! | two ed25519 signatures of evidence, alone | 100 us | 1,000 |
//! | the agreement of a new key, alone | 180 us | 1,800 |
//! | an operation on the bank | 1 us | 10 |
//! | an operation on stake | 3 us | 30 |
//! | an operation on the market | 5 us | 50 |
//! | an offer that is put on a shelf or taken off, with its class | 1 us, 5 with its bytes | 50 |
//! | a signature of usage, alone | 50 us | 500 |
//! | a look at the offers of 64 shelves, and at 256 providers | 100 us, 60 us | 1,600 |
//! | a predicate, up to its fuel | 0.5 ms | 5,000 |
//! | an audit that is spoken in: read, changed, kept | 20 us | 200 |
//! | a unit that is executed, up to its fuel | 6 ms | 60,000 |
//! | a byte of its module, checked and translated | 50 ns | 0.5 |
//! | 24 opened blocks of a trial, with their proofs | 0.5 ms at most, by count of hashes | 5,000 |
//! | a round of all 24 drawn lanes, beside each other | 0.1 us | 1 |

use commonware_codec::EncodeSize as _;
use opengpu_types::{
    Allocating, MarketOperation, Operation, Provider, PublicKey, SignedTransaction, Weight,
};

const ED25519: u64 = 200;
const SECP256K1: u64 = 1_800;
const BANK: u64 = 10;
const STAKE: u64 = 30;
/// Of both keys.
const POSSESSION: u64 = 14_500;
const EVIDENCE: u64 = 1_000;
const MARKET: u64 = 50;
const OFFER: u64 = 50;
const STATEMENT: u64 = 500;
const SPOT: u64 = 1_600;
const PREDICATE: u64 = 5_000;
const AUDIT: u64 = 200;
const UNIT: u64 = 60_000;
const TRIAL: u64 = 5_000;
/// Of a module that is translated, in tenths.
const MODULE_BYTE_TENTHS: u64 = 5;
/// What is executed in one block of disputes and trials: 20 ms.
pub(crate) const MOST_REFEREED: u64 = 200_000;

/// Weight of a transaction; depends on nothing but its bytes.
pub fn weight_of(signed: &SignedTransaction) -> Weight {
    let signatures = signed.authorizations().map(|authorization| match authorization.key {
        PublicKey::Ed25519(_) => ED25519,
        PublicKey::Secp256k1(_) => SECP256K1,
    });
    let operations = signed.transaction.operations.iter().map(operation);
    let bytes = u64::try_from(signed.encode_size()).unwrap_or(u64::MAX);
    Weight(signatures.chain(operations).fold(bytes, u64::saturating_add))
}

fn operation(operation: &Operation) -> u64 {
    match operation {
        Operation::Transfer { .. }
        | Operation::Burn { .. }
        | Operation::CloseAccount { .. }
        | Operation::Authorize { .. }
        | Operation::Revoke { .. }
        | Operation::ReleaseVested => BANK,
        Operation::EditValidator { .. }
        | Operation::Unjail
        | Operation::Retire
        | Operation::Delegate { .. }
        | Operation::Undelegate { .. }
        | Operation::Redelegate { .. }
        | Operation::ClaimRewards { .. }
        | Operation::Withdraw { .. }
        | Operation::ConfirmSeat { .. } => STAKE,
        Operation::RegisterValidator { .. } | Operation::RotateKeys { .. } => POSSESSION,
        Operation::ReportEvidence { .. } => EVIDENCE,
        Operation::ChangeKey { .. } => SECP256K1,
        Operation::Market(operation) => market(operation),
    }
}

/// What depends on the state weighs as much as it can: a provider has as many offers as anybody may have,
/// and was silent before.
fn market(operation: &MarketOperation) -> u64 {
    let all = shelving(Provider::MAX_OFFERS);
    match operation {
        MarketOperation::SubmitTask { spec, .. } if spec.allocating == Allocating::Spot => SPOT,
        MarketOperation::RegisterProvider { offers, .. } => {
            MARKET.saturating_add(shelving(offers.len()))
        }
        // Those of before go, and these come.
        MarketOperation::EditProvider { offers, .. } => {
            MARKET.saturating_add(all).saturating_add(shelving(offers.len()))
        }
        MarketOperation::DrainProvider { .. }
        | MarketOperation::LeaveProvider
        | MarketOperation::Heartbeat => MARKET.saturating_add(all),
        // Whoever works is heard of, like by a heartbeat.
        MarketOperation::CommitTrace { witness: Some(_), .. } => PREDICATE.saturating_add(all),
        MarketOperation::ClaimUsage { .. } => STATEMENT.saturating_add(all),
        MarketOperation::CommitTrace { .. } | MarketOperation::ReleaseLease { .. } => {
            MARKET.saturating_add(all)
        }
        // An audit is read, changed and perhaps ended, and whoever speaks in it is heard of.
        MarketOperation::AnswerAudit { .. }
        | MarketOperation::PostState { .. }
        | MarketOperation::OpenLeaves { .. }
        | MarketOperation::RevealAnswers { .. }
        | MarketOperation::DisputeSegment { .. }
        | MarketOperation::MoveDispute { .. } => AUDIT.saturating_add(all),
        MarketOperation::ShowUnit { unit, .. } => showing(unit.module.len()),
        MarketOperation::CommitTrial { .. } => MARKET.saturating_add(all),
        MarketOperation::OpenTrial { rounds, .. } => trying(*rounds).saturating_add(all),
        _ => MARKET,
    }
}

/// Weight of a unit that the referee executes, or of lanes that are computed again, beside their bytes; none
/// of other operations.
fn refereed(operation: &Operation) -> u64 {
    match operation {
        Operation::Market(MarketOperation::OpenTrial { rounds, .. }) => trying(*rounds),
        Operation::Market(MarketOperation::ShowUnit { unit, .. }) => showing(unit.module.len()),
        _ => 0,
    }
}

/// Weight of all that the referee executes for a transaction.
pub(crate) fn refereed_of(signed: &SignedTransaction) -> u64 {
    signed.transaction.operations.iter().map(refereed).fold(0, u64::saturating_add)
}

/// A module is checked and translated, and a call takes its fuel.
fn showing(module: usize) -> u64 {
    let module = u64::try_from(module).unwrap_or(u64::MAX).saturating_mul(MODULE_BYTE_TENTHS) / 10;
    UNIT.saturating_add(module)
}

/// Proofs are checked, and lanes of so many rounds computed again.
fn trying(rounds: u32) -> u64 {
    TRIAL.saturating_add(rounds.into())
}

/// Weight of so many offers that come or go.
fn shelving(offers: usize) -> u64 {
    OFFER.saturating_mul(u64::try_from(offers).unwrap_or(u64::MAX))
}
