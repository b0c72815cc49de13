//! Which entries a transaction or a block will read, known from its bytes alone.
//!
//! A guess that saves round trips, never a promise: whatever is missing is loaded on demand.

use crate::{
    beacon::slot,
    epoch::{epoch_of, is_first_of_epoch, is_last_of_epoch},
    market::likely_ticks,
};
use opengpu_types::{
    Address, Epoch, Height, Key, MarketOperation, Millis, Operation, Parameters, SignedTransaction,
    Urgency,
};

/// Entries that a block reads whatever its transactions are; the first and the last block of an
/// epoch read more than others.
pub fn block_keys(height: Height, time: Millis, parameters: &Parameters) -> Vec<Key> {
    let epoch = epoch_of(height, parameters);
    let mut keys = vec![
        Key::Chain,
        Key::Supply,
        Key::Parameters,
        Key::Turns,
        Key::Beacon(slot(height)),
        Key::Seats(epoch),
    ];
    for urgency in Urgency::ALL {
        keys.push(Key::Agenda(urgency));
        keys.extend(likely_ticks(time).map(|tick| Key::Tick { urgency, tick }));
    }
    if parameters.market.trials.are_on() {
        keys.push(Key::Shelves);
    }
    if is_first_of_epoch(height, parameters) {
        keys.push(Key::Seats(epoch.plus(1)));
    }
    if is_last_of_epoch(height, parameters) {
        keys.extend(closing_keys(epoch, parameters));
    }
    keys
}

/// Entries that the end of an epoch reads, as far as the epoch alone tells.
pub(crate) fn closing_keys(epoch: Epoch, parameters: &Parameters) -> Vec<Key> {
    let mut keys = vec![
        Key::Treasury,
        Key::Candidates,
        Key::Turns,
        Key::Seats(epoch),
        Key::Seats(epoch.plus(1)),
        Key::Seats(epoch.plus(2)),
        Key::Offences(epoch),
    ];
    if let Some(old) = epoch.0.checked_sub(parameters.evidence_epochs) {
        keys.extend([Key::Seats(Epoch(old)), Key::Offences(Epoch(old))]);
    }
    keys
}

/// Entries that a transaction will read, most likely.
pub fn predicted_keys(signed: &SignedTransaction, keys: &mut Vec<Key>) {
    let transaction = &signed.transaction;
    let sender = transaction.sender;
    keys.push(Key::Account(sender));
    if let Some(sponsor) = transaction.sponsor {
        keys.push(Key::Account(sponsor));
    }
    if let Ok(signer) = signed.signer.key.address()
        && signer != sender
    {
        keys.push(Key::SpendingLimit { account: sender, spender: signer });
    }
    for operation in &transaction.operations {
        match operation {
            Operation::Transfer { to, .. } | Operation::CloseAccount { to } => {
                keys.push(Key::Account(*to));
            }
            Operation::Authorize { spender, .. } | Operation::Revoke { spender } => {
                keys.push(Key::SpendingLimit { account: sender, spender: *spender });
            }
            Operation::ReleaseVested => keys.push(Key::Vesting(sender)),
            Operation::RegisterValidator { keys: named, .. }
            | Operation::RotateKeys { keys: named } => {
                keys.extend([
                    Key::Validator(sender),
                    Key::ConsensusKey(named.consensus),
                    Key::Candidates,
                ]);
            }
            Operation::EditValidator { .. } | Operation::Unjail => {
                keys.push(Key::Validator(sender));
            }
            Operation::Retire => keys.extend([
                Key::Validator(sender),
                Key::Delegation { delegator: sender, validator: sender },
                Key::Candidates,
                Key::NextUnbonding,
            ]),
            Operation::Delegate { validator, .. } | Operation::ClaimRewards { validator } => {
                keys.extend([
                    Key::Validator(*validator),
                    Key::Delegation { delegator: sender, validator: *validator },
                ]);
            }
            Operation::Undelegate { validator, .. }
            | Operation::Redelegate { from: validator, .. } => keys.extend([
                Key::Validator(*validator),
                Key::Delegation { delegator: sender, validator: *validator },
                Key::NextUnbonding,
            ]),
            Operation::Withdraw { id } => keys.push(Key::Unbonding(*id)),
            Operation::ReportEvidence { evidence } => {
                keys.extend([Key::Seats(evidence.epoch), Key::Offences(evidence.epoch)]);
            }
            Operation::ConfirmSeat { epoch } => keys.push(Key::Duty {
                account: sender,
                duty: opengpu_types::DutyKind::ConfirmSeat { epoch: *epoch },
            }),
            Operation::ChangeKey { to } => {
                let spender = to.key.address().ok();
                let limit = |spender| Key::SpendingLimit { account: sender, spender };
                keys.extend(spender.map(limit));
            }
            Operation::Burn { .. } => {}
            Operation::Market(operation) => market_keys(sender, operation, keys),
        }
    }
}

fn market_keys(sender: Address, operation: &MarketOperation, keys: &mut Vec<Key>) {
    match operation {
        MarketOperation::RegisterProvider { .. } => {
            keys.extend([Key::Provider(sender), Key::Past(sender), Key::Shelves]);
        }
        MarketOperation::EditProvider { .. }
        | MarketOperation::DrainProvider { .. }
        | MarketOperation::LeaveProvider => keys.extend([Key::Provider(sender), Key::Shelves]),
        MarketOperation::StakeProvider { .. } | MarketOperation::Heartbeat => {
            keys.push(Key::Provider(sender));
        }
        MarketOperation::SubmitTask { .. } => keys.extend([Key::Client(sender), Key::Shelves]),
        MarketOperation::TopUp { task, .. }
        | MarketOperation::ExtendTask { task, .. }
        | MarketOperation::EditTask { task, .. } => keys.push(Key::Task(*task)),
        MarketOperation::CancelTask { task } => {
            keys.extend([Key::Task(*task), Key::Auction(*task), Key::Client(sender)]);
        }
        MarketOperation::SealBid { task, .. } | MarketOperation::OpenBid { task, .. } => {
            keys.extend([Key::Task(*task), Key::Auction(*task), Key::Provider(sender)]);
        }
        MarketOperation::CommitTrace { lease, .. }
        | MarketOperation::OpenOutput { lease, .. }
        | MarketOperation::ReleaseLease { lease, .. }
        | MarketOperation::ClaimUsage { lease, .. } => {
            keys.extend([Key::Task(lease.task), Key::Provider(sender)]);
        }
        MarketOperation::AnswerAudit { lease, .. }
        | MarketOperation::PostState { lease, .. }
        | MarketOperation::OpenLeaves { lease, .. }
        | MarketOperation::RevealAnswers { lease, .. }
        | MarketOperation::DisputeSegment { lease, .. }
        | MarketOperation::MoveDispute { lease, .. }
        | MarketOperation::ShowUnit { lease, .. } => {
            keys.extend([Key::Task(lease.task), Key::Audit(*lease), Key::Provider(sender)]);
        }
        MarketOperation::RequestTrial
        | MarketOperation::CommitTrial { .. }
        | MarketOperation::OpenTrial { .. } => {
            keys.extend([Key::Provider(sender), Key::Trial(sender), Key::Shelves]);
        }
    }
}
