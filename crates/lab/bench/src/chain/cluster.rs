//! Four validators as processes of the released binary, on a network of their own.
//!
//! The network has the parameters of a real one: many seats, epochs of an idle hour, weeks of
//! unbonding. What differs is who owns tokens: the accounts that pay those that send
//! ([`super::fund`]).

use super::{accounts::NODES, fund};
use crate::{
    error::BenchError,
    machine,
    process::{Process, Usage},
    tell,
};
use opengpu_client::{
    Keystore, Passphrase, Rpc,
    devnet::{self, DevNetwork, Plan},
    genesis_file,
    wallet::create_folder,
};
use opengpu_crypto::KeystoreCost;
use opengpu_types::{Allocation, ChainId, List, Millis, Parameters};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

const DAY: u64 = 24 * 60 * 60 * 1_000;
/// How long the network may take to begin.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A running network.
#[derive(Debug)]
pub(super) struct Cluster {
    chain: ChainId,
    nodes: Vec<Node>,
    nonces: PathBuf,
}

#[derive(Debug)]
struct Node {
    process: Process,
    rpc: SocketAddr,
    folder: PathBuf,
}

impl Cluster {
    /// Makes a network and waits until it answers.
    pub(super) fn start(opengpu: &Path, folder: &Path, accounts: u32) -> Result<Self, BenchError> {
        create_folder(folder)?;
        let first_port = free_ports()?;
        let validators = u16::try_from(NODES).unwrap_or(u16::MAX);
        let time = Millis(machine::now() / 1_000);
        let plan = Plan { first_port, ..Plan::new(validators, time) };
        let mut rng = StdRng::seed_from_u64(machine::now());
        let mut network = DevNetwork::generate(&mut rng, &plan)?;
        network.genesis.parameters = parameters(validators);
        let mut allocations = network.genesis.allocations.into_vec();
        allocations.extend(fund::funders(accounts).map(|(funder, amount)| Allocation {
            account: funder.address(),
            amount,
            vesting: None,
        }));
        network.genesis.allocations =
            List::new(allocations).map_err(|_| BenchError::Nothing("too many accounts"))?;
        let genesis = genesis_file::write(&network.genesis);

        let home = folder.join("home");
        let keystore = Keystore::new(&home).with_cost(KeystoreCost::new(8, 1, 1)?);
        let mut nodes = Vec::new();
        for (index, validator) in network.validators.iter().enumerate() {
            let wallet = format!("validator-{index}");
            let operator = validator.operator.clone().into();
            keystore.store(&mut rng, &wallet, &operator, &Passphrase::default())?;
            let path = folder.join(format!("node-{index}"));
            create_folder(&path)?;
            let port = validator.host.0.port().saturating_add(validators);
            let rpc = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
            let settings = format!("listen = \"{}\"\nrpc = \"{rpc}\"\n", validator.host.0);
            for (name, text) in [("genesis.json", &genesis), ("node.toml", &settings)] {
                let writing = BenchError::system(format!("writing {name}"));
                fs::write(path.join(name), text).map_err(writing)?;
            }
            validator.keys.write(&path.join("node.key"))?;
            let mut command = Command::new(opengpu);
            command.args(["node", "run", "--operator", &wallet, "--data"]).arg(&path);
            command.arg("--home").arg(&home);
            let log = path.join("node.log");
            let process = Process::start(format!("node {index}"), &mut command, &log)?;
            nodes.push(Node { process, rpc, folder: path });
        }
        let mut cluster =
            Self { chain: network.genesis.chain, nodes, nonces: folder.join("nonces") };
        cluster.wait()?;
        let nonces = fund::fund(&cluster.urls(), accounts)?;
        let lines: String = nonces.iter().map(|nonce| format!("{nonce}\n")).collect();
        fs::write(&cluster.nonces, lines).map_err(BenchError::system("writing nonces"))?;
        Ok(cluster)
    }

    /// Until every node answers for a chain that has begun.
    fn wait(&mut self) -> Result<(), BenchError> {
        let begin = Instant::now();
        for rpc in self.urls().iter().map(|url| Rpc::new(url)) {
            while !rpc.status().is_ok_and(|status| status.height.0 > 1) {
                self.check()?;
                if begin.elapsed() > PATIENCE {
                    let (what, seconds) = ("starting the network", PATIENCE.as_secs());
                    return Err(BenchError::Slow { what, seconds });
                }
                thread::sleep(LOOK_EVERY);
            }
        }
        tell(format!("the network runs after {:.1} s", begin.elapsed().as_secs_f64()));
        Ok(())
    }

    /// An error if a node has ended.
    pub(super) fn check(&mut self) -> Result<(), BenchError> {
        self.nodes.iter_mut().try_for_each(|node| node.process.check())
    }

    pub(super) const fn chain(&self) -> ChainId {
        self.chain
    }

    /// A file with the first nonce of each account, line by line.
    pub(super) fn nonces(&self) -> &Path {
        &self.nonces
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("http://{}", node.rpc)).collect()
    }

    /// What each node used so far.
    pub(super) fn usage(&self) -> Vec<Usage> {
        self.nodes.iter().map(|node| node.process.usage()).collect()
    }

    /// Bytes on disk of the largest folder.
    pub(super) fn disk(&self) -> u64 {
        self.nodes.iter().map(|node| folder_size(&node.folder)).max().unwrap_or(0)
    }

    pub(super) fn stop(&mut self) {
        self.nodes.clear();
    }
}

fn folder_size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => folder_size(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Those of a local network, but with the spans of a real one.
fn parameters(validators: u16) -> Parameters {
    Parameters {
        epoch_blocks: 3_600,
        seats: 32,
        evidence_epochs: 400,
        unbonding: Millis(14 * DAY),
        jail: Millis(DAY),
        ..devnet::parameters(validators)
    }
}

/// The first of eight ports in a row on which nobody listens.
fn free_ports() -> Result<u16, BenchError> {
    let mut rng = rand::rng();
    for _ in 0..100 {
        let first: u16 = rng.random_range(20_000..30_000);
        let free = (first..first.saturating_add(8))
            .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
        if free {
            return Ok(first);
        }
    }
    Err(BenchError::Nothing("no free ports"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_ledger::check_genesis;

    #[test]
    fn the_parameters_can_begin_a_network() {
        let plan = Plan::new(4, Millis(1_700_000_000_000));
        let mut network = DevNetwork::generate(&mut StdRng::seed_from_u64(1), &plan).unwrap();
        network.genesis.parameters = parameters(4);
        assert_eq!(check_genesis(&network.genesis), Ok(()));
    }
}
