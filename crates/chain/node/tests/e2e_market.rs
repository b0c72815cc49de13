//! A task on a real node: auctioned, leased and paid, with deadlines that ring by themselves.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops where it fails, and its node has a thread of its own"
)]

use opengpu_client::{
    Rpc,
    api::{OutcomeName, SubmissionStatus},
    devnet::{DevNetwork, Plan},
    follow::wait_until_final,
    market,
};
use opengpu_crypto::{Digest, Keypair, SealPublicKey};
use opengpu_ledger::genesis_seats;
use opengpu_light::{ReceiptBundle, Trust};
use opengpu_market::auction::seal;
use opengpu_node::{NodeConfig, NodeError, NodeKeys, run_until};
use opengpu_types::{
    Allocating, Amount, ArtifactId, Authorization, Checkpoint, Class, CloseReason, Commitment,
    Contact, Ending, Entry, Epoch, Event, Eyes, Height, Key, LeaseId, List, MarketOperation,
    Measure, Millis, Money, Offer, Operation, Permille, Precision, ProgramId, ProgramKind, Rating,
    Requirements, Runtime, SegmentIndex, SessionKey, Set, SignedTransaction, Spec, Task, TaskId,
    TaskPhase, Text, Transaction, TransactionId, Trust as Chosen, Usage, Weights, Work,
};
use rand::{SeedableRng as _, rngs::StdRng};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(120);
/// A thousandth of a token.
const RATE: u128 = 1_000_000_000_000_000;

/// A node in a thread of this process, and the network that it is.
struct Node {
    network: DevNetwork,
    rpc: Rpc,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), NodeError>>,
    _data: tempfile::TempDir,
}

fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

impl Node {
    fn start() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let time = Millis(u64::try_from(now).unwrap());
        let plan = Plan { first_port: free().port(), ..Plan::new(1, time) };
        let network = DevNetwork::generate(&mut StdRng::seed_from_u64(4), &plan).unwrap();
        let data = tempfile::tempdir().unwrap();
        let validator = &network.validators[0];
        let keys = NodeKeys::from(&validator.keys);
        let genesis = network.genesis.clone();
        let config = NodeConfig::new(data.path(), genesis, keys, validator.host.0, free());
        let rpc = Rpc::new(&format!("http://{}", config.rpc));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || run_until(config, async move { drop(stopped.await) }));
        let node = Self { network, rpc, stop, thread, _data: data };
        node.wait("the node is ready", |rpc| rpc.is_ready().then_some(()));
        node
    }

    fn wait<T>(&self, what: &str, find: impl Fn(&Rpc) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = find(&self.rpc) {
                return found;
            }
            assert!(!self.thread.is_finished(), "the node ended before {what}");
            assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends an operation and waits until it has taken effect.
    fn act(&self, key: &Keypair, operation: MarketOperation) -> TransactionId {
        let chain = self.network.genesis.chain;
        let nonce = match self.rpc.entry(&Key::Account(key.address())).unwrap() {
            Some(Entry::Account(account)) => account.nonce,
            other => panic!("{other:?}"),
        };
        let transaction = Transaction {
            sender: key.address(),
            nonce,
            valid_until: Height(100_000),
            max_fee: Amount::ONE,
            tip: Amount::ZERO,
            sponsor: None,
            operations: List::new(vec![Operation::Market(operation)]).unwrap(),
            memo: Text::default(),
        };
        let signature = key.sign_bytes(&transaction.signing_message(chain));
        let signer = Authorization { key: key.public_key(), signature };
        let id = transaction.id(chain);
        let signed = SignedTransaction { transaction, signer, sponsor: None };
        let answers = self.rpc.submit(vec![signed]).unwrap();
        assert_eq!(answers[0].status, SubmissionStatus::Accepted, "{:?}", answers[0]);
        let info = wait_until_final(&self.rpc, id, Height(100_000), PATIENCE).unwrap();
        assert_eq!(info.outcome, Some(OutcomeName::Applied), "{info:?}");
        id
    }

    fn task(&self, id: TaskId) -> Option<Task> {
        market::task(&self.rpc, id).unwrap()
    }

    fn stop(self) {
        drop(self.stop);
        self.thread.join().unwrap().unwrap();
    }
}

fn contact() -> Contact {
    let (session, sealing) = (SessionKey([1; 32]), SealPublicKey([2; 32]));
    Contact { session, sealing, relay: Text::default() }
}

fn offer() -> Offer {
    Offer {
        class: Text::new("test-device").unwrap(),
        devices: 1,
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        kinds: Set::all(),
        trusts: Set::all(),
        region: Text::new("eu-west").unwrap(),
        longest: Millis(3_600_000),
        rate: Money::tokens(Amount(RATE)),
        reliability: Permille::ZERO,
        denied: List::empty(),
    }
}

fn spec() -> Spec {
    let weight = Permille::constant(100);
    Spec {
        program: ProgramId(Digest([1; 32])),
        input: ArtifactId(Digest([2; 32])),
        segments: 1,
        work: Work { amount: 1_000, measure: Measure::Integers },
        requirements: Requirements {
            kind: ProgramKind::Wasm,
            devices: 1,
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: Permille::ZERO,
            trust: Chosen::Checked,
            longest: Millis(60_000),
            cap: Money::tokens(Amount(RATE * 10)),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Auction,
        weights: Weights { time: weight, reliability: weight, proximity: weight },
        region: Text::default(),
        patience: Millis(60_000),
    }
}

fn done() -> Commitment {
    let reached = Checkpoint {
        index: SegmentIndex(1),
        state: ArtifactId(Digest([3; 32])),
        emitted: Digest([4; 32]),
        bytes_out: 0,
    };
    Commitment {
        root: Digest([5; 32]),
        steps: 7,
        segments: 1,
        reached,
        output: ArtifactId(Digest([6; 32])),
        usage: Usage { time: Millis(10), fuel: 1_000_000_000 },
        ending: Ending::Completed,
    }
}

#[test]
fn e2e_a_task_is_auctioned_leased_and_paid_and_nobody_has_to_wake_it() {
    let node = Node::start();
    let (client, provider) = (node.network.wallets[1].1.clone(), node.network.wallets[2].1.clone());
    let chain = node.network.genesis.chain;
    let offers = List::new(vec![offer()]).unwrap();
    let stake = Amount::whole(100);
    node.act(&provider, MarketOperation::RegisterProvider { contact: contact(), offers, stake });
    let standing = market::offers(&node.rpc).unwrap();
    assert_eq!((standing.len(), standing[0].provider), (1, provider.address()));
    assert_eq!((standing[0].free, standing[0].reliability.get()), (1, 900));

    let escrow = Amount::whole(2);
    let submit = MarketOperation::SubmitTask {
        spec: spec().into(),
        budget: Money::tokens(escrow),
        escrow,
        contact: contact(),
    };
    let task = TaskId::of(&node.act(&client, submit), 0);
    assert_eq!(market::open_tasks(&node.rpc, client.address()).unwrap()[0].0, task);
    let (rate, salt) = (Amount(RATE * 2), [9; 32]);
    let seal = seal(chain, &task.0, &provider.address(), rate, &salt);
    node.act(&provider, MarketOperation::SealBid { task, offer: 0, seal });
    let opening = |it: &Task| matches!(it.phase, TaskPhase::Opening { .. });
    node.wait("bids are opened", |_| node.task(task).filter(opening));
    node.act(&provider, MarketOperation::OpenBid { task, rate, salt });
    let leased = |it: &Task| !it.leases.is_empty();
    let awarded = node.wait("the award", |_| node.task(task).filter(leased));
    assert_eq!(awarded.leases[0].provider, provider.address());

    let lease = LeaseId { task, number: 0 };
    let commit = MarketOperation::CommitTrace { lease, commitment: done(), witness: None };
    let committed = node.act(&provider, commit);
    let ended = node.wait("the end", |_| node.task(task).filter(Task::is_closed));
    let TaskPhase::Closed { reason, .. } = ended.phase else { panic!("{:?}", ended.phase) };
    assert_eq!(reason, CloseReason::Completed);
    assert!(!ended.paid.is_zero());
    assert_eq!(ended.paid.plus(ended.refunded), Some(escrow));

    // Everything that happened can be read block by block, also what no transaction did.
    let newest = node.rpc.status().unwrap().height;
    let all: Vec<_> =
        (1..=newest.0).flat_map(|it| node.rpc.receipts(Height(it)).unwrap()).collect();
    let of_blocks: Vec<_> = all.iter().filter(|receipt| receipt.transaction.is_none()).collect();
    assert_eq!(of_blocks.len(), usize::try_from(newest.0).unwrap());
    let awards =
        |event: &Event| matches!(event, Event::LeaseOpened { lease: it, .. } if *it == lease);
    assert!(of_blocks.iter().any(|receipt| receipt.events.iter().any(awards)));
    assert!(all.iter().any(|receipt| receipt.transaction == Some(committed)));
    assert!(node.rpc.receipts(Height(newest.0 + 1_000)).is_err());

    // So can what a block did by itself be shown to anybody.
    let settled = all.iter().find(|receipt| {
        let closes =
            |event: &Event| matches!(event, Event::TaskClosed { task: it, .. } if *it == task);
        receipt.events.iter().any(closes)
    });
    let settled = settled.unwrap();
    let bytes = node.rpc.receipt_at(settled.height, settled.index, Epoch(0)).unwrap();
    let bundle = ReceiptBundle::from_bytes(&bytes).unwrap();
    let [seats, _] = genesis_seats(&node.network.genesis).unwrap();
    bundle.verify(&mut StdRng::seed_from_u64(1), Trust { chain, seats }).unwrap();
    assert_eq!(bundle.receipt, *settled);
    assert!(node.rpc.receipt_at(settled.height, 1_000, Epoch(0)).is_err());

    // What the provider committed to can be shown to anybody.
    let bundle = ReceiptBundle::from_bytes(&node.rpc.receipt(committed, Epoch(0)).unwrap());
    let bundle = bundle.unwrap();
    let [seats, _] = genesis_seats(&node.network.genesis).unwrap();
    bundle.verify(&mut StdRng::seed_from_u64(1), Trust { chain, seats }).unwrap();
    let told = Event::Committed { lease, root: done().root, output: done().output };
    assert!(bundle.receipt.events.contains(&told));
    node.stop();
}
