//! The text of a transaction that a wallet shows before signing, and that its signature covers.
//!
//! Every fact that moves money or power is named; the text is consensus (a signature over it is
//! checked by rebuilding it), so a change here is a protocol change.

use crate::{ChainId, Operation, Purpose, Transaction};
use std::fmt::{self, Write as _};

impl Transaction {
    /// One line per fact.
    pub fn summary(&self, chain: ChainId) -> String {
        let mut text = String::with_capacity(256);
        self.write_summary(chain, &mut text).expect("writing to a string cannot fail");
        text
    }

    fn write_summary(&self, chain: ChainId, out: &mut String) -> fmt::Result {
        writeln!(out, "OpenGPU transaction on chain {chain}")?;
        writeln!(out, "Account: {}", self.sender)?;
        for operation in &self.operations {
            writeln!(out, "{operation}")?;
        }
        if let Some(sponsor) = &self.sponsor {
            writeln!(out, "Fee paid by: {sponsor}")?;
        }
        writeln!(out, "Fee: at most {} oGPU, tip {} oGPU", self.max_fee, self.tip)?;
        write!(out, "Number: {}, valid until block {}", self.nonce, self.valid_until)?;
        if !self.memo.as_str().is_empty() {
            write!(out, "\nMemo: {}", self.memo)?;
        }
        Ok(())
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anything => "anything",
            Self::Transfers => "transfers",
            Self::Stake => "stake",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transfer { to, amount } => write!(f, "Transfer {amount} oGPU to {to}"),
            Self::Burn { amount } => write!(f, "Burn {amount} oGPU"),
            Self::CloseAccount { to } => write!(f, "Close the account and send the rest to {to}"),
            Self::Authorize { name, spender, amount, purpose, until } => write!(
                f,
                // Free text comes last, so that it cannot imitate the facts.
                "Let {spender} spend up to {amount} oGPU on {purpose} until {until}, as \"{name}\""
            ),
            Self::Revoke { spender } => write!(f, "End the spending limit of {spender}"),
            Self::ReleaseVested => f.write_str("Release vested tokens"),
            Self::RegisterValidator { keys, host, commission, stake } => write!(
                f,
                "Register as validator with {stake} oGPU, commission {}/1000, node {} at {host}",
                commission.get(),
                keys.consensus
            ),
            Self::EditValidator { host, commission } => {
                write!(f, "Set validator commission {}/1000, node at {host}", commission.get())
            }
            Self::RotateKeys { keys } => write!(f, "Set validator node key {}", keys.consensus),
            Self::Unjail => f.write_str("Unjail the validator"),
            Self::Retire => f.write_str("Retire the validator"),
            Self::Delegate { validator, amount } => {
                write!(f, "Delegate {amount} oGPU to {validator}")
            }
            Self::Undelegate { validator, amount } => {
                write!(f, "Undelegate {amount} oGPU from {validator}")
            }
            Self::Redelegate { from, to, amount } => {
                write!(f, "Redelegate {amount} oGPU from {from} to {to}")
            }
            Self::ClaimRewards { validator } => write!(f, "Claim rewards from {validator}"),
            Self::ReportEvidence { evidence } => write!(
                f,
                "Report conflicting votes of {} in epoch {}, view {}",
                evidence.voter, evidence.epoch, evidence.view
            ),
            Self::ConfirmSeat { epoch } => write!(f, "Confirm the seat of epoch {epoch}"),
            Self::Withdraw { id } => write!(f, "Withdraw unbonded stake number {id}"),
        }
    }
}
