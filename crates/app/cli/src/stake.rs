//! `opengpu stake`: validators and delegation.

use crate::{
    chain,
    context::Context,
    exit::Complaint,
    node::{Folder, KEY_FILE},
    output::facts,
    submit::{Sending, send},
    values::percent,
};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use commonware_codec::DecodeExt as _;
use opengpu_client::{Facts, NodeKeys, api::hex_from_text};
use opengpu_types::{
    Amount, Boxed, Epoch, Evidence, NetworkAddress, Operation, Permille, UnbondingId,
};
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Become a validator with the keys of a node.
    Register(Register),
    /// Add stake to a validator.
    Delegate(Moving),
    /// Take stake back; it can be withdrawn after the unbonding time.
    Undelegate(Moving),
    /// Take out stake that has finished unbonding; redelegated stake goes to its validator.
    Withdraw {
        /// Number of the unbonding entry, as `undelegate` showed it.
        #[arg(long, value_name = "NUMBER")]
        id: u64,
        #[command(flatten)]
        sending: Sending,
    },
    /// Move stake from one validator to another, by way of `withdraw`.
    Redelegate {
        /// Validator that loses it: an address, or the name of a key.
        #[arg(long)]
        validator: String,
        /// Validator that gets it.
        #[arg(long, value_name = "VALIDATOR")]
        to: String,
        /// How many oGPU.
        #[arg(long)]
        amount: Amount,
        #[command(flatten)]
        sending: Sending,
    },
    /// Pay out rewards.
    Claim {
        /// The validator: an address, or the name of a key.
        #[arg(long)]
        validator: String,
        #[command(flatten)]
        sending: Sending,
    },
    /// Change address and commission of your validator.
    Edit {
        /// Where its node listens.
        #[arg(long, value_name = "IP:PORT")]
        host: NetworkAddress,
        /// Its part of the delegators' rewards, such as 5%.
        #[arg(long, value_parser = percent)]
        commission: Permille,
        #[command(flatten)]
        sending: Sending,
    },
    /// Give your validator the keys of another node.
    Rotate {
        /// Folder of the node that has the new keys.
        #[arg(long, value_name = "FOLDER")]
        data: PathBuf,
        #[command(flatten)]
        sending: Sending,
    },
    /// Return to elections after the jail time.
    Unjail {
        #[command(flatten)]
        sending: Sending,
    },
    /// Stop validating; your stake unbonds.
    Retire {
        #[command(flatten)]
        sending: Sending,
    },
    /// Confirm that your validator is ready for a seat, free of fees.
    Confirm {
        /// Epoch of the seat.
        #[arg(long)]
        epoch: u64,
        #[command(flatten)]
        sending: Sending,
    },
    /// Report two conflicting votes.
    Report {
        /// File with the evidence: canonical bytes, plain or in hexadecimal.
        #[arg(long, value_name = "FILE")]
        evidence: PathBuf,
        #[command(flatten)]
        sending: Sending,
    },
    /// Show all validators.
    Validators,
    /// Show a delegation and its rewards.
    Show {
        /// The validator: an address, or the name of a key.
        #[arg(long)]
        validator: String,
        /// The delegator: an address, or the name of a key [default: the configured key].
        #[arg(long)]
        delegator: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Register {
    /// Folder of the node, made by `opengpu node init`.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// Where the node listens, as others reach it.
    #[arg(long, value_name = "IP:PORT")]
    host: NetworkAddress,
    /// Your own stake in oGPU.
    #[arg(long, value_name = "AMOUNT")]
    stake: Amount,
    /// Your part of the delegators' rewards, such as 5%.
    #[arg(long, value_parser = percent)]
    commission: Permille,
    #[command(flatten)]
    sending: Sending,
}

#[derive(Debug, Args)]
pub(crate) struct Moving {
    /// The validator: an address, or the name of a key.
    #[arg(long)]
    validator: String,
    /// How many oGPU.
    #[arg(long)]
    amount: Amount,
    #[command(flatten)]
    sending: Sending,
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    let act = |sending: &Sending, operation| {
        send(context, sending, &Facts::ask(&context.rpc)?, vec![operation])
    };
    match command {
        Command::Register(arguments) => register(context, &arguments),
        Command::Delegate(Moving { validator, amount, sending }) => {
            let validator = context.address(&validator)?;
            act(&sending, Operation::Delegate { validator, amount })
        }
        Command::Undelegate(Moving { validator, amount, sending }) => {
            let validator = context.address(&validator)?;
            act(&sending, Operation::Undelegate { validator, amount })
        }
        Command::Withdraw { id, sending } => {
            act(&sending, Operation::Withdraw { id: UnbondingId(id) })
        }
        Command::Redelegate { validator, to, amount, sending } => {
            let (from, to) = (context.address(&validator)?, context.address(&to)?);
            act(&sending, Operation::Redelegate { from, to, amount })
        }
        Command::Claim { validator, sending } => {
            let validator = context.address(&validator)?;
            act(&sending, Operation::ClaimRewards { validator })
        }
        Command::Edit { host, commission, sending } => {
            act(&sending, Operation::EditValidator { host, commission })
        }
        Command::Rotate { data, sending } => {
            let facts = Facts::ask(&context.rpc)?;
            let keys = NodeKeys::read(&data.join(KEY_FILE))?;
            let keys = keys.registration(facts.chain, &sending.sender(context)?);
            send(context, &sending, &facts, vec![Operation::RotateKeys { keys }])
        }
        Command::Unjail { sending } => act(&sending, Operation::Unjail),
        Command::Retire { sending } => act(&sending, Operation::Retire),
        Command::Confirm { epoch, sending } => {
            act(&sending.free_of_fees(), Operation::ConfirmSeat { epoch: Epoch(epoch) })
        }
        Command::Report { evidence, sending } => {
            let evidence = Boxed::new(read_evidence(&evidence)?);
            act(&sending, Operation::ReportEvidence { evidence })
        }
        Command::Validators => chain::validators(context),
        Command::Show { validator, delegator } => show(context, &validator, delegator.as_deref()),
    }
}

fn register(context: &Context, arguments: &Register) -> Result<()> {
    let keys = NodeKeys::read(&arguments.data.join(KEY_FILE))?;
    let facts = Facts::ask(&context.rpc)?;
    let own = Folder::new(&arguments.data).genesis()?.chain;
    if own != facts.chain {
        let told = format!("the node belongs to chain {own}, and this is chain {}", facts.chain);
        let hint = "name a node of the other network with --node, or another folder with --data";
        return Err(Complaint::usage(told).hint(hint).into());
    }
    let operation = Operation::RegisterValidator {
        keys: keys.registration(facts.chain, &arguments.sending.sender(context)?),
        host: arguments.host,
        commission: arguments.commission,
        stake: arguments.stake,
    };
    send(context, &arguments.sending, &facts, vec![operation])
}

fn read_evidence(path: &Path) -> Result<Evidence> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let text = std::str::from_utf8(&bytes).ok().map(str::trim);
    let bytes = match text.and_then(|text| hex_from_text(text).ok()) {
        Some(decoded) => decoded,
        None => bytes,
    };
    Evidence::decode(bytes).with_context(|| format!("{} is no evidence", path.display()))
}

fn show(context: &Context, validator: &str, delegator: Option<&str>) -> Result<()> {
    let delegator = context.wallet_name(delegator)?;
    let (delegator, validator) = (context.address(&delegator)?, context.address(validator)?);
    let info = context.rpc.delegation(delegator, validator)?;
    context.output.show(&info, |info| {
        facts([
            ("delegator", info.delegator.to_string()),
            ("validator", info.validator.to_string()),
            ("stake", format!("{} oGPU", info.stake)),
            ("rewards", format!("{} oGPU", info.rewards)),
            ("reserve", format!("{} oGPU", info.reserve)),
        ])
    })
}
