//! One validator as a process would run it: real clock, real disk, real sockets, real HTTP.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops where it fails, and its node has a thread of its own"
)]

use commonware_codec::DecodeExt as _;
use opengpu_client::{
    Rpc,
    api::{Progress, Role, SubmissionStatus},
    devnet::{DevNetwork, Plan},
    follow::{Blocks, wait_until_final},
};
use opengpu_crypto::Keypair;
use opengpu_ledger::genesis_seats;
use opengpu_light::{Link, Presence, ReceiptBundle, StateBundle, StateProof, Trust};
use opengpu_node::{DataError, NodeConfig, NodeError, NodeKeys, run_until};
use opengpu_types::{
    Address, Amount, Authorization, Block, ChainId, Entry, Epoch, Height, Key, List, Millis, Nonce,
    Operation, SignedTransaction, Text, Transaction, TransactionId,
};
use rand::{SeedableRng as _, rngs::StdRng};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn network(seed: u64) -> DevNetwork {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let time = Millis(u64::try_from(now).unwrap());
    let plan = Plan { first_port: free_port(), ..Plan::new(1, time) };
    let mut network = DevNetwork::generate(&mut StdRng::seed_from_u64(seed), &plan).unwrap();
    // Short, so that a bundle crosses epochs.
    network.genesis.parameters.epoch_blocks = 4;
    network.genesis.parameters.seats = 1;
    network
}

fn config(network: &DevNetwork, data: &Path) -> NodeConfig {
    let validator = &network.validators[0];
    let keys = NodeKeys::from(&validator.keys);
    let rpc = local(free_port());
    NodeConfig::new(data, network.genesis.clone(), keys, validator.host.0, rpc)
}

/// A node in a thread of this process.
struct Running {
    rpc: Rpc,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), NodeError>>,
}

fn start(config: NodeConfig) -> Running {
    let rpc = Rpc::new(&format!("http://{}", config.rpc));
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = thread::spawn(move || run_until(config, async move { drop(stopped.await) }));
    let running = Running { rpc, stop, thread };
    running.wait("the node is ready", |rpc| rpc.is_ready());
    running
}

impl Running {
    fn wait(&self, what: &str, holds: impl Fn(&Rpc) -> bool) {
        let begin = Instant::now();
        while !holds(&self.rpc) {
            assert!(!self.thread.is_finished(), "the node ended before {what}");
            assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(self) {
        drop(self.stop);
        self.thread.join().unwrap().unwrap();
    }
}

fn transfer(chain: ChainId, from: &Keypair, nonce: u64, to: Address) -> SignedTransaction {
    let transaction = Transaction {
        sender: from.address(),
        nonce: Nonce(nonce),
        valid_until: Height(1_000),
        max_fee: Amount::ONE,
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(vec![Operation::Transfer { to, amount: Amount::whole(5) }]).unwrap(),
        memo: Text::new("").unwrap(),
    };
    let signature = from.sign_bytes(&transaction.signing_message(chain));
    let signer = Authorization { key: from.public_key(), signature };
    SignedTransaction { transaction, signer, sponsor: None }
}

/// Submits a transfer and waits until it is final.
fn pay(network: &DevNetwork, rpc: &Rpc, nonce: u64, to: Address) -> TransactionId {
    let chain = network.genesis.chain;
    let payment = transfer(chain, &network.wallets[1].1, nonce, to);
    let id = payment.transaction.id(chain);
    let answers = rpc.submit(vec![payment]).unwrap();
    assert_eq!((answers[0].id, answers[0].status), (id, SubmissionStatus::Accepted));
    let info = wait_until_final(rpc, id, Height(1_000), PATIENCE).unwrap();
    assert_eq!(info.status, Progress::Finalized);
    id
}

fn trust(network: &DevNetwork) -> Trust {
    let [seats, _] = genesis_seats(&network.genesis).unwrap();
    Trust { chain: network.genesis.chain, seats }
}

fn assert_receipt_holds(network: &DevNetwork, rpc: &Rpc, id: TransactionId) -> ReceiptBundle {
    let bundle = ReceiptBundle::from_bytes(&rpc.receipt(id, Epoch(0)).unwrap()).unwrap();
    assert_eq!(bundle.receipt.transaction, Some(id));
    bundle.verify(&mut StdRng::seed_from_u64(1), trust(network)).unwrap();
    bundle
}

fn assert_state_holds(network: &DevNetwork, rpc: &Rpc, key: Key) -> StateBundle {
    let bundle = StateBundle::from_bytes(&rpc.state_bundle(&key, Epoch(0)).unwrap()).unwrap();
    assert_eq!(bundle.key, key);
    bundle.verify(&mut StdRng::seed_from_u64(1), trust(network)).unwrap();
    bundle
}

/// The block of a transaction has it, as it was signed, where its receipt says.
fn assert_in_its_block(network: &DevNetwork, rpc: &Rpc, bundle: &ReceiptBundle) {
    let (chain, header) = (network.genesis.chain, &bundle.finalized.header);
    let transactions = rpc.transactions(header.height).unwrap();
    assert_eq!(Block::transactions_root(&transactions), header.transactions);
    let place = usize::try_from(bundle.receipt.index).unwrap().checked_sub(1).unwrap();
    assert_eq!(Some(transactions[place].transaction.id(chain)), bundle.receipt.transaction);
    assert_eq!(rpc.transactions(Height(9_999_999)).unwrap_err().code(), Some("not-found"));
    let beyond = format!("GET /v1/blocks/{}/transactions?from=9", header.height);
    assert!(raw(rpc, &beyond).contains("content-length: 1\r\n"), "an empty list");
}

/// Whoever knows the seats of a later epoch gets, and needs, only the steps since then.
fn assert_short_from_a_checkpoint(network: &DevNetwork, rpc: &Rpc, whole: &ReceiptBundle) {
    let rng = &mut StdRng::seed_from_u64(1);
    let checkpoint = trust(network).follow(rng, &whole.steps[..1]).unwrap();
    assert_eq!(checkpoint.seats.epoch, Epoch(1));
    let id = whole.receipt.transaction.unwrap();
    let short = ReceiptBundle::from_bytes(&rpc.receipt(id, Epoch(1)).unwrap()).unwrap();
    assert_eq!(short.steps, whole.steps[1..]);
    short.verify(rng, checkpoint.clone()).unwrap();
    assert!(short.verify(rng, trust(network)).is_err(), "the genesis alone does not prove it");
    let state = StateBundle::from_bytes(&rpc.state_bundle(&Key::Chain, Epoch(1)).unwrap()).unwrap();
    assert_eq!(state.steps[..1], whole.steps[1..2]);
    state.verify(rng, checkpoint).unwrap();
    let late = rpc.receipt(id, Epoch(1_000)).unwrap_err();
    assert_eq!(late.code(), Some("bad-request"), "{late}");
}

/// One request without the client: what a monitoring system or a stranger sends.
fn raw(rpc: &Rpc, request: &str) -> String {
    let address = rpc.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn numbers_are_told_and_strange_requests_are_problems() {
    let (network, folder) = (network(6), tempfile::tempdir().unwrap());
    let node = start(config(&network, folder.path()));
    let metrics = raw(&node.rpc, "GET /metrics");
    for name in
        ["opengpu_height ", "opengpu_rpc_requests_total ", "network_tracker_directory_tracked "]
    {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} in {metrics}");
    }
    assert!(raw(&node.rpc, "GET /healthz").starts_with("HTTP/1.1 200"));
    let cases = [
        ("GET /v2/status", "404", "not-found"),
        ("DELETE /v1/status", "400", "bad-request"),
        ("GET /v1/accounts/me", "400", "bad-request"),
        ("GET /v1/blocks/-1", "400", "bad-request"),
        ("GET /v1/blocks/latest/transactions", "400", "bad-request"),
        ("GET /v1/blocks/1/transactions?from=-1", "400", "bad-request"),
        ("GET /v1/state/0x00?proof=perhaps", "400", "bad-request"),
        ("GET /v1/transactions/0x00", "400", "bad-request"),
        ("POST /v1/transactions", "400", "bad-request"),
    ];
    for (request, status, code) in cases {
        let answer = raw(&node.rpc, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
        assert!(answer.contains("application/problem+json"), "{request}: {answer}");
        assert!(answer.contains(code), "{request}: {answer}");
    }
    node.stop();
}

fn assert_contract(network: &DevNetwork, rpc: &Rpc) {
    let status = rpc.status().unwrap();
    assert_eq!((status.chain, status.genesis), (network.genesis.chain, network.genesis.digest()));
    assert_eq!((status.role, status.seats, status.syncing), (Role::Validator, 1, false));
    let block = rpc.block(Some(Height(1))).unwrap();
    assert_eq!(block.height, Height(1));
    assert!(rpc.block(None).unwrap().height >= status.height);
    assert_eq!(rpc.block(Some(Height(9_999_999))).unwrap_err().code(), Some("not-found"));
    assert_eq!(rpc.epoch(None).unwrap().seats.len(), 1);
    let operator = network.validators[0].operator.address();
    let validators = rpc.validators().unwrap().validators;
    assert!(validators.iter().all(|it| it.address == operator && it.seat && it.next_seat));
    assert_eq!(validators.len(), 1);
    let delegation = rpc.delegation(operator, operator).unwrap();
    assert_eq!((delegation.exists, delegation.stake), (true, validators[0].stake));
    assert_eq!(rpc.parameters().unwrap().parameters, network.genesis.parameters);
    assert!(rpc.supply().unwrap().supply.minted <= Amount::CAP);
    let unknown = TransactionId(network.genesis.digest());
    assert_eq!(rpc.transaction(unknown).unwrap().status, Progress::Unknown);
    assert_eq!(rpc.receipt(unknown, Epoch(0)).unwrap_err().code(), Some("not-found"));
}

#[test]
fn a_transfer_over_http_is_final_provable_offline_and_survives_a_restart() {
    let (network, folder) = (network(1), tempfile::tempdir().unwrap());
    let receiver = Address::new([7; 20]);
    let node = start(config(&network, folder.path()));
    let first = pay(&network, &node.rpc, 0, receiver);
    assert_contract(&network, &node.rpc);

    // Through the end of two epochs, so that the proof needs their steps.
    node.wait("two epochs end", |rpc| rpc.status().is_ok_and(|status| status.epoch.0 >= 2));
    let second = pay(&network, &node.rpc, 1, receiver);
    let bundle = assert_receipt_holds(&network, &node.rpc, second);
    assert!(bundle.steps.len() >= 2, "the steps of the epochs are in the bundle");
    assert_receipt_holds(&network, &node.rpc, first);
    assert_in_its_block(&network, &node.rpc, &bundle);
    assert_short_from_a_checkpoint(&network, &node.rpc, &bundle);
    let mut other = trust(&network);
    other.chain = ChainId(1);
    let verdict = bundle.verify(&mut StdRng::seed_from_u64(1), other);
    assert_eq!(verdict.unwrap_err().link(), Link::Header);

    let account = assert_state_holds(&network, &node.rpc, Key::Account(receiver));
    let Some(Entry::Account(entry)) = account.entry else { panic!("{:?}", account.entry) };
    assert_eq!(entry.balance.plus(entry.reserve), Some(Amount::whole(10)));
    let absent = assert_state_holds(&network, &node.rpc, Key::Account(Address::new([8; 20])));
    assert_eq!(absent.entry, None);

    // A proof without the bundle fits the header of the height that the answer names.
    let key = Key::Account(receiver);
    let info = node.rpc.state(&key, true).unwrap();
    let root = node.rpc.block(Some(info.height)).unwrap().state;
    let proof = StateProof::from_bytes(&info.proof.unwrap()).unwrap();
    let value = Entry::decode(info.value.unwrap()).unwrap();
    assert!(proof.shows(&key, &Presence::Present(value), &root));

    let height = node.rpc.status().unwrap().height;
    let digest = node.rpc.block(Some(height)).unwrap().digest;
    node.stop();

    // The newest blocks are in the archive and come back into the state within moments.
    let node = start(config(&network, folder.path()));
    node.wait("the height before", |rpc| rpc.status().is_ok_and(|it| it.height >= height));
    assert_eq!(node.rpc.block(Some(height)).unwrap().digest, digest, "what was final stays final");
    assert_receipt_holds(&network, &node.rpc, first);
    assert_receipt_holds(&network, &node.rpc, second);
    let third = pay(&network, &node.rpc, 2, receiver);
    assert_receipt_holds(&network, &node.rpc, third);
    node.stop();
}

#[test]
fn the_stream_resumes_behind_a_height_without_gaps_and_goes_on() {
    let (network, folder) = (network(2), tempfile::tempdir().unwrap());
    let node = start(config(&network, folder.path()));
    node.wait("some blocks", |rpc| rpc.status().is_ok_and(|status| status.height.0 >= 3));
    let blocks = Blocks::follow(&node.rpc, Some(Height(1))).unwrap();
    for (expected, block) in (2..=6).zip(blocks) {
        let block = block.unwrap();
        assert_eq!(block.height, Height(expected));
        assert!(block.certificate.is_some());
    }
    node.stop();
}

#[test]
fn refusals_have_reasons_now_and_when_asked_later() {
    let (network, folder) = (network(3), tempfile::tempdir().unwrap());
    let node = start(config(&network, folder.path()));
    let chain = network.genesis.chain;
    let stranger = Keypair::ed25519([9; 32]);
    let poor = transfer(chain, &stranger, 0, Address::new([7; 20]));
    let id = poor.transaction.id(chain);
    let mut forged = transfer(chain, &network.wallets[1].1, 0, Address::new([7; 20]));
    forged.signer = poor.signer.clone();
    let forged_id = forged.transaction.id(chain);

    let answers = node.rpc.submit(vec![poor, forged]).unwrap();
    assert!(answers.iter().all(|answer| answer.status == SubmissionStatus::Refused));
    let later = node.rpc.transaction(id).unwrap();
    assert_eq!((later.status, later.code), (Progress::Refused, answers[0].code.clone()));
    let forged = node.rpc.transaction(forged_id).unwrap();
    assert_eq!(forged.status, Progress::Unknown, "a forgery says nothing about a transaction");
    node.stop();
}

#[test]
fn a_folder_in_use_a_foreign_folder_and_an_open_rpc_are_refused() {
    let (network, folder) = (network(4), tempfile::tempdir().unwrap());
    let node = start(config(&network, folder.path()));
    let second = run_until(config(&network, folder.path()), async {});
    assert!(matches!(second, Err(NodeError::Data(DataError::InUse(_)))), "{second:?}");
    node.stop();

    let other = self::network(5);
    let foreign = run_until(config(&other, folder.path()), async {});
    let wanted = matches!(foreign, Err(NodeError::Data(DataError::OtherNetwork { .. })));
    assert!(wanted, "{foreign:?}");
    let open = NodeConfig {
        rpc: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        ..config(&network, folder.path())
    };
    assert!(matches!(run_until(open, async {}), Err(NodeError::RpcExposed(_))));
}

#[test]
fn whoever_sends_slowly_keeps_nobody_from_reading_and_is_told_to_hurry() {
    let (network, folder) = (network(7), tempfile::tempdir().unwrap());
    let node = start(config(&network, folder.path()));
    let address = node.rpc.url().strip_prefix("http://").unwrap();
    // More than the node answers at once.
    let slow: Vec<_> = (0..150)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let head = "POST /v1/transactions HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n";
            stream.write_all(format!("{head}a").as_bytes()).unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        assert!(raw(&node.rpc, "GET /v1/status").starts_with("HTTP/1.1 200"));
    }
    let mut first = slow.into_iter().next().unwrap();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    node.stop();
}
