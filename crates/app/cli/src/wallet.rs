//! `opengpu wallet`: keys of accounts.

mod rotate;

use crate::{
    context::{Context, ask_secret},
    dev,
    exit::Complaint,
    output::{facts, table},
    values::Kind,
};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use opengpu_client::{
    Signatory,
    api::{hex_from_text, hex_text},
    wallet::{KeyRecord, read_private},
};
use opengpu_crypto::{KeyKind, Keypair, Mnemonic, MnemonicLength};
use opengpu_types::Address;
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _, Read as _},
    path::PathBuf,
};
use zeroize::Zeroizing;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new key and show its recovery phrase once.
    New(New),
    /// Store a key from a recovery phrase or a secret in hexadecimal.
    Import(Import),
    /// Show all keys.
    List,
    /// Show one key.
    Show {
        /// Name of the key.
        name: String,
    },
    /// Print the secret of a key. Whoever sees it owns the account.
    Export {
        /// Name of the key.
        name: String,
    },
    /// Give an account another key. Everything that it owns, leases and owes stays as it is.
    Rotate(rotate::Rotate),
    /// Delete a key. Without its recovery phrase its tokens are lost.
    Remove {
        /// Name of the key.
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the key.
    name: String,
    #[command(flatten)]
    making: Making,
}

/// How a key is made.
#[derive(Debug, Args)]
struct Making {
    /// Kind of the key.
    #[arg(long, default_value = "ed25519")]
    kind: Kind,
    /// Length of the recovery phrase.
    #[arg(long, default_value = "24")]
    words: Words,
    /// Print the recovery phrase even if stderr is no terminal.
    #[arg(long)]
    show_phrase: bool,
    /// Store the key without protection.
    #[arg(long)]
    no_passphrase: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Words {
    #[value(name = "12")]
    Twelve,
    #[value(name = "24")]
    TwentyFour,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Name of the key.
    name: String,
    /// Kind of the key; the phrase of an Ethereum wallet gives secp256k1 keys.
    #[arg(long)]
    kind: Kind,
    /// File with the phrase or the secret; otherwise it is read from stdin, or asked for.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Which key of the phrase.
    #[arg(long, default_value = "0")]
    index: u32,
    /// The account that was given this key by `wallet rotate` [default: the key's own].
    #[arg(long, value_name = "ADDRESS")]
    account: Option<Address>,
    /// Store the key without protection.
    #[arg(long)]
    no_passphrase: bool,
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::New(arguments) => new(context, &arguments),
        Command::Import(arguments) => import(context, &arguments),
        Command::List => list(context),
        Command::Show { name } => {
            let record = context.keystore.record(&name)?;
            show(context, &record)
        }
        Command::Export { name } => export(context, &name),
        Command::Rotate(arguments) => rotate::run(context, &arguments),
        Command::Remove { name } => remove(context, &name),
    }
}

impl Making {
    /// A new key and its phrase, if that will be seen.
    fn keypair(&self) -> Result<(Keypair, Mnemonic)> {
        let length = match self.words {
            Words::Twelve => MnemonicLength::Words12,
            Words::TwentyFour => MnemonicLength::Words24,
        };
        if !self.show_phrase && !io::stderr().is_terminal() {
            let complaint =
                Complaint::usage("the recovery phrase would be lost: stderr is no terminal");
            return Err(complaint.hint("add --show-phrase to print it anyway").into());
        }
        let phrase = Mnemonic::generate(&mut rand::rng(), length);
        Ok((derive(&phrase, self.kind.into(), 0)?, phrase))
    }
}

/// Shows a phrase, once.
fn tell(context: &Context, phrase: &Mnemonic) {
    context.output.note("Recovery phrase. Write it down; it is not shown again:\n");
    context.output.note(format!("  {}\n", phrase.phrase().as_str()));
}

fn new(context: &Context, arguments: &New) -> Result<()> {
    let New { name, making } = arguments;
    let (keypair, phrase) = making.keypair()?;
    // Checked before the owner is asked for a passphrase.
    context.keystore.path(name)?;
    let passphrase = context.new_passphrase(making.no_passphrase)?;
    let record = context.keystore.store(&mut rand::rng(), name, &keypair.into(), &passphrase)?;
    tell(context, &phrase);
    show(context, &record)
}

fn import(context: &Context, arguments: &Import) -> Result<()> {
    context.keystore.path(&arguments.name)?;
    let secret = secret(arguments.file.as_ref())?;
    let keypair = parse(secret.trim(), arguments.kind.into(), arguments.index)?;
    let passphrase = context.new_passphrase(arguments.no_passphrase)?;
    let account = arguments.account.unwrap_or_else(|| keypair.address());
    let signatory = Signatory { account, keypair };
    let mut rng = rand::rng();
    let record = context.keystore.store(&mut rng, &arguments.name, &signatory, &passphrase)?;
    show(context, &record)
}

fn secret(file: Option<&PathBuf>) -> Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    if let Some(path) = file {
        let bytes = Zeroizing::new(read_private(path)?);
        text.push_str(&String::from_utf8_lossy(&bytes));
    } else if io::stdin().is_terminal() {
        text.push_str(ask_secret("Recovery phrase or secret: ")?.as_str());
    } else {
        io::stdin().lock().take(4_096).read_to_string(&mut text)?;
    }
    Ok(text)
}

fn parse(text: &str, kind: KeyKind, index: u32) -> Result<Keypair> {
    if text.contains(char::is_whitespace) {
        let phrase = text.parse().map_err(|error| Complaint::usage(format!("{error}")))?;
        return derive(&phrase, kind, index);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let wrong = || Complaint::usage("neither a recovery phrase nor 64 hexadecimal digits");
    let bytes = Zeroizing::new(hex_from_text(&format!("0x{digits}")).map_err(|_| wrong())?);
    let secret = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| wrong())?;
    Ok(Keypair::from_secret(kind, secret)?)
}

fn derive(phrase: &Mnemonic, kind: KeyKind, index: u32) -> Result<Keypair> {
    Ok(match kind {
        KeyKind::Ed25519 => phrase.ed25519("", index)?,
        KeyKind::Secp256k1 => phrase.secp256k1("", index)?,
    })
}

fn json_of(record: &KeyRecord) -> Value {
    json!({
        "name": record.name,
        "address": record.address.to_string(),
        "key": record.key.to_string(),
        "kind": record.kind.to_string(),
    })
}

fn show(context: &Context, record: &KeyRecord) -> Result<()> {
    context.output.show(&json_of(record), |_| {
        facts([
            ("name", record.name.clone()),
            ("address", record.address.to_string()),
            ("key", record.key.to_string()),
            ("kind", record.kind.to_string()),
        ])
    })
}

fn list(context: &Context) -> Result<()> {
    let records = context.keystore.list()?;
    let json: Vec<_> = records.iter().map(json_of).collect();
    if records.is_empty() {
        let home = context.home.display();
        let local = dev::keys_hint(&context.home).map(|local| format!("; {local}"));
        context.output.note(format!(
            "There are no keys in {home} yet; `opengpu wallet new NAME` makes one{}.",
            local.unwrap_or_default()
        ));
    }
    context.output.show(&json, |_| {
        let rows = records.iter();
        table(
            ["name", "address", "kind"],
            rows.map(|it| [it.name.clone(), it.address.to_string(), it.kind.to_string()]),
        )
    })
}

fn export(context: &Context, name: &str) -> Result<()> {
    context.keystore.record(name)?;
    context.confirm(&format!("Print the secret of `{name}`? Whoever sees it owns the account."))?;
    let Signatory { keypair, .. } = context.unlock(name)?;
    let secret = Zeroizing::new(hex_text(keypair.secret_bytes().as_slice()));
    let kind = keypair.public_key().kind().to_string();
    let json = json!({ "name": name, "kind": kind, "secret": secret.as_str() });
    context.output.show(&json, |_| secret.to_string())
}

fn remove(context: &Context, name: &str) -> Result<()> {
    let record = context.keystore.record(name)?;
    context.confirm(&format!(
        "Delete the key `{name}` of {}? Without its recovery phrase its tokens are lost.",
        record.address
    ))?;
    context.keystore.remove(name)?;
    context.output.note(format!("Deleted `{name}`."));
    Ok(())
}
