//! From operations to a final transaction: preview, one question, signature, submission, wait.
//!
//! Every command that moves money or power ends here, so all of them show the same preview and
//! take the same options.

use crate::{
    context::Context,
    exit::{Complaint, Exit, of_code},
    output::lines,
};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_client::{
    Draft, Facts, Signer, TransactionBuilder, TransactionFile,
    api::{OutcomeName, Progress, Submission, SubmissionStatus, TransactionInfo},
    builder::{Fee, VALID_FOR},
    wait_until_final,
};
use opengpu_crypto::KeyKind;
use opengpu_types::{
    Address, Amount, Height, Nonce, Operation, SignedTransaction, Text, Transaction,
};
use serde_json::json;
use std::{path::PathBuf, time::Duration};

/// Options of every command that sends a transaction.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transaction options")]
pub(crate) struct Sending {
    /// Key that signs: its name, or with --unsigned the address of an Ethereum wallet.
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Account for which the key acts under a spending limit [default: the key's own].
    #[arg(long, value_name = "ADDRESS")]
    account: Option<String>,
    /// Key whose account pays the fee instead.
    #[arg(long, value_name = "NAME")]
    sponsor: Option<String>,
    /// Extra oGPU for the leader.
    #[arg(long, value_name = "AMOUNT", default_value = "0")]
    tip: Amount,
    /// Most to pay for the transaction [default: twice the fee of now].
    #[arg(long, value_name = "AMOUNT")]
    max_fee: Option<Amount>,
    /// Public free text.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    memo: Text<{ Transaction::MAX_MEMO }>,
    /// Blocks that the transaction may wait.
    #[arg(long, value_name = "BLOCKS", default_value_t = VALID_FOR)]
    valid_for: u64,
    /// Number of the transaction [default: the next one].
    #[arg(long, value_name = "NUMBER")]
    nonce: Option<u64>,
    /// Show what would be sent and what it costs, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Write the transaction to a file instead of signing it.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    unsigned: Option<PathBuf>,
    #[command(flatten)]
    waiting: Waiting,
}

/// Options of every command that waits for finality.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Waiting {
    /// Return after submission.
    #[arg(long)]
    no_wait: bool,
    /// Seconds to wait for finality.
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    patience: u64,
}

impl Sending {
    /// The account that acts.
    pub(crate) fn sender(&self, context: &Context) -> Result<Address> {
        match &self.account {
            Some(account) => context.address(account),
            None => context.address(&signer_name(context, self)?),
        }
    }

    /// The same, with the key of an account if none is named and it is here.
    pub(crate) fn by(&self, context: &Context, account: Address) -> Result<Self> {
        let mut sending = self.clone();
        if sending.from.is_none() && sending.account.is_none() {
            let own = context.keystore.list()?.into_iter().find(|key| key.address == account);
            sending.from = own.map(|key| key.name);
        }
        Ok(sending)
    }

    /// The same, for a transaction that discharges a duty.
    pub(crate) const fn free_of_fees(mut self) -> Self {
        (self.max_fee, self.tip) = (Some(Amount::ZERO), Amount::ZERO);
        self
    }
}

/// A transaction that is fixed but not signed.
struct Prepared {
    draft: Draft,
    fee: Fee,
}

/// Shows, asks, signs, sends and waits.
pub(crate) fn send(
    context: &Context,
    sending: &Sending,
    facts: &Facts,
    operations: Vec<Operation>,
) -> Result<()> {
    let signer = signer(context, sending)?;
    let sponsor = sending.sponsor.as_deref().map(|name| stored(context, name)).transpose()?;
    let prepare = || prepare(context, sending, facts, operations.clone(), signer, sponsor);
    let prepared = prepare()?;
    if sending.dry_run {
        return show_preview(context, &prepared);
    }
    if let Some(path) = &sending.unsigned {
        std::fs::write(path, TransactionFile::write(&prepared.draft))
            .with_context(|| format!("writing {}", path.display()))?;
        context.output.note(preview(&prepared));
        context.output.note(format!("Written without signatures to {}.", path.display()));
        return Ok(());
    }
    context.output.note(preview(&prepared));
    context.confirm("Sign and send this?")?;
    let mut keys = vec![context.unlock(&signer_name(context, sending)?)?];
    if let Some(name) = &sending.sponsor {
        keys.push(context.unlock(name)?);
    }
    let sign = |mut draft: Draft| {
        keys.iter().try_for_each(|key| draft.sign(key))?;
        draft.finish()
    };
    let mut signed = sign(prepared.draft)?;
    let mut answer = hand_in(context, signed.clone())?;
    if sending.nonce.is_none() && overtaken(context, &answer)? {
        signed = sign(prepare()?.draft)?;
        answer = hand_in(context, signed.clone())?;
    }
    if answer.status == SubmissionStatus::Known {
        let told = format!("the node has this very transaction already: {}", answer.id);
        let complaint = Complaint::new(Exit::Failed, told);
        let hint = "another command sent it at the same time; to pay once more, repeat this one";
        return Err(complaint.hint(hint).into());
    }
    follow(context, &answer, signed.transaction.valid_until, sending.waiting)
}

fn prepare(
    context: &Context,
    sending: &Sending,
    facts: &Facts,
    operations: Vec<Operation>,
    signer: Signer,
    sponsor: Option<Signer>,
) -> Result<Prepared> {
    let sender = match &sending.account {
        Some(account) => context.address(account)?,
        None => signer.account,
    };
    let nonce = match sending.nonce {
        Some(number) => Some(Nonce(number)),
        None => signer.next_nonce(&context.rpc, sender)?,
    };
    let mut builder = TransactionBuilder::new(sender)
        .operations(operations)
        .memo(sending.memo.clone())
        .tip(sending.tip)
        .valid_for(sending.valid_for);
    if let Some(max_fee) = sending.max_fee {
        builder = builder.max_fee(max_fee);
    }
    if let Some(sponsor) = sponsor {
        builder = builder.sponsor(sponsor);
    }
    let (draft, fee) = builder.draft(facts, signer, nonce)?;
    Ok(Prepared { draft, fee })
}

fn signer_name(context: &Context, sending: &Sending) -> Result<String> {
    context.wallet_name(sending.from.as_deref())
}

/// Who signs: a stored key, or an Ethereum wallet elsewhere if the transaction is only written.
fn signer(context: &Context, sending: &Sending) -> Result<Signer> {
    let name = signer_name(context, sending)?;
    if !name.starts_with("0x") {
        return stored(context, &name);
    }
    if sending.unsigned.is_none() && !sending.dry_run {
        let complaint = Complaint::usage(format!("the key of {name} is not here to sign"));
        let hint = "add --unsigned FILE, sign it with the wallet, then `opengpu tx sign`";
        return Err(complaint.hint(hint).into());
    }
    let address = context.address(&name)?;
    Ok(Signer { account: address, address, kind: KeyKind::Secp256k1 })
}

fn stored(context: &Context, name: &str) -> Result<Signer> {
    let record = context.keystore.record(name)?;
    Ok(Signer { account: record.address, address: record.key, kind: record.kind })
}

fn preview(prepared: &Prepared) -> String {
    let fee = prepared.fee.expected;
    format!("{}\nFee now: {fee} oGPU\n", prepared.draft.summary())
}

fn show_preview(context: &Context, prepared: &Prepared) -> Result<()> {
    let (draft, fee) = (&prepared.draft, &prepared.fee);
    let json = json!({
        "id": draft.id().to_string(),
        "summary": draft.summary(),
        "weight": fee.weight.0,
        "fee": fee.expected.to_string(),
        "max_fee": fee.maximum.to_string(),
        "nonce": draft.transaction.nonce.0,
        "valid_until": draft.transaction.valid_until.0,
    });
    context.output.show(&json, |_| preview(prepared))
}

/// Submits a complete transaction, perhaps once more, and waits for finality.
pub(crate) fn submit(context: &Context, signed: SignedTransaction, waiting: Waiting) -> Result<()> {
    let valid_until = signed.transaction.valid_until;
    follow(context, &hand_in(context, signed)?, valid_until, waiting)
}

/// Gives a transaction to the node.
fn hand_in(context: &Context, signed: SignedTransaction) -> Result<Submission> {
    let answers = context.rpc.submit(vec![signed])?;
    let none = || Complaint::new(Exit::Failed, "the node did not answer for the transaction");
    Ok(answers.into_iter().next().ok_or_else(none)?)
}

/// Whether another transaction of the key, perhaps of a node that it runs, has just taken the
/// number. If it was this very one, sending it with another number would be a second payment.
fn overtaken(context: &Context, answer: &Submission) -> Result<bool> {
    if answer.code.as_deref() != Some("nonce-used") {
        return Ok(false);
    }
    let own = context.rpc.transaction(answer.id)?.status;
    Ok(matches!(own, Progress::Unknown | Progress::Refused))
}

/// Waits for the finality of what the node took.
fn follow(
    context: &Context,
    answer: &Submission,
    valid_until: Height,
    waiting: Waiting,
) -> Result<()> {
    refuse(answer)?;
    if waiting.no_wait {
        return context.output.show(answer, |answer| answer.id.to_string());
    }
    let patience = Duration::from_secs(waiting.patience);
    let info = wait_until_final(&context.rpc, answer.id, valid_until, patience)?;
    show_info(context, &info)?;
    succeeded(&info)
}

fn refuse(answer: &Submission) -> Result<()> {
    if answer.status != SubmissionStatus::Refused {
        return Ok(());
    }
    let code = answer.code.as_deref().unwrap_or("refused");
    let reason = answer.reason.as_deref().unwrap_or(code);
    let complaint = Complaint::new(of_code(code), format!("the node refused it: {reason}"));
    Err(match code {
        "nonce-used" | "nonce-ahead" => {
            complaint.hint("another transaction of this key is on its way; try again in a moment")
        }
        "no-account" => complaint.hint("on a local network: `opengpu dev faucet ADDRESS AMOUNT`"),
        _ => complaint,
    }
    .into())
}

/// Shows how far a transaction is.
pub(crate) fn show_info(context: &Context, info: &TransactionInfo) -> Result<()> {
    context.output.show(info, |info| {
        let status = match (info.status, info.outcome) {
            (Progress::Pending, _) => "pending",
            (Progress::Unknown, _) => "unknown to this node",
            (Progress::Refused, _) => "refused",
            (Progress::Finalized, Some(OutcomeName::Failed)) => "final, failed",
            (Progress::Finalized, _) => "final, applied",
        };
        let height = |height: &Height| ("block", height.to_string());
        let fee = |fee: &Amount| ("fee", format!("{fee} oGPU"));
        let reason = |reason: &String| ("reason", reason.clone());
        let mut rows = vec![("transaction", info.id.to_string()), ("status", status.to_owned())];
        rows.extend(info.height.as_ref().map(height));
        rows.extend(info.fee.as_ref().map(fee));
        rows.extend(info.reason.as_ref().map(reason));
        rows.extend(info.events.iter().map(|event| ("event", event.to_string())));
        lines(rows)
    })
}

/// An error if a final transaction had no effect.
fn succeeded(info: &TransactionInfo) -> Result<()> {
    if info.outcome != Some(OutcomeName::Failed) {
        return Ok(());
    }
    let code = info.code.as_deref().unwrap_or("failed");
    let reason = info.reason.as_deref().unwrap_or(code);
    Err(Complaint::new(of_code(code), format!("the transaction failed: {reason}")).into())
}
