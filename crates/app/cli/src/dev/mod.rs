//! `opengpu dev`: a network of real processes on this machine.
//!
//! Every node is this same binary running `node run` on its own folder, and so are the relay and the
//! providers. The network differs from a real one by the parameters in its genesis alone.
//!
//! ```text
//!   create or open the folder ─► start nodes and relay ─► wait until all answer ─► start providers
//!     ─► print ─┬─► tour ─┐
//!               └─────────┴─► wait
//!   Ctrl-C, a dead process, or the end of the tour with --exit ─► stop every process by its own id
//! ```

mod network;
mod processes;
mod providers;
mod tour;

use crate::{
    context::Context,
    exit::{Complaint, Exit},
    output::{facts, table},
};
use anyhow::Result;
use clap::{Args, Subcommand};
use network::{Network, Ports};
use opengpu_client::{Rpc, devnet, rpc::DEFAULT_URL, send};
use opengpu_types::{Amount, Operation};
use processes::{Processes, Stop};
use providers::DevProvider;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long a node may take to answer after its start.
const START_PATIENCE: Duration = Duration::from_secs(90);
/// How long a transaction may take here.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the RPC of the first node is, unless another port is named.
const FIRST_RPC: u16 = 26_600;
/// Where the first node listens for others, unless another port is named.
const FIRST_PORT: u16 = 26_700;
/// The relay is so far from the RPC of the first node, unless a port is named.
const RELAY_AFTER: u16 = 200;
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Command {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    start: Start,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Send tokens from the faucet of the running network.
    Faucet {
        /// Receiver: an address, or the name of a key.
        address: String,
        /// How many oGPU.
        amount: Amount,
        /// Folder of the network [default: the home folder if it is one, else dev in it].
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct Start {
    /// Validators of a new network.
    #[arg(long, value_name = "COUNT", default_value = "4",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(devnet::MAX_VALIDATORS)))]
    validators: u16,
    /// Folder of the network [default: the home folder if it is one, else dev in it].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Throw the old network away and begin a new one.
    #[arg(long)]
    fresh: bool,
    /// RPC port of the first node of a new network; the others follow [default: 26600].
    #[arg(long, value_name = "PORT")]
    first_rpc: Option<u16>,
    /// Port on which the first node of a new network listens for others; the others follow [default: 26700].
    #[arg(long, value_name = "PORT")]
    first_port: Option<u16>,
    /// Port of the relay of a new network [default: 200 after that of the first RPC: 26800].
    #[arg(long, value_name = "PORT")]
    relay_port: Option<u16>,
    /// Providers to run, each with its own wallet, for little money.
    #[arg(long, value_name = "COUNT", default_value = "0",
          value_parser = clap::value_parser!(u8).range(0..=i64::from(providers::MOST)))]
    providers: u8,
    /// Walk through the network step by step.
    #[arg(long)]
    tour: bool,
    /// Another build of this binary, which does not do what it says: on the tour it is one of the providers.
    #[arg(long, value_name = "FILE", requires = "tour", hide = true)]
    liar: Option<PathBuf>,
    /// Stop everything at the end of the tour, or as soon as the network runs.
    #[arg(long)]
    exit: bool,
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command.action {
        Some(Action::Faucet { address, amount, data }) => faucet(context, data, &address, amount),
        None => start(context, command.start),
    }
}

/// The folder of the network: the named one, the home folder if that is one, or `dev` in it.
fn folder(home: &Path, data: Option<PathBuf>) -> PathBuf {
    let usual = || if network::is_marked(home) { home.to_owned() } else { home.join("dev") };
    data.unwrap_or_else(usual)
}

/// How the keys of the local network in a home folder are named, if there is one.
pub(crate) fn keys_hint(home: &Path) -> Option<String> {
    let network = home.join("dev");
    let told = || format!("those of the local network are used with --home {}", network.display());
    network::exists(&network).then(told)
}

fn start(context: &Context, start: Start) -> Result<()> {
    let path = folder(&context.home, start.data);
    let stop = Stop::on_signals()?;
    let mut network = if network::exists(&path) && !start.fresh {
        context.output.note(format!("Starting the network in {} again.", path.display()));
        let network = Network::open(&path)?;
        network.check_given_ports(start.first_port, start.first_rpc, start.relay_port)?;
        network
    } else {
        context.output.note(format!("Making a network in {}.", path.display()));
        let rpc = start.first_rpc.unwrap_or(FIRST_RPC);
        let ports = Ports {
            listen: start.first_port.unwrap_or(FIRST_PORT),
            rpc,
            relay: start.relay_port.unwrap_or(rpc.saturating_add(RELAY_AFTER)),
        };
        // The tour adds one more.
        let nodes = start.validators.saturating_add(u16::from(start.tour));
        ports.check(nodes)?;
        // Before anything is thrown away or written: another network may run there, or the old one.
        ports.check_free(nodes)?;
        if start.fresh {
            if let Ok(old) = Network::open(&path) {
                old.check_ports()?;
            }
            network::discard(&path)?;
        }
        Network::create(&path, start.validators, ports)?
    };
    let mut processes = Processes::default();
    network.check_ports()?;
    for node in network.nodes() {
        processes.start(node, network.path())?;
    }
    network.start_relay(&mut processes)?;
    // From here on every way out stops the nodes: `Processes` does it when it is dropped.
    wait_for_all(&network, &mut processes, &stop)?;
    let providers = providers::start(context, &network, start.providers, &mut processes, &stop)?;
    show(context, &network, &providers)?;
    if start.tour {
        tour::run(context, &mut network, &mut processes, (&stop, start.liar.as_deref()))?;
    }
    if !start.exit {
        context.output.note("Running. Press Ctrl-C to stop; the data stays.");
        stop.wait(&mut processes)?;
    }
    context.output.note("Stopping.");
    processes.stop();
    Ok(())
}

fn wait_for_all(network: &Network, processes: &mut Processes, stop: &Stop) -> Result<()> {
    for node in network.nodes() {
        let rpc = node.client();
        let what = format!("{} to answer", node.name);
        wait_until(&what, START_PATIENCE, processes, stop, || Ok(rpc.is_ready()))?;
    }
    let is_there = || Ok(network.is_relay_there());
    wait_until("the relay to answer", START_PATIENCE, processes, stop, is_there)
}

/// Looks again and again until a condition holds; a signal, a dead process or the end of patience is
/// an error.
fn wait_until(
    what: &str,
    patience: Duration,
    processes: &mut Processes,
    stop: &Stop,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begin = Instant::now();
    while !holds()? {
        processes.check()?;
        if stop.is_requested() {
            return Err(Complaint::new(Exit::Failed, "stopped").into());
        }
        if begin.elapsed() > patience {
            let message = format!("waited {} s for {what}", patience.as_secs());
            return Err(Complaint::new(Exit::Failed, message).into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn show(context: &Context, network: &Network, providers: &[DevProvider]) -> Result<()> {
    let nodes: Vec<_> = network
        .nodes()
        .iter()
        .map(|node| [node.name.clone(), node.url(), node.settings.listen.to_string(), node.log()])
        .collect();
    let providers: Vec<_> = providers
        .iter()
        .map(|it| {
            let data = it.folder.path().display().to_string();
            [it.name.clone(), it.wallet.clone(), data, it.log().display().to_string()]
        })
        .collect();
    let wallets = network.wallets()?;
    let home = network.path().display().to_string();
    let json = json!({
        "chain": network.genesis.chain.0,
        "home": home,
        "relay": network.relay_url(),
        "providers": providers
            .iter()
            .map(|[name, wallet, data, log]| {
                json!({ "name": name, "wallet": wallet, "data": data, "log": log })
            })
            .collect::<Vec<_>>(),
        "nodes": nodes
            .iter()
            .map(|[name, rpc, listen, log]| {
                json!({ "name": name, "rpc": rpc, "listen": listen, "log": log })
            })
            .collect::<Vec<_>>(),
        "wallets": wallets
            .iter()
            .map(|it| json!({ "name": it.name, "address": it.address.to_string() }))
            .collect::<Vec<_>>(),
    });
    context.output.show_line(&json, |_| {
        let head = facts([
            ("chain", network.genesis.chain.to_string()),
            ("home", home.clone()),
            ("relay", network.relay_url()),
        ]);
        let nodes = table(["node", "rpc", "listens", "log"], nodes.clone());
        let rows = wallets.iter().map(|it| [it.name.clone(), it.address.to_string()]);
        let wallets = table(["wallet", "address"], rows);
        let providers = match providers.as_slice() {
            [] => String::new(),
            some => format!("\n\n{}", table(["provider", "wallet", "data", "log"], some.to_vec())),
        };
        format!("\n{head}\n\n{nodes}{providers}\n\n{wallets}\n")
    })?;
    // What goes without saying in the usual place must be said elsewhere.
    let url = network.rpc_url()?;
    let usual = network.path() == folder(&context.home, None);
    let data = if usual { String::new() } else { format!(" --data {home}") };
    let node = if url == DEFAULT_URL { String::new() } else { format!(" --node {url}") };
    context.output.note(format!(
        "Use the wallets with --home {home}{node}; \
         fund others with `opengpu dev faucet ADDRESS AMOUNT{data}`."
    ));
    Ok(())
}

fn faucet(context: &Context, data: Option<PathBuf>, to: &str, amount: Amount) -> Result<()> {
    let path = folder(&context.home, data);
    if !network::exists(&path) {
        let complaint = Complaint::usage(format!("there is no network in {}", path.display()));
        return Err(complaint.hint("`opengpu dev` starts one").into());
    }
    let network = Network::open(&path)?;
    let to = context.address(to)?;
    let info = transfer(&network, &network.rpc()?, devnet::FAUCET, to, amount)?;
    crate::submit::show_info(context, &info)
}

/// Sends tokens of one of the network's wallets.
fn transfer(
    network: &Network,
    rpc: &Rpc,
    from: &str,
    to: opengpu_types::Address,
    amount: Amount,
) -> Result<opengpu_client::api::TransactionInfo> {
    let signatory = network.unlock(from)?;
    Ok(send(rpc, &signatory, vec![Operation::Transfer { to, amount }], PATIENCE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_that_is_a_network_is_the_network() {
        let home = tempfile::tempdir().unwrap();
        let dev = home.path().join("dev");
        assert_eq!(folder(home.path(), None), dev);
        let ports = Ports { listen: 30_000, rpc: 31_000, relay: 32_000 };
        Network::create(&dev, 1, ports).unwrap();
        assert_eq!(folder(home.path(), None), dev);
        assert_eq!(folder(&dev, None), dev);
        assert_eq!(folder(&dev, Some("other".into())), Path::new("other"));
    }
}
