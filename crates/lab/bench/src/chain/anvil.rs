//! Anvil as a process, loaded in turns with ours.
//!
//! Twice: with a block for each transaction, as it mines by itself, and with a block every second
//! without a limit of gas. The one with the cheaper transfer is what ours is compared with; the other
//! is printed. Neither keeps old states: with a copy for each block, ten thousand transactions between
//! a thousand accounts would take 14 GiB and 25 ms each.

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

/// When it mines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mining {
    /// At every transaction, as it does by itself.
    Instant,
    /// Every second, whatever waits.
    Interval,
}

impl Mining {
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Instant => &["--prune-history"],
            Self::Interval => {
                &["--prune-history", "--block-time", "1", "--disable-block-gas-limit"]
            }
        }
    }

    /// Transfers of every account in one turn: some seconds.
    const fn turns(self) -> u64 {
        match self {
            Self::Instant => 2,
            Self::Interval => 10,
        }
    }
}

/// Anvil in both ways of mining.
#[derive(Debug)]
pub(super) struct Anvils {
    instant: Anvil,
    interval: Anvil,
}

/// One turn of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theirs {
    pub(super) instant: Mined,
    pub(super) interval: Mined,
}

impl Theirs {
    /// The one with the cheaper transfer.
    pub(super) fn best(&self) -> &Mined {
        if self.instant.cost < self.interval.cost { &self.instant } else { &self.interval }
    }
}

impl fmt::Display for Theirs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "anvil {}; a block each {}", self.interval, self.instant)
    }
}

impl Anvils {
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self, BenchError> {
        Ok(Self {
            instant: Anvil::start(program, folder, Mining::Instant)?,
            interval: Anvil::start(program, folder, Mining::Interval)?,
        })
    }

    pub(super) fn round(&mut self) -> Result<Theirs, BenchError> {
        Ok(Theirs { instant: self.instant.round()?, interval: self.interval.round()? })
    }
}

/// A running anvil.
#[derive(Debug)]
struct Anvil {
    process: Process,
    url: String,
    mining: Mining,
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
        write!(f, "{per_second:.0} transfers/s, {cost:.0} us each, {resident:.0} MiB")
    }
}

impl Anvil {
    /// Starts it and gives tokens to the accounts.
    fn start(program: &Path, folder: &Path, mining: Mining) -> Result<Self, BenchError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.map_err(BenchError::system("looking for a free port"))?.port();
        let mut command = Command::new(program);
        command.args(["--quiet", "--no-request-size-limit", "--port"]).arg(port.to_string());
        command.args(mining.words());
        let log = folder.join(format!("anvil-{port}.log"));
        let process = Process::start("anvil", &mut command, &log)?;
        let url = format!("http://127.0.0.1:{port}");
        let mut anvil = Self { process, url, mining, sent: 0 };
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
    fn round(&mut self) -> Result<Mined, BenchError> {
        let (url, from, count) = (self.url.clone(), self.sent, self.mining.turns());
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
