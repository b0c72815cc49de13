//! Anvil as a process, loaded in turns with ours.
//!
//! One process for the whole run. It mines a block every second, without a limit of gas, so that no
//! block is full, and keeps no old states. By itself it mines at every transaction: in two short runs
//! that cost 1.6 and 2.1 times as much, so this is the stronger peer; and under batches version 1.7.1
//! then stops answering now and then, while its memory grows past 13 GiB.

use super::{
    ethereum::{EthereumRpc, call},
    send_anvil::{self, ACCOUNTS},
    sender::Sender,
};
use crate::{error::BenchError, figures::float, machine, process::Process};
use serde_json::{Value, json};
use std::{
    fmt,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const CHAIN: u64 = 31_337;
/// What each account has: enough for any number of transfers.
const BALANCE: &str = "0xffffffffffffffffffffff";
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A block every second; nothing is full and nothing is kept.
const MINING: [&str; 4] = ["--block-time", "1", "--disable-block-gas-limit", "--prune-history"];
/// Transfers of every account in one turn.
const TURNS: u64 = 10;

/// A running anvil.
#[derive(Debug)]
pub(super) struct Anvil {
    process: Process,
    url: String,
    sent: u64,
}

/// One turn of anvil.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mined {
    pub(super) per_second: f64,
    /// Processor time of a transfer in microseconds.
    pub(super) cost: f64,
    /// Memory in use at the end, in MiB.
    pub(super) resident: f64,
    pub(super) load: f64,
}

impl fmt::Display for Mined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_second, cost, resident, .. } = self;
        write!(f, "anvil {per_second:.0} transfers/s, {cost:.0} us each, {resident:.0} MiB")
    }
}

impl Anvil {
    /// Starts it and gives tokens to the accounts.
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self, BenchError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.map_err(BenchError::system("looking for a free port"))?.port();
        let mut command = Command::new(program);
        command.args(["--quiet", "--no-request-size-limit", "--port"]).arg(port.to_string());
        let log = folder.join("anvil.log");
        let process = Process::start("anvil", command.args(MINING), &log)?;
        let url = format!("http://127.0.0.1:{port}");
        let mut anvil = Self { process, url, sent: 0 };
        anvil.wait()?;
        let calls = send_anvil::addresses()?.into_iter().enumerate().map(|(id, address)| {
            let address = format!("0x{}", hex::encode(address));
            call(id, "anvil_setBalance", json!([address, BALANCE]))
        });
        EthereumRpc::new(&anvil.url).batch(&Value::Array(calls.collect()).to_string())?;
        Ok(anvil)
    }

    fn wait(&mut self) -> Result<(), BenchError> {
        let (rpc, begin) = (EthereumRpc::new(&self.url), Instant::now());
        while rpc.ask("eth_blockNumber", json!([])).is_err() {
            self.process.check()?;
            if begin.elapsed() > PATIENCE {
                return Err(BenchError::Slow { what: "starting anvil", seconds: 60 });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Sends some seconds of transfers and waits until all are mined.
    pub(super) fn round(&mut self) -> Result<Mined, BenchError> {
        let (url, from, count) = (self.url.clone(), self.sent, TURNS);
        let arguments = send_anvil::Arguments { url, from, count, chain: CHAIN };
        let mut sender = Sender::start(&arguments.words())?;
        let before = self.process.usage();
        sender.go()?;
        sender.done()?;
        let after = self.process.usage();
        let load = machine::load_average();
        let outcome = sender.stop()?;
        self.sent = self.sent.saturating_add(count);
        let seconds = outcome.get("seconds").and_then(Value::as_f64).unwrap_or(f64::NAN);
        let transfers = float(u64::from(ACCOUNTS).saturating_mul(count));
        Ok(Mined {
            per_second: transfers / seconds,
            cost: after.since(&before).as_secs_f64() * 1e6 / transfers,
            resident: float(after.resident) / f64::from(1 << 20),
            load,
        })
    }
}
