//! Which entries a transaction or a block will read, known from its bytes alone.
//!
//! A guess that saves round trips, never a promise: whatever is missing is loaded on demand.

use crate::beacon::slot;
use opengpu_types::{Height, Key, Operation, SignedTransaction};

/// Entries that every block reads.
pub fn block_keys(height: Height) -> Vec<Key> {
    vec![
        Key::Chain,
        Key::Supply,
        Key::Parameters,
        Key::Turns,
        Key::UnbondingQueue,
        Key::Beacon(slot(height)),
    ]
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
            Operation::EditValidator { .. } | Operation::Unjail | Operation::Retire => {
                keys.push(Key::Validator(sender));
            }
            Operation::Delegate { validator, .. }
            | Operation::Undelegate { validator, .. }
            | Operation::Redelegate { from: validator, .. }
            | Operation::ClaimRewards { validator } => keys.extend([
                Key::Validator(*validator),
                Key::Delegation { delegator: sender, validator: *validator },
            ]),
            Operation::ReportEvidence { evidence } => {
                keys.extend([Key::Seats(evidence.epoch), Key::Offences(evidence.epoch)]);
            }
            Operation::ConfirmSeat { epoch } => keys.push(Key::Duty {
                account: sender,
                duty: opengpu_types::DutyKind::ConfirmSeat { epoch: *epoch },
            }),
            Operation::Burn { .. } => {}
        }
    }
}
