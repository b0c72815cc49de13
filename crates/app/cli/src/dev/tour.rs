//! A walk through the network: balances, a transfer, stake, a new validator that takes a seat, a
//! receipt that is checked without the network, the market (providers, a picture, a training), and audits:
//! an honest provider, and one that lies if there is a build that does.

mod audits;
mod market;

use super::{
    PATIENCE,
    network::Network,
    processes::{Processes, Stop},
    transfer, wait_until,
};
use crate::{context::Context, verify};
use anyhow::{Context as _, Result};
use opengpu_client::{
    Rpc, Signatory,
    api::{Role, TransactionInfo, hex_text},
    devnet, send,
};
use opengpu_crypto::Keypair;
use opengpu_types::{Address, Amount, ConsensusKey, Epoch, NetworkAddress, Operation, Permille};
use serde_json::json;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Two epochs and a bit, at the pace at which this tour fills blocks on a slow machine.
const SEAT_PATIENCE: Duration = Duration::from_secs(240);
const RECEIPT: &str = "receipt.bin";

struct Tour<'a> {
    context: &'a Context,
    network: &'a mut Network,
    processes: &'a mut Processes,
    stop: &'a Stop,
    /// A build that lies, if there is one.
    liar: Option<&'a Path>,
    rpc: Rpc,
}

pub(super) fn run(
    context: &Context,
    network: &mut Network,
    processes: &mut Processes,
    (stop, liar): (&Stop, Option<&Path>),
) -> Result<()> {
    let rpc = network.rpc()?;
    let mut tour = Tour { context, network, processes, stop, liar, rpc };
    tour.balances()?;
    let sent = tour.payment()?;
    tour.delegation()?;
    tour.new_validator()?;
    tour.receipt(&sent)?;
    tour.market()?;
    tour.audits()?;
    tour.tell(13, "Done", "The network has done what it promises.")
}

impl Tour<'_> {
    fn tell(&self, step: u8, title: &str, text: &str) -> Result<()> {
        let json = json!({ "step": step, "title": title, "text": text });
        self.context.output.show_line(&json, |_| {
            let text = text.replace('\n', "\n   ");
            format!("{step}. {title}\n   {text}\n")
        })
    }

    fn address(&self, name: &str) -> Result<Address> {
        let wallets = self.network.wallets()?;
        let found = wallets.iter().find(|it| it.name == name);
        Ok(found.with_context(|| format!("there is no wallet {name}"))?.address)
    }

    fn balance(&self, name: &str) -> Result<Amount> {
        Ok(self.rpc.account(self.address(name)?)?.balance)
    }

    fn balances(&self) -> Result<()> {
        let mut lines = Vec::new();
        for name in [devnet::FAUCET].into_iter().chain(devnet::USERS) {
            lines.push(format!("{name} has {} oGPU", self.balance(name)?));
        }
        self.tell(1, "Balances", &lines.join("\n"))
    }

    fn payment(&self) -> Result<TransactionInfo> {
        let [from, to] = devnet::USERS;
        let begin = Instant::now();
        let amount = "12.5".parse()?;
        let info = transfer(self.network, &self.rpc, from, self.address(to)?, amount)?;
        let (height, fee) = (info.height.unwrap_or_default(), info.fee.unwrap_or_default());
        let text = format!(
            "{from} sent {amount} oGPU to {to}: final in block {height} after {} ms, fee {fee}\n\
             {to} has {} oGPU now",
            begin.elapsed().as_millis(),
            self.balance(to)?
        );
        self.tell(2, "A transfer", &text)?;
        Ok(info)
    }

    fn delegation(&self) -> Result<()> {
        let [from, _] = devnet::USERS;
        let list = self.rpc.validators()?;
        let validator = list.validators.first().context("there is no validator")?.address;
        let delegator = self.network.unlock(from)?;
        let amount = Amount::whole(1_000);
        let operation = Operation::Delegate { validator, amount };
        send(&self.rpc, &delegator, vec![operation], PATIENCE)?;
        let delegation = self.rpc.delegation(delegator.account, validator)?;
        let text = format!(
            "{from} delegated {amount} oGPU to {validator}\n\
             the delegation is worth {} oGPU; rewards are shared at the end of each epoch",
            delegation.stake
        );
        self.tell(3, "Stake", &text)
    }

    fn new_validator(&mut self) -> Result<()> {
        let operator = Signatory::from(Keypair::generate_ed25519(&mut rand::rng()));
        let (node, keys) = self.network.join(&operator)?;
        node.check_ports()?;
        let stake = Amount::whole(10_000);
        let funds = Amount::whole(11_000);
        transfer(self.network, &self.rpc, devnet::FAUCET, operator.account, funds)?;
        let registration = Operation::RegisterValidator {
            keys: keys.registration(self.network.genesis.chain, &operator.account),
            host: NetworkAddress(node.settings.listen),
            commission: Permille::new(50).context("5% is a part")?,
            stake,
        };
        let registered = send(&self.rpc, &operator, vec![registration], PATIENCE)?;
        self.processes.start(&node, self.network.path())?;
        let text = format!(
            "{} registered with {stake} oGPU in block {}, its node runs at {}\n\
             seats are elected two epochs ahead; filling blocks until then ...",
            node.wallet,
            registered.height.unwrap_or_default(),
            node.url()
        );
        self.tell(4, "A new validator", &text)?;

        let key = keys.consensus_key();
        self.fill_blocks_until_seated(key)?;
        let rpc = node.client();
        wait_until("the new node to vote", SEAT_PATIENCE, self.processes, self.stop, || {
            Ok(rpc.status().is_ok_and(|status| status.role == Role::Validator))
        })?;
        let epoch = self.rpc.epoch(None)?;
        let text = format!(
            "epoch {} has {} seats, one of them is {}",
            epoch.epoch,
            epoch.seats.len(),
            hex_text(&key.0)
        );
        self.tell(5, "A new validator takes its seat", &text)
    }

    /// An empty block comes every second, a full one at once: small transfers move the epochs on.
    fn fill_blocks_until_seated(&mut self, key: ConsensusKey) -> Result<()> {
        let [from, to] = devnet::USERS;
        let (to, grain) = (self.address(to)?, "0.001".parse()?);
        let (network, rpc) = (&*self.network, &self.rpc);
        wait_until("a seat", SEAT_PATIENCE, self.processes, self.stop, || {
            let seated = rpc.epoch(None)?.seats.iter().any(|seat| seat.consensus == key);
            if !seated {
                transfer(network, rpc, from, to, grain)?;
            }
            Ok(seated)
        })
    }

    fn receipt(&self, sent: &TransactionInfo) -> Result<()> {
        let bytes = self.rpc.receipt(sent.id, Epoch(0))?;
        let path = self.network.path().join(RECEIPT);
        std::fs::write(&path, &bytes).with_context(|| format!("writing {}", path.display()))?;
        let trust = verify::trust(&self.network.genesis)?;
        let checked = verify::receipt(&bytes, trust.clone())?;
        let mut damaged = bytes;
        if let Some(byte) = damaged.last_mut() {
            *byte ^= 1;
        }
        let refused = verify::receipt(&damaged, trust);
        let refused = refused.err().context("a damaged receipt was not refused")?;
        let text = format!(
            "the receipt of the transfer in {} is true: block {}, fee {} oGPU\n\
             with one flipped bit it is refused: {refused:#}",
            path.display(),
            checked.height,
            checked.fee
        );
        self.tell(6, "A receipt, checked offline against the genesis", &text)
    }
}
