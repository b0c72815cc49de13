//! The folder of a local network.
//!
//! ```text
//!   FOLDER/               also a home folder: `--home FOLDER` uses its wallets
//!     .opengpu-dev        says that this folder may be thrown away
//!     keys/               faucet, users and operators, without a passphrase
//!     nodes/0/ ...        one folder for each node, with its log
//!     relay.port          where the relay listens
//!     providers/0/ ...    one folder for each provider, with its log
//!     genesis.json        written last: a folder that has it is complete
//! ```

use super::processes::Processes;
use crate::{
    exit::{Complaint, Exit},
    node::{Folder, Settings, read_genesis},
};
use anyhow::{Context as _, Result};
use opengpu_client::{
    Keystore, NodeKeys, Passphrase, Rpc, Signatory,
    devnet::{DevNetwork, FAUCET, Plan, USERS},
    genesis_file,
    wallet::{KeyRecord, create_folder},
};
use opengpu_crypto::{Keypair, KeystoreCost};
use opengpu_types::{Genesis, Millis, NetworkAddress};
use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const MARK: &str = ".opengpu-dev";
const GENESIS: &str = "genesis.json";
const RELAY: &str = "relay.port";
/// Names of keys: of operators and of providers, with a number.
const OPERATOR: &str = "validator-";
pub(super) const PROVIDER: &str = "provider-";
/// Name of the log in a node's folder.
pub(super) const LOG: &str = "node.log";

/// A node of the network.
#[derive(Clone, Debug)]
pub(super) struct DevNode {
    pub(super) name: String,
    /// Key of its operator's account.
    pub(super) wallet: String,
    pub(super) folder: Folder,
    pub(super) settings: Settings,
}

impl DevNode {
    fn open(folder: Folder, index: usize) -> Result<Self> {
        let settings = folder.settings()?;
        let (name, wallet) = (format!("node {index}"), format!("{OPERATOR}{index}"));
        Ok(Self { name, wallet, folder, settings })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.settings.rpc)
    }

    pub(super) fn client(&self) -> Rpc {
        Rpc::new(&self.url())
    }

    pub(super) fn log(&self) -> String {
        self.folder.path().join(LOG).display().to_string()
    }

    /// Says early, and in words, that another program uses a port.
    pub(super) fn check_ports(&self) -> Result<()> {
        check_port(self.settings.rpc)?;
        check_port(self.settings.listen)
    }
}

fn check_port(address: SocketAddr) -> Result<()> {
    TcpListener::bind(address).map(drop).map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        let hint = "is another `opengpu dev` running? A network on other ports: \
                    --data FOLDER --fresh --first-rpc PORT --first-port PORT --relay-port PORT";
        Complaint::new(Exit::Failed, message).hint(hint).into()
    })
}

/// Ports of a new network: of the first node's RPC, of its links to others, and of the relay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) listen: u16,
    pub(super) rpc: u16,
    pub(super) relay: u16,
}

impl Ports {
    /// Refuses ports of which so many nodes would use one twice.
    pub(super) fn check(&self, nodes: u16) -> Result<()> {
        let Self { listen, rpc, relay } = *self;
        let within = |first: u16| relay.checked_sub(first).is_some_and(|place| place < nodes);
        if listen.abs_diff(rpc) >= nodes && !within(listen) && !within(rpc) {
            return Ok(());
        }
        let told =
            format!("the ports from {rpc} on, from {listen} on, and {relay} of the relay overlap");
        Err(Complaint::usage(told).hint("name ports that are further apart").into())
    }

    /// Says that another program uses one of the ports of so many nodes, before anything is written.
    pub(super) fn check_free(&self, nodes: u16) -> Result<()> {
        for index in 0..usize::from(nodes) {
            check_port(local(self.rpc, index)?)?;
            check_port(local(self.listen, index)?)?;
        }
        check_port(local(self.relay, 0)?)
    }
}

/// A network with its folder.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) genesis: Genesis,
    path: PathBuf,
    nodes: Vec<DevNode>,
    keystore: Keystore,
    relay: SocketAddr,
}

/// Whether a folder holds a complete network.
pub(super) fn exists(path: &Path) -> bool {
    path.join(GENESIS).exists() && path.join(MARK).exists()
}

/// Whether a folder was made for a network, which may not be complete.
pub(super) fn is_marked(path: &Path) -> bool {
    path.join(MARK).exists()
}

/// Deletes a network; a folder that is none is left alone, and so is one with keys that no network made:
/// it may be somebody's home folder.
pub(super) fn discard(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    if !path.join(MARK).exists() {
        let complaint = format!("{} holds no local network, so it is not deleted", path.display());
        return Err(Complaint::usage(complaint).into());
    }
    let keys = keystore(path)?.list()?.into_iter().map(|record| record.name);
    let own: Vec<_> = keys.filter(|name| !is_of_network(name)).collect();
    if !own.is_empty() {
        let own = own.join(", ");
        let complaint =
            format!("{} has keys of yours, so it is not deleted: {own}", path.display());
        let hint = "move their files out of its folder `keys`, or make the network elsewhere: \
                    --data FOLDER";
        return Err(Complaint::usage(complaint).hint(hint).into());
    }
    std::fs::remove_dir_all(path).with_context(|| format!("deleting {}", path.display()))
}

impl Network {
    /// Makes a network: keys, genesis and a folder for each node.
    pub(super) fn create(path: &Path, validators: u16, ports: Ports) -> Result<Self> {
        let empty = match std::fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(_) => true,
        };
        if !empty {
            // An interrupted start leaves the mark but no genesis.
            discard(path)?;
        }
        create_folder(path)?;
        std::fs::write(path.join(MARK), "")?;
        let plan = Plan { first_port: ports.listen, ..Plan::new(validators, now()?) };
        let made = DevNetwork::generate(&mut rand::rng(), &plan)?;
        let mut network = Self {
            genesis: made.genesis,
            path: path.to_owned(),
            nodes: Vec::new(),
            keystore: keystore(path)?,
            relay: local(ports.relay, 0)?,
        };
        for (name, keypair) in &made.wallets {
            network.store(name, &keypair.clone().into())?;
        }
        for validator in &made.validators {
            let rpc = local(ports.rpc, network.nodes.len())?;
            let operator = validator.operator.clone().into();
            network.add(&validator.keys, &operator, validator.host, rpc)?;
        }
        std::fs::write(path.join(RELAY), format!("{}\n", ports.relay))?;
        std::fs::write(path.join(GENESIS), genesis_file::write(&network.genesis))?;
        Ok(network)
    }

    /// Opens a network that exists.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let genesis = read_genesis(&path.join(GENESIS))?;
        let folders = (0..).map(|index: usize| node_folder(path, index));
        let nodes: Vec<_> = folders
            .take_while(Folder::is_taken)
            .enumerate()
            .map(|(index, folder)| DevNode::open(folder, index))
            .collect::<Result<_>>()?;
        let mut network = Self {
            genesis,
            path: path.to_owned(),
            nodes,
            keystore: keystore(path)?,
            relay: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
        };
        let port = match std::fs::read_to_string(path.join(RELAY)) {
            Ok(text) => text.trim().parse().context("the port of the relay")?,
            // Networks had no relay once.
            Err(_) => network.first()?.settings.rpc.port().saturating_add(super::RELAY_AFTER),
        };
        network.relay = local(port, 0)?;
        Ok(network)
    }

    /// Says that it runs, or that other programs use its ports.
    pub(super) fn check_ports(&self) -> Result<()> {
        self.nodes.iter().try_for_each(DevNode::check_ports)?;
        check_port(self.relay)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The ports of a network are chosen when it is made.
    pub(super) fn check_given_ports(
        &self,
        port: Option<u16>,
        rpc: Option<u16>,
        relay: Option<u16>,
    ) -> Result<()> {
        let settings = &self.first()?.settings;
        let chosen = [(port, settings.listen), (rpc, settings.rpc), (relay, self.relay)];
        if chosen.iter().all(|(given, it)| given.is_none_or(|given| given == it.port())) {
            return Ok(());
        }
        let told = format!("the network in {} has other ports already", self.path.display());
        let hint = "choose another folder with --data, or throw this network away with --fresh";
        Err(Complaint::usage(told).hint(hint).into())
    }

    pub(super) fn nodes(&self) -> &[DevNode] {
        &self.nodes
    }

    /// Where the RPC of the first node is.
    pub(super) fn rpc_url(&self) -> Result<String> {
        Ok(self.first()?.url())
    }

    /// RPC of the first node.
    pub(super) fn rpc(&self) -> Result<Rpc> {
        Ok(self.first()?.client())
    }

    /// Where the relay is.
    pub(super) fn relay_url(&self) -> String {
        format!("http://{}", self.relay)
    }

    /// Starts the relay.
    pub(super) fn start_relay(&self, processes: &mut Processes) -> Result<()> {
        let listen = self.relay.to_string();
        let arguments = ["relay", "run", "--listen", &listen, "--until-stdin-ends"];
        let arguments = arguments.map(OsString::from).to_vec();
        processes.run("the relay", self.path.join("relay.log"), arguments)
    }

    /// Whether somebody listens where the relay is.
    pub(super) fn is_relay_there(&self) -> bool {
        TcpStream::connect(self.relay).is_ok()
    }

    fn first(&self) -> Result<&DevNode> {
        self.nodes.first().context("the network has no node")
    }

    /// Adds a node that is not in the genesis, on the ports after the last one's, with a wallet for
    /// its operator.
    pub(super) fn join(&mut self, operator: &Signatory) -> Result<(DevNode, NodeKeys)> {
        let last = self.nodes.last().context("the network has no node")?;
        let after = |address: SocketAddr| local(address.port(), 1);
        let (listen, rpc) = (after(last.settings.listen)?, after(last.settings.rpc)?);
        let keys = NodeKeys::generate(&mut rand::rng());
        let node = self.add(&keys, operator, NetworkAddress(listen), rpc)?;
        Ok((node, keys))
    }

    fn add(
        &mut self,
        keys: &NodeKeys,
        operator: &Signatory,
        host: NetworkAddress,
        rpc: SocketAddr,
    ) -> Result<DevNode> {
        let index = self.nodes.len();
        let folder = node_folder(&self.path, index);
        let listen = host.0;
        let settings = Settings {
            listen,
            rpc,
            rpc_public: false,
            metrics_public: false,
            keep_blocks: None,
            followers: Vec::new(),
        };
        folder.create(keys, &self.genesis, &settings)?;
        let node = DevNode::open(folder, index)?;
        self.store(&node.wallet, operator)?;
        self.nodes.push(node.clone());
        Ok(node)
    }

    pub(super) fn wallets(&self) -> Result<Vec<KeyRecord>> {
        Ok(self.keystore.list()?)
    }

    pub(super) fn unlock(&self, name: &str) -> Result<Signatory> {
        Ok(self.keystore.unlock(name, &Passphrase::default())?)
    }

    /// A wallet by its name; one that is not there is made.
    pub(super) fn wallet_or_new(&self, name: &str) -> Result<Signatory> {
        if !self.wallets()?.iter().any(|wallet| wallet.name == name) {
            self.store(name, &Keypair::generate_ed25519(&mut rand::rng()).into())?;
        }
        self.unlock(name)
    }

    fn store(&self, name: &str, signatory: &Signatory) -> Result<()> {
        self.keystore.store(&mut rand::rng(), name, signatory, &Passphrase::default())?;
        Ok(())
    }
}

/// Whether a network names its keys like this.
fn is_of_network(name: &str) -> bool {
    let numbered = [OPERATOR, PROVIDER].iter().filter_map(|kind| name.strip_prefix(kind));
    let numbered = numbered.into_iter().any(|number| number.parse::<u32>().is_ok());
    numbered || name == FAUCET || USERS.contains(&name)
}

fn node_folder(path: &Path, index: usize) -> Folder {
    Folder::new(path.join("nodes").join(index.to_string()))
}

/// Without a passphrase there is nothing to guess, so a guess may be cheap.
fn keystore(path: &Path) -> Result<Keystore> {
    Ok(Keystore::new(path).with_cost(KeystoreCost::new(8, 1, 1)?))
}

fn local(first: u16, index: usize) -> Result<SocketAddr> {
    let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index));
    let port = port.ok_or_else(|| Complaint::usage("the ports of the nodes end after 65535"))?;
    Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))
}

fn now() -> Result<Millis> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(Millis(u64::try_from(since.as_millis()).context("the clock is far ahead")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { listen: 30_000, rpc: 31_000, relay: 32_000 };

    #[test]
    fn ports_that_two_would_use_are_refused() {
        assert!(PORTS.check(4).is_ok());
        assert!(Ports { rpc: 30_003, ..PORTS }.check(4).is_err());
        assert!(Ports { rpc: 30_003, ..PORTS }.check(3).is_ok());
        assert!(Ports { relay: 30_003, ..PORTS }.check(4).is_err());
        assert!(Ports { relay: 31_000, ..PORTS }.check(1).is_err());
        assert!(Ports { relay: 30_999, ..PORTS }.check(4).is_ok());
    }

    #[test]
    fn a_port_that_is_used_is_found_before_a_network_is_made() {
        let used = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = Ports { relay: used.local_addr().unwrap().port(), ..PORTS };
        let told = taken.check_free(0).unwrap_err().to_string();
        assert!(told.contains("cannot listen on"), "{told}");
        drop(used);
        assert!(taken.check_free(0).is_ok());
    }

    #[test]
    fn a_network_is_opened_as_it_was_made_and_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dev");
        assert!(!exists(&path));
        let mut made = Network::create(&path, 2, PORTS).unwrap();
        assert!(exists(&path));
        let opened = Network::open(&path).unwrap();
        assert_eq!(opened.genesis.digest(), made.genesis.digest());
        assert_eq!(opened.nodes().len(), 2);
        assert_eq!(opened.wallets().unwrap().len(), 5);
        assert!(opened.unlock("faucet").is_ok());
        assert_eq!(opened.relay_url(), "http://127.0.0.1:32000");
        std::fs::remove_file(path.join(RELAY)).unwrap();
        assert_eq!(Network::open(&path).unwrap().relay_url(), "http://127.0.0.1:31200");
        assert!(opened.check_given_ports(None, None, Some(32_000)).is_ok());
        assert!(opened.check_given_ports(None, None, Some(32_001)).is_err());
        let made_once = opened.wallet_or_new("provider-0").unwrap().account;
        assert_eq!(opened.wallet_or_new("provider-0").unwrap().account, made_once);

        let (node, _) = made.join(&Keypair::ed25519([1; 32]).into()).unwrap();
        assert_eq!(node.wallet, "validator-2");
        assert_eq!(node.settings.listen.port(), 30_002);
        assert_eq!(node.url(), "http://127.0.0.1:31002");
        assert_eq!(Network::open(&path).unwrap().nodes().len(), 3);
    }

    #[test]
    fn only_a_network_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
        assert!(discard(folder.path()).is_err());
        assert!(Network::create(folder.path(), 1, PORTS).is_err());
        assert!(folder.path().join("thesis.txt").exists());
        let path = folder.path().join("dev");
        let network = Network::create(&path, 1, PORTS).unwrap();
        network.wallet_or_new("provider-0").unwrap();
        network.wallet_or_new("savings").unwrap();
        let told = discard(&path).unwrap_err().to_string();
        assert!(told.contains("savings") && !told.contains("provider-0"), "{told}");
        // Nor is an interrupted one, in which somebody has made a key.
        std::fs::remove_file(path.join(GENESIS)).unwrap();
        assert!(Network::create(&path, 1, PORTS).is_err());
        keystore(&path).unwrap().remove("savings").unwrap();
        discard(&path).unwrap();
        assert!(!path.exists());
    }
}
