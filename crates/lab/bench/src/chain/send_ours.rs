//! The sender of transfers to our nodes: signs first, then keeps a bounded number under way.
//!
//! One thread per node sends batches over the public RPC. A batch leaves only while fewer than
//! `in_flight` transfers are sent and not yet final, so the pools stay filled and the nodes are not
//! drowned; an answer that says "busy" or "full" is respected by a pause.

use super::{
    accounts::{NODES, Terms, Turn, keypair, transfer},
    sender,
};
use crate::error::BenchError;
use commonware_parallel::{Rayon, Strategy as _};
use opengpu_client::{
    Rpc, RpcError,
    api::{SubmissionStatus, codes},
    follow::Blocks,
};
use opengpu_crypto::Keypair;
use opengpu_types::SignedTransaction;
use serde_json::json;
use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Pause when a node has no room.
const PAUSE: Duration = Duration::from_millis(5);
/// How long what is under way may take to become final after the end.
const DRAIN: Duration = Duration::from_secs(30);
/// Refusals for want of room.
const NO_ROOM: [&str; 3] = [codes::BUSY, codes::TOO_MANY, codes::TOO_SLOW];

/// What the sender takes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// A node; given once for each.
    #[arg(long)]
    pub(super) url: Vec<String>,
    /// Where a node's turn begins; given once for each.
    #[arg(long)]
    pub(super) from: Vec<u64>,
    /// Transfers for each node.
    #[arg(long)]
    pub(super) count: u64,
    /// Accounts that send.
    #[arg(long)]
    pub(super) accounts: u32,
    /// A file with the first nonce of each account, line by line.
    #[arg(long)]
    pub(super) nonces: PathBuf,
    /// Transfers that are not final yet, at most.
    #[arg(long)]
    pub(super) in_flight: u64,
    /// Transfers in one request.
    #[arg(long)]
    pub(super) batch: usize,
}

impl Arguments {
    /// The words that start a sender with these.
    pub(super) fn words(&self) -> Vec<String> {
        let Self { url, from, count, accounts, nonces, in_flight, batch } = self;
        let mut words = vec!["send-ours".to_owned()];
        let mut add = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        url.iter().for_each(|url| add("url", url.clone()));
        from.iter().for_each(|from| add("from", from.to_string()));
        add("count", count.to_string());
        add("accounts", accounts.to_string());
        add("nonces", nonces.display().to_string());
        add("in-flight", in_flight.to_string());
        add("batch", batch.to_string());
        words
    }
}

/// What is sent and what is final.
#[derive(Debug, Default)]
struct Flow {
    sent: u64,
    finalized: u64,
}

impl Flow {
    const fn under_way(&self) -> u64 {
        self.sent.saturating_sub(self.finalized)
    }
}

/// Lets batches through while there is room.
#[derive(Debug, Default)]
struct Gate {
    flow: Mutex<Flow>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for `count`; false if sending shall stop.
    fn enter(&self, count: u64, limit: u64, stop: &AtomicBool) -> bool {
        let mut flow = self.lock();
        while flow.under_way().saturating_add(count) > limit {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let waited = self.changed.wait_timeout(flow, Duration::from_millis(50));
            flow = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        flow.sent = flow.sent.saturating_add(count);
        true
    }

    fn finalized(&self, count: u64) {
        let mut flow = self.lock();
        flow.finalized = flow.finalized.saturating_add(count);
        drop(flow);
        self.changed.notify_all();
    }

    /// Waits until everything is final.
    fn drained(&self) -> bool {
        let begin = Instant::now();
        while self.lock().under_way() > 0 {
            if begin.elapsed() > DRAIN {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }
}

pub(super) fn run(arguments: Arguments) -> Result<(), BenchError> {
    let first = arguments.url.first().ok_or(BenchError::Nothing("no node"))?;
    let (rpc, gate) = (Rpc::new(first), Arc::new(Gate::default()));
    let terms = Terms::ask(&rpc)?;
    let queues = sign(&arguments, &terms, &first_nonces(&arguments.nonces)?);
    count_final(rpc, gate.clone())?;

    let stop = sender::ready()?;
    let (limit, size) = (arguments.in_flight, arguments.batch.max(1));
    let senders = arguments.url.iter().zip(queues).map(|(url, queue)| {
        let (rpc, gate, stop) = (Rpc::new(url), gate.clone(), stop.clone());
        thread::spawn(move || send(&rpc, &gate, &stop, &queue, limit, size))
    });
    let senders: Vec<_> = senders.collect();
    let mut reached = Vec::new();
    for (thread, from) in senders.into_iter().zip(&arguments.from) {
        let sent = thread.join().map_err(|_| BenchError::Sender("a thread died".into()))??;
        reached.push(from.saturating_add(sent));
    }
    let exhausted = !stop.load(Ordering::Relaxed);
    let drained = gate.drained();
    let flow = gate.lock();
    sender::tell_outcome(&json!({
        "reached": reached,
        "sent": flow.sent,
        "exhausted": exhausted,
        "drained": drained,
    }))
}

fn first_nonces(path: &Path) -> Result<Vec<u64>, BenchError> {
    let text = fs::read_to_string(path).map_err(BenchError::system("reading nonces"))?;
    let nonces = text.lines().map(|line| line.parse().ok()).collect::<Option<_>>();
    nonces.ok_or_else(|| BenchError::Sender("a nonce is no number".to_owned()))
}

/// The transfers of each node, signed on all cores.
fn sign(arguments: &Arguments, terms: &Terms, nonces: &[u64]) -> Vec<Vec<SignedTransaction>> {
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let workers = Rayon::new(cores).expect("as many threads as there are cores");
    let numbers: Vec<_> = (0..arguments.accounts).collect();
    let keypairs: Vec<Keypair> = workers.map_collect_vec(&numbers, |number| keypair(*number));
    let key = |number: u32| {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        keypairs.get(place).expect("turns are among the accounts")
    };
    let queues = (0..NODES).zip(&arguments.from).map(|(node, from)| {
        let positions: Vec<_> = (*from..from.saturating_add(arguments.count)).collect();
        workers.map_collect_vec(&positions, |position| {
            let turn = Turn::at(node, *position, arguments.accounts);
            let (from, to) = (key(turn.account), key(turn.receiver(arguments.accounts)));
            let first = usize::try_from(turn.account).ok().and_then(|place| nonces.get(place));
            let nonce = first.copied().unwrap_or(0).saturating_add(turn.round);
            transfer(terms, from, to, nonce)
        })
    });
    queues.collect()
}

/// Counts what becomes final, on a thread that ends with the process; returns when it reads.
fn count_final(rpc: Rpc, gate: Arc<Gate>) -> Result<(), BenchError> {
    let (opened, answer) = mpsc::channel();
    thread::spawn(move || {
        let blocks = match Blocks::follow(&rpc, None) {
            Ok(blocks) => blocks,
            Err(error) => return opened.send(Err(error)),
        };
        opened.send(Ok(()))?;
        for block in blocks.map_while(Result::ok) {
            gate.finalized(u64::from(block.transactions));
        }
        Ok(())
    });
    Ok(answer.recv().map_err(|_| BenchError::Nothing("the stream's thread died"))??)
}

/// Sends a node its transfers; returns how many it took.
fn send(
    rpc: &Rpc,
    gate: &Gate,
    stop: &AtomicBool,
    queue: &[SignedTransaction],
    limit: u64,
    size: usize,
) -> Result<u64, BenchError> {
    let mut taken = 0u64;
    for batch in queue.chunks(size) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        if !gate.enter(count, limit, stop) {
            break;
        }
        // What is begun is finished, or nonces would be missing in the next run.
        submit_all(rpc, batch)?;
        taken = taken.saturating_add(count);
    }
    Ok(taken)
}

/// Submits until the node has taken everything.
pub(crate) fn submit_all(rpc: &Rpc, batch: &[SignedTransaction]) -> Result<(), BenchError> {
    let mut rest = batch.to_vec();
    while !rest.is_empty() {
        rest = submit(rpc, rest)?;
        if !rest.is_empty() {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Submits once; returns what the node had no room for.
fn submit(
    rpc: &Rpc,
    transactions: Vec<SignedTransaction>,
) -> Result<Vec<SignedTransaction>, BenchError> {
    let answers = match rpc.submit(transactions.clone()) {
        Ok(answers) => answers,
        Err(RpcError::Problem(problem)) if NO_ROOM.contains(&problem.code.as_str()) => {
            return Ok(transactions);
        }
        Err(error) => return Err(error.into()),
    };
    let mut rest = Vec::new();
    for (answer, signed) in answers.into_iter().zip(transactions) {
        if answer.status != SubmissionStatus::Refused {
            continue;
        }
        let code = answer.code.unwrap_or_default();
        if !NO_ROOM.contains(&code.as_str()) {
            let reason = answer.reason.unwrap_or_default();
            return Err(BenchError::Sender(format!("refused: {code}: {reason}")));
        }
        rest.push(signed);
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_opens_as_blocks_become_final_and_closes_for_good_at_the_end() {
        let (gate, stop) = (Gate::default(), AtomicBool::new(false));
        assert!(gate.enter(8, 10, &stop));
        gate.finalized(6);
        assert!(gate.enter(8, 10, &stop));
        assert_eq!(gate.lock().under_way(), 10);
        stop.store(true, Ordering::Relaxed);
        assert!(!gate.enter(1, 10, &stop));
    }
}
