//! Anvil, which mines a block for each transaction: a transfer from its submission to its receipt.

use crate::{
    chain::ethereum::{EthereumRpc, Transfer},
    error::BenchError,
    figures::median,
    process::Process,
};
use k256::ecdsa::SigningKey;
use opengpu_crypto::Keypair;
use serde_json::{Value, json};
use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const CHAIN: u64 = 31_337;
const BALANCE: &str = "0xffffffffffffffffffffff";
const GAS_PRICE: u64 = 1_000_000_000_000;
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const SECRET: [u8; 32] = [0x21; 32];

/// A running anvil with one account.
#[derive(Debug)]
pub(super) struct Anvil {
    rpc: EthereumRpc,
    key: SigningKey,
    nonce: u64,
    _process: Process,
}

impl Anvil {
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self, BenchError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.map_err(BenchError::system("looking for a free port"))?.port();
        let mut command = Command::new(program);
        command.args(["--quiet", "--port", &port.to_string()]);
        let mut process = Process::start("anvil", &mut command, &folder.join("anvil.log"))?;
        let (rpc, begin) = (EthereumRpc::new(&format!("http://127.0.0.1:{port}")), Instant::now());
        while rpc.ask("eth_blockNumber", json!([])).is_err() {
            process.check()?;
            if begin.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(BenchError::Slow { what: "starting anvil", seconds });
            }
            thread::sleep(LOOK_EVERY);
        }
        let bad = |error: &dyn std::fmt::Display| BenchError::Peer(error.to_string());
        let owner = Keypair::secp256k1(SECRET).map_err(|error| bad(&error))?;
        let key = SigningKey::from_slice(&SECRET).map_err(|error| bad(&error))?;
        let address = format!("0x{}", hex::encode(owner.address().as_bytes()));
        rpc.ask("anvil_setBalance", json!([address, BALANCE]))?;
        let mut anvil = Self { rpc, key, nonce: 0, _process: process };
        anvil.one(5)?;
        Ok(anvil)
    }

    /// Milliseconds from a transfer's submission to its receipt, the middle of so many.
    pub(super) fn one(&mut self, count: u32) -> Result<f64, BenchError> {
        let times: Vec<_> = (0..count).map(|_| self.transfer()).collect::<Result<_, _>>()?;
        median(&times).ok_or(BenchError::Nothing("no transfers"))
    }

    fn transfer(&mut self) -> Result<f64, BenchError> {
        let (chain, gas_price) = (CHAIN, GAS_PRICE);
        let transfer = Transfer { chain, nonce: self.nonce, gas_price, to: [7; 20], value: 1 };
        self.nonce = self.nonce.saturating_add(1);
        let begin = Instant::now();
        let raw = format!("0x{}", hex::encode(transfer.sign(&self.key)));
        let id = self.rpc.ask("eth_sendRawTransaction", json!([raw]))?;
        loop {
            match self.rpc.ask("eth_getTransactionReceipt", json!([id]))? {
                Value::Null if begin.elapsed() > PATIENCE => {
                    return Err(BenchError::Slow { what: "mining", seconds: PATIENCE.as_secs() });
                }
                Value::Null => thread::sleep(Duration::from_millis(1)),
                _ => return Ok(begin.elapsed().as_secs_f64() * 1e3),
            }
        }
    }
}
