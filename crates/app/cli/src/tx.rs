//! `opengpu tx`: transactions of an account.

use crate::{
    context::Context,
    exit::{Complaint, Exit},
    submit::{Sending, Waiting, send, show_info, submit},
    values::{Bytes, Use, bytes, span, transaction_id},
};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use opengpu_client::{
    Draft, Facts, TransactionFile,
    api::{Progress, TransactionInfo},
};
use opengpu_crypto::SignatureKind;
use opengpu_types::{Amount, Millis, Operation, Text, Transaction, TransactionId};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send tokens.
    Transfer {
        /// Receiver: an address, or the name of a key.
        #[arg(long)]
        to: String,
        /// How many oGPU.
        #[arg(long)]
        amount: Amount,
        #[command(flatten)]
        sending: Sending,
    },
    /// Send tokens to several receivers, all or none.
    Batch {
        /// File with one receiver and amount on each line: `0x... 12.5`.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        sending: Sending,
    },
    /// Destroy tokens.
    Burn {
        /// How many oGPU.
        #[arg(long)]
        amount: Amount,
        #[command(flatten)]
        sending: Sending,
    },
    /// Let another key spend from your account within a limit.
    Authorize(Authorize),
    /// End the spending limit of a key.
    Revoke {
        /// The key: an address, or a name.
        #[arg(long)]
        spender: String,
        #[command(flatten)]
        sending: Sending,
    },
    /// Pay out what has vested.
    Release {
        #[command(flatten)]
        sending: Sending,
    },
    /// Close your account and send everything that is left.
    Close {
        /// Receiver: an address, or the name of a key.
        #[arg(long)]
        to: String,
        #[command(flatten)]
        sending: Sending,
    },
    /// Show how far a transaction is.
    Status {
        /// Its id.
        #[arg(value_parser = transaction_id)]
        id: TransactionId,
    },
    /// Add a signature to a file made with --unsigned.
    Sign(Sign),
    /// Send a signed file.
    Submit {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        waiting: Waiting,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Authorize {
    /// The key: an address, or a name.
    #[arg(long)]
    spender: String,
    /// What you call it.
    #[arg(long)]
    name: Text<32>,
    /// Most oGPU that it may spend, fees included.
    #[arg(long)]
    amount: Amount,
    /// What it may do.
    #[arg(long, default_value = "anything")]
    purpose: Use,
    /// How long, such as 30d or 12h.
    #[arg(long = "for", value_name = "SPAN", value_parser = span)]
    time: Millis,
    #[command(flatten)]
    sending: Sending,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Sign {
    /// The file; it is rewritten with the signature.
    file: PathBuf,
    /// Key that signs [default: the configured one].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["typed_data", "wallet_signature"])]
    from: Option<String>,
    /// Print what an Ethereum wallet has to sign (`eth_signTypedData_v4`), and stop.
    #[arg(long, conflicts_with = "wallet_signature")]
    typed_data: bool,
    /// The 65 bytes that the wallet answered.
    #[arg(long, value_name = "HEX", value_parser = bytes)]
    wallet_signature: Option<Bytes>,
    /// How the wallet signed.
    #[arg(long, default_value = "typed-data", requires = "wallet_signature")]
    wallet_form: WalletForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WalletForm {
    /// `eth_signTypedData_v4` (EIP-712).
    TypedData,
    /// `personal_sign` (EIP-191).
    PersonalSign,
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    let act = |sending: &Sending, operations| {
        send(context, sending, &Facts::ask(&context.rpc)?, operations)
    };
    match command {
        Command::Transfer { to, amount, sending } => {
            act(&sending, vec![Operation::Transfer { to: context.address(&to)?, amount }])
        }
        Command::Batch { file, sending } => act(&sending, payments(context, &file)?),
        Command::Burn { amount, sending } => act(&sending, vec![Operation::Burn { amount }]),
        Command::Authorize(arguments) => authorize(context, arguments),
        Command::Revoke { spender, sending } => {
            act(&sending, vec![Operation::Revoke { spender: context.address(&spender)? }])
        }
        Command::Release { sending } => act(&sending, vec![Operation::ReleaseVested]),
        Command::Close { to, sending } => {
            act(&sending, vec![Operation::CloseAccount { to: context.address(&to)? }])
        }
        Command::Status { id } => {
            let info = context.rpc.transaction(id)?;
            show_info(context, &info)?;
            known(&info)
        }
        Command::Sign(arguments) => sign(context, &arguments),
        Command::Submit { file, waiting } => {
            let draft = read(&file)?;
            context.output.note(draft.summary());
            let signed = draft.finish()?;
            context.confirm("Send this?")?;
            submit(context, signed, waiting)
        }
    }
}

/// An error if the node knows nothing of a transaction: a script must not take that for success.
fn known(info: &TransactionInfo) -> Result<()> {
    if info.status != Progress::Unknown {
        return Ok(());
    }
    let complaint = Complaint::new(Exit::Failed, "this node knows no such transaction");
    Err(complaint
        .hint("is it another network's, or so old that this node has forgotten it?")
        .into())
}

fn authorize(context: &Context, arguments: Authorize) -> Result<()> {
    let facts = Facts::ask(&context.rpc)?;
    let operation = Operation::Authorize {
        name: arguments.name,
        spender: context.address(&arguments.spender)?,
        amount: arguments.amount,
        purpose: arguments.purpose.into(),
        until: facts.time.plus(arguments.time),
    };
    send(context, &arguments.sending, &facts, vec![operation])
}

/// Receivers and amounts of a file, one pair on each line; `#` begins a comment.
fn payments(context: &Context, path: &Path) -> Result<Vec<Operation>> {
    let text = std::fs::read_to_string(path).with_context(|| reading(path))?;
    let mut operations = Vec::new();
    for (number, line) in (1_u32..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let complain =
            |why: String| Complaint::usage(format!("{}, line {number}: {why}", path.display()));
        let words: Vec<_> = line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
        let [to, amount] = words.as_slice() else {
            return Err(complain("a receiver and an amount belong here".to_owned()).into());
        };
        let amount = amount.parse().map_err(|error| complain(format!("{error}")))?;
        let to = context.address(to).map_err(|error| complain(format!("{error:#}")))?;
        operations.push(Operation::Transfer { to, amount });
    }
    if operations.len() > Transaction::MAX_OPERATIONS {
        let (count, limit) = (operations.len(), Transaction::MAX_OPERATIONS);
        let complaint = format!("{count} payments; one transaction holds at most {limit}");
        return Err(Complaint::usage(complaint).hint("split the file").into());
    }
    Ok(operations)
}

fn sign(context: &Context, arguments: &Sign) -> Result<()> {
    let mut draft = read(&arguments.file)?;
    if arguments.typed_data {
        return context.output.show(&draft.typed_data(), ToString::to_string);
    }
    context.output.note(draft.summary());
    if let Some(Bytes(signature)) = &arguments.wallet_signature {
        let kind = match arguments.wallet_form {
            WalletForm::TypedData => SignatureKind::Eip712,
            WalletForm::PersonalSign => SignatureKind::Eip191,
        };
        draft.attach_wallet(kind, signature)?;
    } else {
        let name = context.wallet_name(arguments.from.as_deref())?;
        context.keystore.record(&name)?;
        context.confirm("Sign this?")?;
        draft.sign(&context.unlock(&name)?)?;
    }
    std::fs::write(&arguments.file, TransactionFile::write(&draft))
        .with_context(|| format!("writing {}", arguments.file.display()))?;
    let complete = draft.clone().finish().is_ok();
    let json = json!({ "id": draft.id().to_string(), "complete": complete });
    context.output.show(&json, |_| {
        let more = if complete { "complete" } else { "another signature is missing" };
        format!("{}  {more}", draft.id())
    })
}

fn read(path: &Path) -> Result<Draft> {
    let text = std::fs::read_to_string(path).with_context(|| reading(path))?;
    TransactionFile::read(&text).with_context(|| reading(path))
}

fn reading(path: &Path) -> String {
    format!("reading {}", path.display())
}
