//! `opengpu chain`: reading the chain.

use crate::{
    checkpoint::{self, Beginning},
    context::Context,
    output::{date, facts, lines, percent, span, table},
    submit::show_info,
    values::{state_key, transaction_id},
    verify::{self, Statement},
};
use anyhow::{Context as _, Result};
use clap::Subcommand;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_client::{
    api::{ParametersInfo, Role, TransactionInfo, ValidatorInfo, ValidatorState, form, hex_text},
    follow::Blocks,
};
use opengpu_light::Trust;
use opengpu_types::{Entry, Epoch, Height, Key, TransactionId, TrialParameters};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the node and its chain.
    Status,
    /// Show a final block.
    Block {
        /// Its height [default: the newest].
        height: Option<u64>,
    },
    /// Print final blocks as they come.
    Watch {
        /// Begin behind this height [default: now].
        #[arg(long, value_name = "HEIGHT")]
        after: Option<u64>,
        /// Stop after this many blocks.
        #[arg(long, value_name = "COUNT")]
        count: Option<usize>,
    },
    /// Show an account.
    Account {
        /// An address, or the name of a key.
        account: String,
    },
    /// Show all validators.
    Validators,
    /// Show the seats of an epoch.
    Epoch {
        /// Which epoch [default: the running one].
        epoch: Option<u64>,
    },
    /// Show the network's parameters.
    Parameters,
    /// Show where every token is.
    Supply,
    /// Export the receipt of a final transaction with its proofs.
    Receipt {
        /// Id of the transaction.
        #[arg(value_parser = transaction_id)]
        id: TransactionId,
        /// Where to write it.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// Begin its proof at a checkpoint instead of the genesis: then it is short.
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
    },
    /// Check an exported receipt or entry offline, against nothing but the genesis or a checkpoint.
    Verify {
        /// What was exported.
        file: PathBuf,
        #[command(flatten)]
        beginning: Beginning,
    },
    /// Follow the chain to the running epoch, check every step, and keep its seats as a checkpoint.
    Checkpoint {
        /// Where to write it.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        beginning: Beginning,
    },
    /// Show an entry of the state.
    State {
        /// Which entry, such as supply, account:0x..., delegation:0x...:0x..., seats:3.
        #[arg(value_parser = state_key)]
        key: Key,
        /// Ask for a proof of the value, or of its absence.
        #[arg(long)]
        proof: bool,
        /// Export it with everything needed to check it offline.
        #[arg(long, value_name = "FILE", conflicts_with = "proof")]
        file: Option<PathBuf>,
        /// Begin the exported proof at a checkpoint instead of the genesis: then it is short.
        #[arg(long, value_name = "FILE", requires = "file")]
        checkpoint: Option<PathBuf>,
    },
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::Status => status(context),
        Command::Block { height } => block(context, height.map(Height)),
        Command::Watch { after, count } => watch(context, after.map(Height), count),
        Command::Account { account } => self::account(context, &account),
        Command::Validators => validators(context),
        Command::Epoch { epoch } => self::epoch(context, epoch.map(Epoch)),
        Command::Parameters => parameters(context),
        Command::Supply => supply(context),
        Command::Receipt { id, file, checkpoint } => {
            let from = checkpoint::epoch_of(checkpoint.as_deref())?;
            write(context, &file, &context.rpc.receipt(id, from)?)
        }
        Command::Verify { file, beginning } => verify(context, &file, beginning.trust()?),
        Command::Checkpoint { file, beginning } => {
            let trust = checkpoint::advance(context, beginning.trust()?)?;
            context.output.note(format!("The seats of epoch {} are true.", trust.seats.epoch));
            write(context, &file, &checkpoint::write(&trust)?)
        }
        Command::State { key, file: Some(file), checkpoint, .. } => {
            let from = checkpoint::epoch_of(checkpoint.as_deref())?;
            write(context, &file, &context.rpc.state_bundle(&key, from)?)
        }
        Command::State { key, proof, .. } => state(context, &key, proof),
    }
}

fn status(context: &Context) -> Result<()> {
    context.output.show(&context.rpc.status()?, |it| {
        let role = match it.role {
            Role::Validator => "validator",
            Role::Follower => "follower",
        };
        facts([
            ("chain", format!("{} ({})", it.name, it.chain)),
            ("genesis", hex_text(it.genesis.as_ref())),
            ("height", it.height.to_string()),
            ("time", date(it.time)),
            ("epoch", it.epoch.to_string()),
            ("node", format!("{} ({role})", hex_text(&it.node.0))),
            ("seats", it.seats.to_string()),
            ("linked nodes", it.connected_nodes.to_string()),
            ("waiting transactions", it.mempool.to_string()),
            ("syncing", if it.syncing { "yes" } else { "no" }.to_owned()),
            ("version", it.version.clone()),
        ])
    })
}

fn block(context: &Context, height: Option<Height>) -> Result<()> {
    context.output.show(&context.rpc.block(height)?, |it| {
        let mut rows = vec![
            ("height", it.height.to_string()),
            ("digest", hex_text(it.digest.as_ref())),
            ("parent", hex_text(it.parent.as_ref())),
            ("time", date(it.time)),
            ("epoch", format!("{}, view {}", it.epoch, it.view)),
            ("leader", hex_text(&it.leader.0)),
            ("state", hex_text(it.state.as_ref())),
        ];
        rows.extend(it.transactions.iter().map(|id| ("transaction", id.to_string())));
        lines(rows)
    })
}

fn watch(context: &Context, after: Option<Height>, count: Option<usize>) -> Result<()> {
    let blocks = Blocks::follow(&context.rpc, after)?;
    for block in blocks.take(count.unwrap_or(usize::MAX)) {
        let block = block?;
        let digest = hex_text(block.digest.as_ref());
        context.output.show_line(&block, |it| {
            let (height, time, count) = (it.height, date(it.time), it.transactions);
            format!("{height}  {time}  {count} transactions  {digest}")
        })?;
    }
    Ok(())
}

fn account(context: &Context, account: &str) -> Result<()> {
    let address = context.address(account)?;
    let info = context.rpc.account(address)?;
    if !info.exists {
        context.output.note("The account does not exist yet; it begins with its first tokens.");
    }
    context.output.show(&info, |it| {
        facts([
            ("address", it.address.to_string()),
            ("balance", format!("{} oGPU", it.balance)),
            ("reserve", format!("{} oGPU", it.reserve)),
            ("next number", it.nonce.to_string()),
            ("entries", it.entries.to_string()),
            ("key", it.key.to_string()),
        ])
    })
}

/// Also `opengpu stake validators`.
pub(crate) fn validators(context: &Context) -> Result<()> {
    let status = |it: &ValidatorInfo| match (it.status, it.jailed_until) {
        (ValidatorState::Active, _) => "active".to_owned(),
        (ValidatorState::Retired, _) => "retired".to_owned(),
        (ValidatorState::Jailed, until) => {
            let until = until.map(|until| format!(" until {}", date(until)));
            let reason = it.jailed_for.map(|why| format!(", {}", form::slash_reason(why)));
            format!("jailed{}{}", until.unwrap_or_default(), reason.unwrap_or_default())
        }
    };
    let seat = |it: &ValidatorInfo| match (it.seat, it.next_seat) {
        (true, true) => "yes",
        (true, false) => "until the end of the epoch",
        (false, true) => "from the next epoch",
        (false, false) => "no",
    };
    context.output.show(&context.rpc.validators()?, |list| {
        table(
            ["validator", "stake", "commission", "status", "seat", "host"],
            list.validators.iter().map(|it| {
                [
                    it.address.to_string(),
                    it.stake.to_string(),
                    percent(it.commission),
                    status(it),
                    seat(it).to_owned(),
                    it.host.to_string(),
                ]
            }),
        )
    })
}

fn epoch(context: &Context, epoch: Option<Epoch>) -> Result<()> {
    let info = context.rpc.epoch(epoch)?;
    let (number, first, last) = (info.epoch, info.first_height, info.last_height);
    context.output.note(format!("Epoch {number}, blocks {first} to {last}"));
    context.output.show(&info, |info| {
        table(
            ["validator", "weight", "host", "key"],
            info.seats.iter().map(|seat| {
                [
                    seat.validator.to_string(),
                    seat.weight.to_string(),
                    seat.host.to_string(),
                    hex_text(&seat.consensus.0),
                ]
            }),
        )
    })
}

/// How devices are tried, in words.
fn trials(trials: &TrialParameters) -> String {
    if !trials.are_on() {
        return "none".to_owned();
    }
    let TrialParameters { period, work, slack, allowance, .. } = trials;
    format!(
        "once in {}, {} of work within {}.{:03} times that and {} more",
        span(*period),
        span(*work),
        slack.div_euclid(1_000),
        slack.rem_euclid(1_000),
        span(*allowance)
    )
}

fn parameters(context: &Context) -> Result<()> {
    context.output.show(&context.rpc.parameters()?, |info| {
        let ParametersInfo { base_fee, parameters: it, .. } = info;
        facts([
            ("base fee", format!("{base_fee} oGPU per weight")),
            ("lowest base fee", format!("{} oGPU per weight", it.minimum_base_fee)),
            ("burned part of the base fee", percent(it.burned_fee)),
            ("block weight", it.block_weight.to_string()),
            ("epoch", format!("{} blocks", it.epoch_blocks)),
            ("seats", it.seats.to_string()),
            ("minimum stake", format!("{} oGPU", it.minimum_stake)),
            ("unbonding", span(it.unbonding)),
            ("evidence", format!("{} epochs", it.evidence_epochs)),
            ("account reserve", format!("{} oGPU", it.account_reserve)),
            ("entry reserve", format!("{} oGPU", it.entry_reserve)),
            ("slash for conflicting votes", percent(it.conflict_slash)),
            ("slash for missed turns", percent(it.missed_slash)),
            ("turns that may be missed", percent(it.missed_limit)),
            ("jail", span(it.jail)),
            ("reporter's share", percent(it.reporter_share)),
            ("emission in the first year", format!("{} oGPU", it.emission.first_year)),
            ("emission kept each year", percent(it.emission.kept)),
            ("stake of a provider", format!("{} oGPU", it.market.provider_stake)),
            ("lease of a newcomer", format!("at most {} oGPU", it.market.newcomer)),
            ("open leases of a provider", format!("{} times its stake", it.market.exposure)),
            ("trust lock of a client", percent(it.market.client_lock)),
            ("trust lock of a provider", percent(it.market.provider_lock)),
            ("pledge of a bid", format!("{} oGPU", it.market.bid_pledge)),
            ("bids are taken", span(it.market.bidding)),
            ("bids are opened", span(it.market.opening)),
            ("silence of a provider", span(it.market.silence)),
            ("time to stop", span(it.market.grace)),
            ("time to object", span(it.market.objection)),
            ("ended tasks are kept", span(it.market.retention)),
            ("a dollar", format!("{} oGPU", it.market.dollar)),
            ("segments of an audit", it.market.audits.segments.to_string()),
            ("trials of devices", trials(&it.market.trials)),
        ])
    })
}

fn supply(context: &Context) -> Result<()> {
    context.output.show(&context.rpc.supply()?, |info| {
        let it = &info.supply;
        facts([
            ("cap", info.cap.to_string()),
            ("minted", it.minted.to_string()),
            ("burned", it.burned.to_string()),
            ("balances", it.balances.to_string()),
            ("reserves", it.reserves.to_string()),
            ("vesting", it.vesting.to_string()),
            ("stake", it.stake.to_string()),
            ("unbonding", it.unbonding.to_string()),
            ("rewards", it.rewards.to_string()),
            ("epoch pool", it.epoch_pool.to_string()),
            ("treasury", it.treasury.to_string()),
            ("budgets of tasks", it.escrow.to_string()),
            ("trust locks", it.locks.to_string()),
        ])
    })
}

fn verify(context: &Context, file: &Path, trust: Trust) -> Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let chain = trust.chain;
    let statement = verify::statement(&bytes, trust)?;
    context.output.note(format!("True: final on chain {chain}."));
    match statement {
        Statement::Receipt(receipt) => {
            let id = receipt.transaction.context("the receipt is of a block itself")?;
            show_info(context, &TransactionInfo::finalized(id, &receipt))
        }
        Statement::State { height, key, entry } => {
            let value = entry.as_ref().map(|entry| hex_text(&entry.encode()));
            let json = json!({
                "height": height.0, "key": hex_text(&key.encode()), "value": value,
            });
            context.output.show(&json, |_| {
                let entry = entry.map_or("no entry".to_owned(), |entry| format!("{entry:#?}"));
                format!("height  {height}\nkey  {key:?}\n{entry}")
            })
        }
    }
}

fn state(context: &Context, key: &Key, proof: bool) -> Result<()> {
    let info = context.rpc.state(key, proof)?;
    let entry = match &info.value {
        Some(bytes) => format!("{:#?}", Entry::decode(bytes.clone())?),
        None => "no entry".to_owned(),
    };
    context.output.show(&info, |info| {
        let proof = info.proof.as_ref().map(|proof| format!("\nproof  {}", hex_text(proof)));
        format!("height  {}\n{entry}{}", info.height, proof.unwrap_or_default())
    })
}

fn write(context: &Context, file: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))?;
    context.output.note(format!("Wrote {} bytes to {}.", bytes.len(), file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_devices_are_tried_is_told_in_words() {
        assert_eq!(trials(&TrialParameters::OFF), "none");
        let told = trials(&TrialParameters::BRIEF);
        assert_eq!(told, "once in 1 min, 8 s of work within 1.250 times that and 3 s more");
    }
}
