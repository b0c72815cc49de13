//! The text of a transaction that a wallet shows before signing, and that its signature covers.
//!
//! Every fact that moves money or power is named; the text is consensus (a signature over it is
//! checked by rebuilding it), so a change here is a protocol change.

use crate::{ChainId, DisputeMove, MarketOperation, Offer, Operation, Purpose, Transaction};
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
            Self::Tasks => "tasks",
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
            Self::Market(operation) => fmt::Display::fmt(operation, f),
            Self::ChangeKey { to } => match to.key.address() {
                Ok(key) => write!(f, "Give the account to the key {key}"),
                Err(_) => f.write_str("Give the account to something that is no key"),
            },
        }
    }
}

impl fmt::Display for MarketOperation {
    #[expect(clippy::too_many_lines, reason = "a line for each operation")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RegisterProvider { contact, offers, stake } => write!(
                f,
                "Register as provider with {stake} oGPU, offers at {}, session key {}, sealing key {}",
                rates(offers),
                contact.session,
                contact.sealing
            ),
            Self::EditProvider { contact, offers } => write!(
                f,
                "Set the provider's offers at {}, session key {}, sealing key {}",
                rates(offers),
                contact.session,
                contact.sealing
            ),
            Self::StakeProvider { amount } => write!(f, "Stake {amount} oGPU as provider"),
            Self::DrainProvider { draining: true } => f.write_str("Take no more leases"),
            Self::DrainProvider { draining: false } => f.write_str("Take leases again"),
            Self::LeaveProvider => f.write_str("End the provider"),
            Self::Heartbeat => f.write_str("Say that the provider is there"),
            Self::SubmitTask { spec, budget, escrow, contact } => write!(
                f,
                "Submit a task of program {} on input {} for at most {budget}, {escrow} oGPU in \
                 escrow, session key {}, sealing key {}",
                spec.program, spec.input, contact.session, contact.sealing
            ),
            Self::TopUp { task, amount } => write!(f, "Add {amount} oGPU to task {task}"),
            Self::ExtendTask { task, longest } => {
                write!(f, "Let leases of task {task} take {longest} ms")
            }
            Self::EditTask { task, contact } => write!(
                f,
                "Set session key {} and sealing key {} of task {task}",
                contact.session, contact.sealing
            ),
            Self::CancelTask { task } => write!(f, "Cancel task {task}"),
            Self::SealBid { task, offer, seal } => {
                write!(f, "Bid for task {task} by offer {offer}, sealed {seal}")
            }
            Self::OpenBid { task, rate, .. } => {
                write!(f, "Open the bid of {rate} oGPU a second for task {task}")
            }
            Self::CommitTrace { lease, commitment, .. } => {
                write!(f, "Commit to trace {} of lease {lease}", commitment.root)
            }
            Self::OpenOutput { lease, output, .. } => {
                write!(f, "Open output {output} of lease {lease}")
            }
            Self::ReleaseLease { lease, .. } => write!(f, "Give back lease {lease}"),
            Self::ClaimUsage { lease, time, .. } => {
                write!(f, "Claim {time} ms of lease {lease}")
            }
            Self::AnswerAudit { lease, replies } => {
                write!(f, "Answer about {} segments of lease {lease}", replies.len())
            }
            Self::PostState { lease, before, .. } => write!(
                f,
                "Make the state after segment {} of lease {lease} public",
                before.segment.index
            ),
            Self::OpenLeaves { lease, leaves, .. } => {
                write!(f, "Open {} segments of lease {lease}", leaves.len())
            }
            Self::RevealAnswers { lease, reveals, .. } => {
                write!(f, "Open the answers about {} segments of lease {lease}", reveals.len())
            }
            Self::DisputeSegment { lease, claimed, .. } => {
                write!(f, "Dispute segment {} of lease {lease}", claimed.segment.index)
            }
            Self::MoveDispute { lease, said: DisputeMove::State(points) } => {
                write!(f, "State {} points of the disputed segment of lease {lease}", points.len())
            }
            Self::MoveDispute { lease, said: DisputeMove::Dispute(interval) } => {
                write!(f, "Dispute interval {interval} of the disputed segment of lease {lease}")
            }
            Self::ShowUnit { lease, .. } => {
                write!(f, "Make the disputed unit of lease {lease} public")
            }
            Self::RequestTrial => f.write_str("Ask for a trial of the provider's devices"),
            Self::CommitTrial { root } => write!(f, "Commit to trial {root}"),
            Self::OpenTrial { rounds, blocks } => {
                write!(f, "Open {} blocks of the trial, of {rounds} rounds", blocks.len())
            }
        }
    }
}

/// What is wanted for a second of each offer.
fn rates(offers: &[Offer]) -> String {
    let rates: Vec<_> = offers.iter().map(|offer| offer.rate.to_string()).collect();
    if rates.is_empty() { "nothing".to_owned() } else { rates.join(" and ") }
}
