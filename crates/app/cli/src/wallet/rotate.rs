//! `opengpu wallet rotate`: another key for an account, of which everything else stays as it is.
//!
//! The new key is on disk before the chain hears of it, and takes the place of the old one only after
//! the chain has taken it. Whoever is interrupted in between runs the command again.

use super::{Making, show};
use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::Result;
use clap::Args;
use opengpu_client::{Signatory, WalletError, send, send_sponsored, wallet::KeyRecord};
use opengpu_types::{Address, Authorization, Operation};
use std::time::Duration;

/// How long the chain may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// Name of the key.
    name: String,
    /// Key whose account pays the fee instead.
    #[arg(long, value_name = "NAME")]
    sponsor: Option<String>,
    #[command(flatten)]
    making: Making,
}

pub(super) fn run(context: &Context, arguments: &Rotate) -> Result<()> {
    let Rotate { name, sponsor, making } = arguments;
    let (old, next) = (context.keystore.record(name)?, format!("{name}-next"));
    let kept = match context.keystore.record(&next) {
        Ok(record) => Some(record),
        Err(WalletError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if kept.as_ref().is_some_and(|kept| kept.address != old.address) {
        let complaint = Complaint::usage(format!("`{next}` is a key of another account"));
        return Err(complaint.hint("store it under another name first").into());
    }
    let account = context.rpc.account(old.address)?;
    if !account.exists {
        return Err(unknown(&old).into());
    }
    let signs = account.key;
    if kept.as_ref().is_some_and(|kept| kept.key == signs) {
        context.output.note("The chain has the new key already.");
        return finish(context, name, &next);
    }
    if signs != old.key {
        return Err(elsewhere(&old, signs).into());
    }
    context.confirm(&format!(
        "Give account {} another key? The one of now has no right any more then.",
        old.address
    ))?;
    let owner = context.unlock(name)?;
    let new = match kept {
        Some(_) => {
            context.output.note(format!(
                "`{next}` is there from an earlier try and is taken; its recovery phrase, shown then, \
                 stays valid."
            ));
            context.unlock(&next)?
        }
        None => make(context, making, &next, owner.account)?,
    };
    let operation = agreed(context, &new)?;
    match sponsor {
        Some(sponsor) => {
            let sponsor = context.unlock(sponsor)?;
            send_sponsored(&context.rpc, &owner, &sponsor, vec![operation], PATIENCE)?
        }
        None => send(&context.rpc, &owner, vec![operation], PATIENCE)?,
    };
    finish(context, name, &next)
}

/// The new key, on disk.
fn make(context: &Context, making: &Making, next: &str, account: Address) -> Result<Signatory> {
    let (keypair, phrase) = making.keypair()?;
    let passphrase = context.new_passphrase(making.no_passphrase)?;
    let new = Signatory { account, keypair };
    // First, so that no key is ever used whose phrase nobody saw.
    super::tell(context, &phrase);
    context.keystore.store(&mut rand::rng(), next, &new, &passphrase)?;
    Ok(new)
}

/// What the account signs, with the agreement of its new key.
fn agreed(context: &Context, new: &Signatory) -> Result<Operation> {
    let message = Operation::taking_over(context.rpc.status()?.chain, &new.account);
    let signature = new.keypair.sign_bytes(&message);
    Ok(Operation::ChangeKey { to: Authorization { key: new.keypair.public_key(), signature } })
}

fn finish(context: &Context, name: &str, next: &str) -> Result<()> {
    let before = format!("{name}-before");
    let record = context.keystore.replace(name, next, &before)?;
    context.output.note(format!(
        "`{name}` signs with its new key. Restart what runs with it, for example a provider. The key of \
         before is `{before}`; remove it when the new one has worked: opengpu wallet remove {before}"
    ));
    show(context, &record)
}

/// Only an account that is on chain has a key that can be another one.
fn unknown(old: &KeyRecord) -> Complaint {
    let told = format!("account {} of `{}` is not on chain yet", old.address, old.name);
    let hint = format!(
        "send some oGPU to it first (on a local network: opengpu dev faucet {} 10), or make another \
         key with `opengpu wallet new`",
        old.name
    );
    Complaint::new(Exit::Failed, told).hint(hint)
}

fn elsewhere(old: &KeyRecord, signs: Address) -> Complaint {
    let told = format!("account {} has another key than `{}`: {signs}", old.address, old.name);
    let hint = "`opengpu wallet import --account ADDRESS` stores that key, from its phrase";
    Complaint::new(Exit::Auth, told).hint(hint)
}
