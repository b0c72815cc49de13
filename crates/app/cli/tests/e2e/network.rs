//! A network of real node processes for tests: each can be killed, stopped, frozen, wiped and
//! started again on its own, while transfers are under way.
//!
//! The folders are those that `opengpu node init` documents; the genesis is that of a local network
//! with the epochs that a test wishes, and nobody is jailed for being away. Whatever happens to a
//! test, its processes end with it, and a failed one shows the ends of all logs.

use crate::links::Links;
use opengpu_client::{
    Rpc,
    api::{BlockInfo, OutcomeName, Progress, Status, SubmissionStatus, ValidatorState},
    devnet::{self, DevNetwork, Plan},
    genesis_file,
};
use opengpu_crypto::Keypair;
use opengpu_types::{
    Address, Amount, Authorization, ChainId, ConsensusKey, Height, List, Millis, Nonce, Operation,
    Permille, SignedTransaction, Text, Transaction, TransactionId,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Lines of each log that a failed test shows.
const SHOWN_LINES: usize = 25;
/// Stake of every validator of a local network.
const STAKE: Amount = Amount::whole(10_000);
/// What one transfer of a load carries.
const GRAIN: Amount = Amount(1_000_000_000_000_000);

/// The first of so many neighbouring ports that are free now. They lie below the range from which
/// the system takes ports for outgoing links, so a port stays free while its node is down.
pub(crate) fn free_ports(count: u16) -> u16 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let mut first = 12_000 + u16::try_from((clock ^ std::process::id()) % 18_000).unwrap();
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    while !(first..first + count).all(free) {
        first = 12_000 + (first - 12_000 + count) % 18_000;
    }
    first
}

/// One node: its folder, and its process while there is one.
pub(crate) struct Node {
    pub(crate) rpc: Rpc,
    pub(crate) key: ConsensusKey,
    folder: PathBuf,
    child: Option<Child>,
}

impl Node {
    pub(crate) fn status(&self) -> Option<Status> {
        self.rpc.status().ok()
    }

    pub(crate) fn height(&self) -> u64 {
        self.status().map_or(0, |status| status.height.0)
    }

    pub(crate) fn block(&self, height: u64) -> Option<BlockInfo> {
        self.rpc.block(Some(Height(height))).ok()
    }

    /// What the node itself writes, without its keys.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("node.log")).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }
}

/// The network; dropping it ends every process.
pub(crate) struct Network {
    pub(crate) nodes: Vec<Node>,
    made: DevNetwork,
    folder: TempDir,
    links: Option<Links>,
}

impl Network {
    /// Four validators that have not been started.
    pub(crate) fn new(epoch_blocks: u64) -> Self {
        Self::make(epoch_blocks, free_ports(8), |host| host)
    }

    /// A network whose nodes all answer, and whose links can be cut.
    pub(crate) fn linked(epoch_blocks: u64) -> Self {
        let first = free_ports(12);
        let listens = |host: SocketAddr| SocketAddr::new(host.ip(), host.port() + 8);
        let mut network = Self::make(epoch_blocks, first, listens);
        let hosts = network.made.validators.iter().map(|validator| validator.host.0);
        network.links =
            Some(Links::new(&hosts.map(|host| (host, listens(host))).collect::<Vec<_>>()));
        network.start_all();
        network
    }

    /// A network at these ports: four at which nodes are dialled, and four for their RPC.
    fn make(epoch_blocks: u64, first: u16, listens: impl Fn(SocketAddr) -> SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let plan = Plan { first_port: first, ..Plan::new(4, Millis(u64::try_from(now).unwrap())) };
        let mut made = DevNetwork::generate(&mut rand::rng(), &plan).unwrap();
        made.genesis.parameters.epoch_blocks = epoch_blocks;
        // A validator that a test takes away shall find its seat again.
        made.genesis.parameters.missed_limit = Permille::new(1_000).unwrap();
        let genesis = genesis_file::write(&made.genesis);
        let nodes = (0..).zip(&made.validators).map(|(index, validator)| {
            let path = folder.path().join(index.to_string());
            fs::create_dir(&path).unwrap();
            let rpc = format!("127.0.0.1:{}", first + 4 + index);
            let listen = listens(validator.host.0);
            let settings = format!("listen = \"{listen}\"\nrpc = \"{rpc}\"\n");
            fs::write(path.join("genesis.json"), &genesis).unwrap();
            fs::write(path.join("node.toml"), settings).unwrap();
            validator.keys.write(&path.join("node.key")).unwrap();
            import(folder.path(), &format!("validator-{index}"), &validator.operator);
            Node {
                rpc: Rpc::new(&format!("http://{rpc}")),
                key: validator.keys.consensus_key(),
                folder: path,
                child: None,
            }
        });
        let nodes = nodes.collect();
        Self { nodes, made, folder, links: None }
    }

    /// A network whose nodes all answer.
    pub(crate) fn running(epoch_blocks: u64) -> Self {
        let mut network = Self::new(epoch_blocks);
        network.start_all();
        network
    }

    fn start_all(&mut self) {
        for index in 0..4 {
            self.start(index);
        }
        self.wait("every node is ready", |it| it.nodes.iter().all(|node| node.rpc.is_ready()));
    }

    /// Cuts every link between these nodes and the others.
    pub(crate) fn cut(&self, side: &[usize]) {
        self.links.as_ref().unwrap().cut(side);
    }

    /// Links are as they were.
    pub(crate) fn heal(&self) {
        self.links.as_ref().unwrap().heal();
    }

    /// Starts a node on its folder, with its operator's key: so it reports conflicting votes.
    pub(crate) fn start(&mut self, index: usize) {
        self.start_with(index, |_| {});
    }

    /// The same with a command that is more than that.
    pub(crate) fn start_with(&mut self, index: usize, more: impl FnOnce(&mut Command)) {
        let home = self.folder.path();
        let node = &mut self.nodes[index];
        assert!(node.child.is_none(), "node {index} runs already");
        let log = node.folder.join("node.log");
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_opengpu"));
        command
            .args(["node", "run", "--data"])
            .arg(&node.folder)
            .args(["--operator", &format!("validator-{index}"), "--home"])
            .arg(home)
            .env_clear()
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        more(&mut command);
        let child = command.spawn().unwrap();
        if let Some(links) = &self.links {
            links.is(index, child.id());
        }
        node.child = Some(child);
    }

    /// Adds a line to the settings of a node, for its next start.
    pub(crate) fn set(&self, index: usize, setting: &str) {
        let path = self.nodes[index].folder.join("node.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}{setting}\n")).unwrap();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, index: usize) {
        let mut child = self.nodes[index].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks a node to end, and waits until it did.
    pub(crate) fn stop(&mut self, index: usize) {
        self.nodes[index].signal(Signal::TERM);
        let status = self.nodes[index].child.take().unwrap().wait().unwrap();
        assert_eq!(status.code(), Some(0), "node {index} did not stop cleanly");
    }

    /// The process stays and does nothing.
    pub(crate) fn freeze(&self, index: usize) {
        self.nodes[index].signal(Signal::STOP);
    }

    /// The process goes on.
    pub(crate) fn thaw(&self, index: usize) {
        self.nodes[index].signal(Signal::CONT);
    }

    /// Looks again and again until a condition holds.
    pub(crate) fn wait(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until a node has seen so many more final blocks.
    pub(crate) fn wait_blocks(&self, index: usize, count: u64) {
        let height = self.nodes[index].height() + count;
        let what = format!("node {index} at height {height}");
        self.wait(&what, |it| it.nodes[index].height() >= height);
    }

    /// Waits until a node has what another one has now.
    pub(crate) fn wait_caught_up(&self, index: usize, other: usize) {
        let height = self.nodes[other].height();
        let what = format!("node {index} at height {height} of node {other}");
        self.wait(&what, |it| it.nodes[index].height() >= height);
    }

    /// Waits until a node has proposed a block that became final above a height, and gives that
    /// block's height: only a voter leads.
    pub(crate) fn wait_led_by(&self, index: usize, above: u64, seen_by: usize) -> u64 {
        let (key, observer) = (self.nodes[index].key, &self.nodes[seen_by]);
        let mut next = above + 1;
        let mut found = 0;
        self.wait(&format!("node {index} leads above {above}"), |_| {
            while let Some(block) = observer.block(next) {
                if block.leader == key {
                    found = next;
                    return true;
                }
                next += 1;
            }
            false
        });
        found
    }

    pub(crate) fn chain(&self) -> ChainId {
        self.made.genesis.chain
    }

    /// A key of the faucet or of a user.
    pub(crate) fn wallet(&self, name: &str) -> Keypair {
        self.made.wallets.iter().find(|wallet| wallet.0 == name).unwrap().1.clone()
    }

    /// Steady transfers of one sender to `bob`, by way of one node.
    pub(crate) fn load(&self, sender: &str, index: usize) -> Load {
        let receiver = self.wallet(devnet::USERS[1]).address();
        let rpc = self.nodes[index].rpc.clone();
        Load::start(self.chain(), self.wallet(sender), receiver, rpc)
    }

    /// After some loads have ended: waits until all they were promised is final everywhere, then
    /// compares the nodes with the promises and with each other.
    pub(crate) fn assert_nothing_lost(&self, loads: Vec<Load>) {
        let promised: Vec<_> = loads.into_iter().map(Load::finish).collect();
        let receiver = self.wallet(devnet::USERS[1]).address();
        let count: u128 = promised.iter().map(|it| it.len() as u128).sum();
        assert!(count > 50, "only {count} transfers were under way");
        let expected = Amount::whole(10_000).plus(Amount(GRAIN.0 * count)).unwrap();
        for (index, node) in self.nodes.iter().enumerate() {
            self.wait(&format!("every transfer is final on node {index}"), |_| {
                let account = node.rpc.account(receiver);
                account.is_ok_and(|it| it.balance.plus(it.reserve) == Some(expected))
            });
            let supply = node.rpc.supply().unwrap().supply;
            let parts = [
                supply.burned,
                supply.balances,
                supply.reserves,
                supply.vesting,
                supply.stake,
                supply.unbonding,
                supply.rewards,
                supply.epoch_pool,
                supply.treasury,
            ];
            let sum = parts.iter().try_fold(Amount::ZERO, |sum, part| sum.plus(*part));
            assert_eq!(sum, Some(supply.minted), "tokens of node {index}");
        }
        // Asked of others than those that promised it.
        for (ids, node) in promised.iter().zip(&self.nodes[2..]) {
            for id in ids.iter().step_by(7).chain(ids.last()) {
                let info = node.rpc.transaction(*id).unwrap();
                assert_eq!(info.status, Progress::Finalized, "{info:?}");
                assert_eq!(info.outcome, Some(OutcomeName::Applied), "{info:?}");
            }
        }
        self.assert_agreement();
    }

    /// All nodes have the same head, and the same blocks below it as far as they keep them.
    pub(crate) fn assert_agreement(&self) {
        let head = self.nodes.iter().map(Node::height).min().unwrap();
        assert!(head > 0, "a node does not answer");
        let step = usize::try_from(head / 20 + 1).unwrap();
        for height in (1..=head).rev().step_by(step) {
            let blocks = self.nodes.iter().filter_map(|node| node.block(height));
            let digests: Vec<_> = blocks.map(|block| block.digest).collect();
            // One that joined later has only what came after that.
            assert!(digests.len() >= if height == head { 4 } else { 3 }, "no block {height}");
            assert!(digests.iter().all(|it| *it == digests[0]), "{height}: {digests:?}");
        }
    }

    /// Nobody was slashed or jailed, by what any node says.
    pub(crate) fn assert_no_offence(&self) {
        for node in &self.nodes {
            for validator in node.rpc.validators().unwrap().validators {
                assert_eq!(validator.status, ValidatorState::Active, "{validator:?}");
                assert_eq!(validator.stake, STAKE, "{validator:?}");
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if thread::panicking() {
            for (index, node) in self.nodes.iter().enumerate() {
                let log = node.log();
                let lines: Vec<_> = log.lines().collect();
                let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
                eprintln!("the end of the log of node {index}:\n{}\n", shown.join("\n"));
            }
        }
    }
}

/// Puts a key where it is found by its name.
pub(crate) fn import(home: &Path, name: &str, keypair: &Keypair) {
    let keystore = opengpu_client::Keystore::new(home)
        .with_cost(opengpu_crypto::KeystoreCost::new(8, 1, 1).unwrap());
    let passphrase = opengpu_client::Passphrase::default();
    keystore.store(&mut rand::rng(), name, &keypair.clone().into(), &passphrase).unwrap();
}

/// Transfers of one sender, one after the other, until told to stop. What a node took in is a
/// promise; what it did not answer is sent again, and a node knows what it has seen.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<TransactionId>>,
}

impl Load {
    const BATCH: u64 = 4;
    const PACE: Duration = Duration::from_millis(150);

    fn start(chain: ChainId, from: Keypair, to: Address, rpc: Rpc) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut promised = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let first = promised.len() as u64;
                let batch: Vec<_> = (first..first + Self::BATCH)
                    .map(|nonce| transfer(chain, &from, nonce, to))
                    .collect();
                for answer in rpc.submit(batch).unwrap_or_default() {
                    let taken = match answer.status {
                        SubmissionStatus::Accepted | SubmissionStatus::Known => true,
                        // It was taken in before, and the answer was lost.
                        SubmissionStatus::Refused => answer.code.as_deref() == Some("nonce-used"),
                    };
                    if !taken {
                        break;
                    }
                    promised.push(answer.id);
                }
                thread::sleep(Self::PACE);
            }
            promised
        });
        Self { stop, thread }
    }

    fn finish(self) -> Vec<TransactionId> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn transfer(chain: ChainId, from: &Keypair, nonce: u64, to: Address) -> SignedTransaction {
    let transaction = Transaction {
        sender: from.address(),
        nonce: Nonce(nonce),
        valid_until: Height(1_000_000),
        max_fee: Amount::ONE,
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(vec![Operation::Transfer { to, amount: GRAIN }]).unwrap(),
        memo: Text::new("").unwrap(),
    };
    let signature = from.sign_bytes(&transaction.signing_message(chain));
    let signer = Authorization { key: from.public_key(), signature };
    SignedTransaction { transaction, signer, sponsor: None }
}

/// Copies a folder with all files in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
