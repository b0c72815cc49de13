//! B11: what four validators finalize, how fast, and what it costs, beside anvil.
//!
//! ```text
//!   start four nodes ─► idle a moment ─► [ load ours | signature limit | load anvil ] x rounds
//!                                                                    ─► idle minutes ─► report
//! ```
//!
//! - Everything is a process of its own: four nodes of the released binary, anvil, and a sender
//!   (this program again) that signs before the clock starts and speaks the public RPC.
//! - A round is one ratio: the rate of the network over the signature limit measured right after
//!   it, and the processor time of one validator over anvil's. The median of the rounds counts.
//! - Finality is measured where a user sees it: the block's arrival on a stream minus the time in
//!   its header, which its leader took when it proposed.

mod accounts;
mod anvil;
mod cluster;
pub(crate) mod ethereum;
mod fund;
mod limit;
mod report;
mod round;
mod send_anvil;
mod send_ours;
mod sender;

pub(crate) use accounts::{Terms, transaction};
pub(crate) use send_ours::submit_all;

use crate::{error::BenchError, machine, process, tell, told::Told, watch::Watcher};
use anvil::Anvil;
use clap::{Args, Parser, Subcommand};
use cluster::Cluster;
use limit::Limit;
use report::{Report, Round};
use round::Idle;
use std::{path::PathBuf, thread, time::Duration};

/// Measures the chain beside its peer.
#[derive(Debug, Parser)]
#[command(name = "bench-chain", args_conflicts_with_subcommands = true)]
pub struct Program {
    #[command(subcommand)]
    sender: Option<Sender>,
    #[command(flatten)]
    arguments: Option<Arguments>,
}

/// What this program is when it starts itself.
#[derive(Debug, Subcommand)]
enum Sender {
    /// Sends transfers to our nodes.
    #[command(hide = true)]
    SendOurs(send_ours::Arguments),
    /// Sends transfers to anvil.
    #[command(hide = true)]
    SendAnvil(send_anvil::Arguments),
}

/// What a measurement takes.
#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(flatten)]
    told: Told,
    /// Turns of ours and the peer.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds that are measured in a turn of ours.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Seconds without load at the end.
    #[arg(long, default_value_t = 300)]
    idle_seconds: u64,
    /// Accounts that exist and send.
    #[arg(long, default_value_t = 100_000)]
    accounts: u32,
    /// Transfers that are sent and not yet final, at most.
    #[arg(long, default_value_t = 4_000)]
    in_flight: u64,
    /// Transfers in one request.
    #[arg(long, default_value_t = 500)]
    batch: usize,
    /// Keeps the nodes' folders here instead of throwing them away.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl Arguments {
    /// A quick run measures less of everything.
    fn settled(mut self) -> Self {
        if self.told.quick {
            self.rounds = self.rounds.min(2);
            self.seconds = self.seconds.min(5);
            self.idle_seconds = self.idle_seconds.min(15);
            self.accounts = self.accounts.min(10_000);
        }
        self
    }
}

/// Measures, or sends if this is a sender.
pub fn run(program: Program) -> Result<(), BenchError> {
    match (program.sender, program.arguments) {
        (Some(Sender::SendOurs(arguments)), _) => send_ours::run(arguments),
        (Some(Sender::SendAnvil(arguments)), _) => send_anvil::run(&arguments),
        (None, Some(arguments)) => measure(arguments.settled()),
        (None, None) => Err(BenchError::Nothing("no arguments")),
    }
}

fn measure(arguments: Arguments) -> Result<(), BenchError> {
    process::end_with_us()?;
    let scratch = match &arguments.keep {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(BenchError::system("making a folder"))?),
    };
    let scratch = scratch.as_ref().map(|folder| folder.path().to_owned());
    let folder = arguments.keep.clone().or(scratch).ok_or(BenchError::Nothing("no folder"))?;
    let mut report = Report::new();
    tell(format!("load average {:.2}", machine::load_average()));

    tell(format!("four validators with {} accounts", arguments.accounts));
    let mut cluster = Cluster::start(&arguments.told.opengpu, &folder, arguments.accounts)?;
    let watcher = Watcher::start(&cluster.urls());
    let settle = if arguments.told.quick { 5 } else { 30 };
    report.fresh = Some(round::idle(&mut cluster, &watcher, settle, settle)?);

    let mut anvil = match arguments.told.peer("anvil") {
        Ok(path) => Some(Anvil::start(&path, &folder)?),
        Err(why) => {
            tell(format!("no anvil: {why}"));
            report.no_peer = Some(why);
            None
        }
    };
    let limit = Limit::new();
    let mut sender = round::Sending::new(&arguments, cluster.chain());
    tell("a turn that warms up and does not count");
    sender.round(&mut cluster, &watcher, 5.min(arguments.seconds))?;
    for number in 1..=arguments.rounds {
        let ours = sender.round(&mut cluster, &watcher, arguments.seconds)?;
        let per_second = limit.per_second();
        tell(format!("round {number}: {ours}; signature limit {:.0}/s over 4", per_second));
        let theirs = anvil.as_mut().map(Anvil::round).transpose()?;
        if let Some(theirs) = &theirs {
            tell(format!("round {number}: {theirs}"));
        }
        report.rounds.push(Round { ours, limit: per_second, theirs });
    }
    drop(anvil);

    report.idle = Some(idle_minutes(&mut cluster, &watcher, arguments.idle_seconds)?);
    cluster.stop();
    report.finish().publish(&arguments.told)
}

/// The last minute is measured; what comes before is silence.
fn idle_minutes(
    cluster: &mut Cluster,
    watcher: &Watcher,
    seconds: u64,
) -> Result<Idle, BenchError> {
    tell(format!("idle for {seconds} s"));
    let measured = seconds.min(60.max(seconds / 2));
    thread::sleep(Duration::from_secs(seconds.saturating_sub(measured)));
    round::idle(cluster, watcher, 0, measured)
}
