//! The network of a run: four validators, a relay, providers and the wallets of clients, in one folder,
//! each a process of the product.
//!
//! ```text
//!   FOLDER/home/           wallets of operators and providers
//!          nodes/0/ ...    a node each, with its log
//!          providers/0/ .. a provider each
//!          logs/           everything else that is said
//! ```

mod member;

pub(crate) use member::{Member, Role};

use crate::{
    error::BenchError,
    machine,
    process::{Process, Usage},
    tell,
};
use opengpu_client::{
    Keystore, Passphrase, Rpc,
    devnet::{DevNetwork, DevValidator, Plan},
    genesis_file,
    wallet::create_folder,
};
use opengpu_crypto::{Keypair, KeystoreCost};
use opengpu_types::{Address, Allocation, Amount, List, Millis, Parameters, Permille};
use rand::{RngExt as _, rngs::StdRng};
use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

const VALIDATORS: u16 = 4;
/// Tokens with which providers and clients begin.
const FUNDS: Amount = Amount::whole(1_000);
/// How long something may take at the beginning.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who takes part beside the validators and the relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast<'a> {
    pub(crate) providers: usize,
    /// Stake of each provider.
    pub(crate) stake: Amount,
    /// Accounts that have tokens.
    pub(crate) clients: &'a [Keypair],
}

/// The network.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) opengpu: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) rpcs: Vec<Rpc>,
    pub(crate) nodes: Vec<Member>,
    pub(crate) providers: Vec<Member>,
    /// Accounts of the providers, in their sequence.
    pub(crate) accounts: Vec<Address>,
    pub(crate) relay: Member,
}

impl Scene {
    /// Makes a network; nothing runs yet.
    pub(crate) fn make(
        opengpu: &Path,
        folder: &Path,
        cast: &Cast<'_>,
        rng: &mut StdRng,
    ) -> Result<Self, BenchError> {
        Self::make_with(opengpu, folder, cast, |_| {}, rng)
    }

    /// The same with other parameters.
    pub(crate) fn make_with(
        opengpu: &Path,
        folder: &Path,
        cast: &Cast<'_>,
        change: impl FnOnce(&mut Parameters),
        rng: &mut StdRng,
    ) -> Result<Self, BenchError> {
        let first_port = free_ports(rng)?;
        let time = Millis(machine::now().checked_div(1_000).unwrap_or(0));
        let plan = Plan { first_port, ..Plan::new(VALIDATORS, time) };
        let mut made = DevNetwork::generate(rng, &plan)?;
        // A validator that is killed again and again shall keep its seat.
        made.genesis.parameters.missed_limit = Permille::constant(1_000);
        made.genesis.parameters.epoch_blocks = 20;
        change(&mut made.genesis.parameters);
        let providers: Vec<_> =
            (0..cast.providers).map(|_| Keypair::generate_ed25519(rng)).collect();
        let funded = providers.iter().chain(cast.clients).map(|keypair| Allocation {
            account: keypair.address(),
            amount: FUNDS,
            vesting: None,
        });
        let allocations = made.genesis.allocations.into_vec().into_iter().chain(funded);
        made.genesis.allocations = List::new(allocations.collect())
            .map_err(|_| BenchError::Nothing("too many accounts"))?;
        let genesis = genesis_file::write(&made.genesis);
        create_folder(&folder.join("logs"))?;

        let (mut nodes, mut rpcs) = (Vec::new(), Vec::new());
        for (index, validator) in made.validators.iter().enumerate() {
            let (node, rpc) = make_node(opengpu, folder, index, validator, &genesis, rng)?;
            nodes.push(node);
            rpcs.push(rpc);
        }
        let relay_port = first_port.saturating_add(VALIDATORS.saturating_mul(2));
        let listen = format!("127.0.0.1:{relay_port}");
        let arguments = words(["relay", "run", "--listen", &listen]);
        let log = folder.join("logs/relay.log");
        let relay = Member::new(Role::Relay, "relay".into(), opengpu.into(), arguments, log);
        let mut scene = Self {
            opengpu: opengpu.to_owned(),
            folder: folder.to_owned(),
            rpcs,
            nodes,
            providers: Vec::new(),
            accounts: providers.iter().map(Keypair::address).collect(),
            relay,
        };
        for (index, keypair) in providers.iter().enumerate() {
            let provider = scene.make_provider(index, keypair, &format!("http://{listen}"), rng)?;
            let stake = cast.stake.to_string();
            let provider = provider.with(words(["--stake", &stake]));
            scene.providers.push(provider);
        }
        Ok(scene)
    }

    /// A provider with its folder and its wallet; its node is one of the four.
    fn make_provider(
        &self,
        index: usize,
        keypair: &Keypair,
        relay: &str,
        rng: &mut StdRng,
    ) -> Result<Member, BenchError> {
        let (name, data) = (format!("provider-{index}"), self.data(index));
        store(&self.folder.join("home"), &name, keypair, rng)?;
        let log = self.folder.join(format!("logs/{name}.log"));
        let mut init = Command::new(&self.opengpu);
        init.args(["provider", "init", "--rate", "0.001 oGPU", "--seconds", "1", "--data"]);
        init.arg(&data).arg("--home").arg(self.folder.join("home"));
        init.args(["--direct", "127.0.0.1:0", "--relay", relay, "--yes"]);
        let mut init = Process::start(&name, &mut init, &log)?;
        wait("measuring a device", || Ok(init.ended().is_some()))?;
        if !init.ended().is_some_and(|status| status.success()) {
            return Err(BenchError::Ended { who: name, log });
        }
        let mut arguments = words(["provider", "start", "--wallet", &name, "--data"]);
        arguments.extend([data.into(), "--home".into(), self.folder.join("home").into()]);
        arguments.extend(words(["--node", self.url(index.saturating_add(1))]));
        Ok(Member::new(Role::Provider, name, self.opengpu.clone(), arguments, log))
    }

    fn data(&self, index: usize) -> PathBuf {
        self.folder.join("providers").join(index.to_string())
    }

    /// The node of somebody with a number.
    pub(crate) fn url(&self, number: usize) -> &str {
        let place = number.checked_rem(self.rpcs.len()).unwrap_or(0);
        self.rpcs.get(place).map_or("", Rpc::url)
    }

    /// Starts everything, and waits until all are ready.
    pub(crate) fn start(&mut self) -> Result<(), BenchError> {
        let begin = Instant::now();
        for member in self.nodes.iter_mut().chain([&mut self.relay]) {
            member.start()?;
        }
        let height = |rpc: &Rpc| rpc.status().map_or(0, |status| status.height.0);
        wait("starting the nodes", || Ok(self.rpcs.iter().all(|rpc| height(rpc) > 1)))?;
        for provider in &mut self.providers {
            provider.start()?;
        }
        let stand = || Ok((0..self.providers.len()).all(|index| self.stands(index)));
        wait("starting the providers", stand)?;
        tell(format!("the network runs after {:.1} s", begin.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Whether a provider says that it stands on chain.
    pub(crate) fn stands(&self, index: usize) -> bool {
        let report = self.report(index);
        report.is_some_and(|it| it.get("on_chain").is_some_and(serde_json::Value::is_string))
    }

    /// What a provider says of itself on its socket; nothing if it does not answer.
    pub(crate) fn report(&self, index: usize) -> Option<serde_json::Value> {
        let mut stream = UnixStream::connect(self.data(index).join("agent.sock")).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(b"{\"do\":\"status\"}\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// The lease that a provider runs now, and how far it is.
    pub(crate) fn running_lease(&self, index: usize) -> Option<String> {
        let report = self.report(index)?;
        let leases = report.get("leases")?.as_array()?;
        let running =
            leases.iter().find(|lease| lease.get("stage").is_some_and(|it| it == "running"))?;
        let lease = running.get("lease")?.as_str()?;
        let segment = running.get("segment").and_then(serde_json::Value::as_u64);
        let segment = segment.map_or_else(|| "-".to_owned(), |it| it.to_string());
        Some(format!("lease {} at segment {segment}", short(lease)))
    }

    /// What all members used so far.
    pub(crate) fn usage(&self) -> Usage {
        let members = self.nodes.iter().chain(&self.providers).chain([&self.relay]);
        members.filter_map(Member::usage).sum()
    }

    /// All members.
    pub(crate) fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.nodes.iter_mut().chain(&mut self.providers).chain([&mut self.relay])
    }
}

/// The beginning and the end of a long name.
pub(crate) fn short(name: &str) -> String {
    let begin: String = name.chars().take(8).collect();
    let end = name.rsplit_once(['-', '/', ':', '.']).map_or("", |(_, end)| end);
    if end.is_empty() { begin } else { format!("{begin}-{end}") }
}

/// Keeps a key without a passphrase.
pub(crate) fn store(
    home: &Path,
    name: &str,
    keypair: &Keypair,
    rng: &mut StdRng,
) -> Result<(), BenchError> {
    let keystore = Keystore::new(home).with_cost(KeystoreCost::new(8, 1, 1)?);
    keystore.store(rng, name, &keypair.clone().into(), &Passphrase::default())?;
    Ok(())
}

/// Looks again and again until something holds.
pub(crate) fn wait(
    what: &'static str,
    mut holds: impl FnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let begin = Instant::now();
    while !holds()? {
        if begin.elapsed() > PATIENCE {
            return Err(BenchError::Slow { what, seconds: PATIENCE.as_secs() });
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

fn make_node(
    opengpu: &Path,
    folder: &Path,
    index: usize,
    validator: &DevValidator,
    genesis: &str,
    rng: &mut StdRng,
) -> Result<(Member, Rpc), BenchError> {
    let (wallet, home) = (format!("validator-{index}"), folder.join("home"));
    store(&home, &wallet, &validator.operator, rng)?;
    let path = folder.join("nodes").join(index.to_string());
    create_folder(&path)?;
    let rpc = format!("127.0.0.1:{}", validator.host.0.port().saturating_add(VALIDATORS));
    let settings = format!("listen = \"{}\"\nrpc = \"{rpc}\"\n", validator.host.0);
    for (name, text) in [("genesis.json", genesis), ("node.toml", &settings)] {
        fs::write(path.join(name), text).map_err(BenchError::system("writing a node"))?;
    }
    validator.keys.write(&path.join("node.key"))?;
    let mut arguments = words(["node", "run", "--operator", &wallet, "--data"]);
    arguments.extend([path.clone().into(), "--home".into(), home.into()]);
    let log = path.join("node.log");
    let node = Member::new(Role::Validator, wallet, opengpu.into(), arguments, log);
    Ok((node, Rpc::new(&format!("http://{rpc}"))))
}

/// The first of nine ports in a row on which nobody listens, below those that the system gives away.
fn free_ports(rng: &mut StdRng) -> Result<u16, BenchError> {
    for _ in 0..100 {
        let first: u16 = rng.random_range(12_000..30_000);
        let mut all = first..first.saturating_add(9);
        if all.all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()) {
            return Ok(first);
        }
    }
    Err(BenchError::Nothing("no free ports"))
}
