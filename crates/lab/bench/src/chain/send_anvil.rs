//! The sender of transfers to anvil: signs first, then sends everything in batches and waits until
//! it is mined.

use super::{
    ethereum::{EthereumRpc, Transfer, call},
    sender,
};
use crate::error::BenchError;
use commonware_parallel::{Rayon, Strategy as _};
use k256::ecdsa::SigningKey;
use opengpu_crypto::{Keypair, hash};
use serde_json::{Value, json};
use std::{
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

/// Accounts that send.
pub(super) const ACCOUNTS: u32 = 1_000;
/// Calls in one request.
const BATCH: usize = 200;
/// Connections that send.
const LINES: usize = 2;
const GAS_PRICE: u64 = 1_000_000_000_000;
const VALUE: u64 = 1_000_000_000_000;
/// How long mining may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Looks at what is mined.
const TRIES: u32 = 5;
/// Longer than the pause between two blocks.
const PAUSE: Duration = Duration::from_millis(1_500);

/// What the sender takes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[arg(long)]
    pub(super) url: String,
    /// Transfers that every account has sent before.
    #[arg(long)]
    pub(super) from: u64,
    /// Transfers of every account.
    #[arg(long)]
    pub(super) count: u64,
    #[arg(long)]
    pub(super) chain: u64,
}

impl Arguments {
    /// The words that start a sender with these.
    pub(super) fn words(&self) -> Vec<String> {
        let Self { url, from, count, chain } = self;
        let numbers = [("--from", from), ("--count", count), ("--chain", chain)];
        let mut words = vec!["send-anvil".to_owned(), "--url".to_owned(), url.clone()];
        words.extend(numbers.iter().flat_map(|(name, it)| [(*name).to_owned(), it.to_string()]));
        words
    }
}

/// The secret of an account.
fn secret(number: u32) -> [u8; 32] {
    hash("opengpu/bench-anvil/v1", &[&number.to_be_bytes()]).0
}

/// Addresses of the accounts.
pub(super) fn addresses() -> Result<Vec<[u8; 20]>, BenchError> {
    let keys = (0..ACCOUNTS).map(|number| Keypair::secp256k1(secret(number)));
    let addresses = keys.map(|key| key.map(|key| *key.address().as_bytes()));
    addresses.collect::<Result<_, _>>().map_err(|error| BenchError::Sender(error.to_string()))
}

pub(super) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let lines = sign(arguments)?;
    let rpc = EthereumRpc::new(&arguments.url);
    let _ = sender::ready()?;
    let begin = Instant::now();
    let threads: Vec<_> = lines
        .into_iter()
        .map(|line| {
            let rpc = rpc.clone();
            thread::spawn(move || line.iter().try_for_each(|body| rpc.batch(body).map(|_| ())))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| BenchError::Sender("a thread died".into()))??;
    }
    wait_until_mined(&rpc)?;
    let seconds = begin.elapsed().as_secs_f64();
    sender::done()?;
    check_mined(&rpc, arguments)?;
    sender::tell_outcome(&json!({ "seconds": seconds }))
}

/// Bodies of requests for each connection; an account keeps to one of them.
fn sign(arguments: &Arguments) -> Result<Vec<Vec<String>>, BenchError> {
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let workers = Rayon::new(cores).expect("as many threads as there are cores");
    let addresses = addresses()?;
    let keys: Vec<_> =
        (0..ACCOUNTS).filter_map(|it| SigningKey::from_slice(&secret(it)).ok()).collect();
    let pairs: Vec<_> = keys.iter().zip(addresses.iter().cycle().skip(1)).collect();
    let share = pairs.len().div_ceil(LINES).max(1);
    let lines = pairs.chunks(share).map(|pairs| {
        let nonces = arguments.from..arguments.from.saturating_add(arguments.count);
        let transfers: Vec<_> =
            nonces.flat_map(|nonce| pairs.iter().map(move |pair| (nonce, *pair))).collect();
        let (chain, gas_price, value) = (arguments.chain, GAS_PRICE, VALUE);
        let raw = workers.map_collect_vec(&transfers, |(nonce, (key, to))| {
            Transfer { chain, nonce: *nonce, gas_price, to: **to, value }.sign(key)
        });
        raw.chunks(BATCH).map(body).collect()
    });
    Ok(lines.collect())
}

fn body(batch: &[Vec<u8>]) -> String {
    let calls = batch.iter().enumerate().map(|(id, raw)| {
        call(id, "eth_sendRawTransaction", json!([format!("0x{}", hex::encode(raw))]))
    });
    Value::Array(calls.collect()).to_string()
}

/// Until nothing waits in the pool.
fn wait_until_mined(rpc: &EthereumRpc) -> Result<(), BenchError> {
    let begin = Instant::now();
    loop {
        let status = rpc.ask("txpool_status", json!([]))?;
        let none = |name: &str| status.get(name).and_then(Value::as_str) == Some("0x0");
        if none("pending") && none("queued") {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(BenchError::Slow { what: "mining", seconds: PATIENCE.as_secs() });
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// All transfers so far are mined. The last block may still move while it is asked about, and then
/// the answer is an error.
fn check_mined(rpc: &EthereumRpc, arguments: &Arguments) -> Result<(), BenchError> {
    let each = arguments.from.saturating_add(arguments.count);
    let wanted = u64::from(ACCOUNTS).saturating_mul(each);
    let mut found = sum_of_nonces(rpc);
    for _ in 0..TRIES {
        if matches!(found, Ok(mined) if mined == wanted) {
            return Ok(());
        }
        thread::sleep(PAUSE);
        found = sum_of_nonces(rpc);
    }
    let mined = found?;
    Err(BenchError::Peer(format!("{mined} transfers are mined instead of {wanted}")))
}

/// How many transfers of our accounts are mined.
fn sum_of_nonces(rpc: &EthereumRpc) -> Result<u64, BenchError> {
    let calls = addresses()?.into_iter().enumerate().map(|(id, address)| {
        let address = format!("0x{}", hex::encode(address));
        call(id, "eth_getTransactionCount", json!([address, "latest"]))
    });
    let answers = rpc.batch(&Value::Array(calls.collect()).to_string())?;
    let nonce = |answer: &Value| {
        let digits = answer.as_str()?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    let nonces = answers.iter().map(nonce).collect::<Option<Vec<_>>>();
    let nonces = nonces.ok_or_else(|| BenchError::Peer("a nonce is no number".to_owned()))?;
    Ok(nonces.into_iter().sum())
}
