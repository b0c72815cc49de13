//! What every command needs: settings, the node, the keys, the terminal.

use crate::{
    arguments::Global,
    config::Settings,
    dev,
    exit::{Complaint, Exit},
    output::Output,
};
use anyhow::{Context as _, Result};
use opengpu_client::{
    Keystore, Passphrase, Rpc, Signatory, WalletError, rpc::DEFAULT_URL, wallet::create_folder,
};
use opengpu_crypto::KeystoreError;
use opengpu_types::Address;
use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
};

/// Settings, resolved.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) rpc: Rpc,
    pub(crate) keystore: Keystore,
    pub(crate) output: Output,
    pub(crate) home: PathBuf,
    yes: bool,
    wallet: Option<String>,
    passphrase_file: Option<PathBuf>,
}

impl Context {
    /// Flags and variables, then files, then defaults.
    pub(crate) fn new(global: Global) -> Result<Self> {
        let home = match global.home {
            Some(home) => home,
            None => std::env::home_dir()
                .map(|user| user.join(".opengpu"))
                .ok_or_else(|| Complaint::usage("no home folder is known").hint("add --home"))?,
        };
        let settings = Settings::load(&std::env::current_dir()?, &home)?;
        let node = global.node.or(settings.node).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let format = global.output.or(settings.output).unwrap_or_default();
        Ok(Self {
            rpc: Rpc::new(&node),
            keystore: Keystore::new(&home),
            output: Output { format },
            home,
            yes: global.yes,
            wallet: settings.wallet,
            passphrase_file: global.passphrase_file.or(settings.passphrase_file),
        })
    }

    /// Makes the home folder, closed to others: what is kept there is the user's own. One that exists
    /// stays as it is.
    pub(crate) fn make_home(&self) -> Result<()> {
        Ok(create_folder(&self.home)?)
    }

    /// The key that acts: the given one, or the one of the settings.
    pub(crate) fn wallet_name(&self, given: Option<&str>) -> Result<String> {
        given.map(str::to_owned).or_else(|| self.wallet.clone()).ok_or_else(|| {
            let hint = "name one (--from, or --delegator), or set `wallet` in config.toml";
            let local = dev::keys_hint(&self.home).map(|local| format!("; {local}"));
            let hint = format!("{hint}{}", local.unwrap_or_default());
            Complaint::usage("which key acts?").hint(hint).into()
        })
    }

    /// An address, or the address of a key by its name.
    pub(crate) fn address(&self, text: &str) -> Result<Address> {
        if text.starts_with("0x") {
            return text
                .parse()
                .map_err(|error| Complaint::usage(format!("{text}: {error}")).into());
        }
        Ok(self.keystore.record(text)?.address)
    }

    /// Asks once before acting; `--yes` answers, and without a terminal nothing is assumed.
    pub(crate) fn confirm(&self, question: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            let complaint = Complaint::usage("not confirmed, and there is no terminal to ask");
            return Err(complaint.hint("add --yes to act without a question").into());
        }
        let mut stderr = io::stderr();
        write!(stderr, "{question} [y/N] ")?;
        stderr.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Complaint::new(Exit::Failed, "stopped, nothing was done").into()),
        }
    }

    /// Opens a key: with the passphrase file, without a passphrase if it has none, or by asking.
    pub(crate) fn unlock(&self, name: &str) -> Result<Signatory> {
        if let Some(path) = &self.passphrase_file {
            let passphrase = Passphrase::from_file(path)?;
            return self.keystore.unlock(name, &passphrase).with_context(|| unlocking(name));
        }
        match self.keystore.unlock(name, &Passphrase::default()) {
            Err(WalletError::Keystore(KeystoreError::Passphrase)) => {}
            opened => return Ok(opened?),
        }
        let passphrase = ask_secret(&format!("Passphrase of {name}: "))?;
        self.keystore.unlock(name, &passphrase).with_context(|| unlocking(name))
    }

    /// A passphrase for a new key; an empty one only if it was asked for.
    pub(crate) fn new_passphrase(&self, none: bool) -> Result<Passphrase> {
        if none {
            return Ok(Passphrase::default());
        }
        let passphrase = if let Some(path) = &self.passphrase_file {
            Passphrase::from_file(path)?
        } else {
            let first = ask_secret("New passphrase: ")?;
            if ask_secret("The same again: ")?.as_str() != first.as_str() {
                return Err(Complaint::usage("the two passphrases differ").into());
            }
            first
        };
        if passphrase.is_empty() {
            let complaint = Complaint::usage("an empty passphrase protects nothing");
            return Err(complaint.hint("add --no-passphrase if that is meant").into());
        }
        Ok(passphrase)
    }
}

fn unlocking(name: &str) -> String {
    format!("unlocking `{name}`")
}

/// Asks for a secret on the terminal, without showing it.
pub(crate) fn ask_secret(question: &str) -> Result<Passphrase> {
    if !io::stdin().is_terminal() {
        let complaint =
            Complaint::new(Exit::Auth, "a passphrase is needed, and there is no terminal");
        return Err(complaint.hint("name a file with --passphrase-file").into());
    }
    Ok(Passphrase::from(rpassword::prompt_password(question)?))
}
