//! `opengpu provider start`: the agent on its folder, until it is told to stop.
//!
//! ```text
//!   folder, wallet, node ─► Agent ─► announced ─► ready ─► a signal: the agent ends, leases stay open
//!                             ├─► agent.sock: status, pause, resume, drain, auctions, bid
//!                             └─► earnings.csv
//! ```

use super::{
    auctions, bid,
    book::Book,
    chain::NodeChain,
    control::{Wanted, listen, serve},
    devices::Offering,
    folder::Folder,
    report::{Around, Report, word},
    settings::Settings,
};
use crate::{
    context::Context,
    exit::{Complaint, Exit},
    node,
};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_agent::{
    Agent, AnnounceError, Config, StartError,
    chain::Chain,
    core::Wish,
    presence::{Presence, Sight, Unattended},
};
use opengpu_exec::Launch;
use opengpu_link::Quota;
use opengpu_types::{Address, Amount, Millis};
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tracing::error;

/// What is logged unless told otherwise.
const DEFAULT_LOG: &str = "warn,opengpu=info,opengpu_agent=info";
const LOOK_EVERY: Duration = Duration::from_millis(100);
const WISH: &str = "wish";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the provider's account: its name [default: the configured key].
    #[arg(long, value_name = "NAME")]
    wallet: Option<String>,
    /// Stake of a new provider, in oGPU: more of it allows larger leases.
    #[arg(long, value_name = "AMOUNT", default_value = "0")]
    stake: Amount,
    /// Key whose account pays reserve and fees: so a provider needs no token of its own.
    #[arg(long, value_name = "NAME")]
    sponsor: Option<String>,
    /// Also end when stdin ends.
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

pub(crate) fn run(context: &Context, folder: &Folder, arguments: &Arguments) -> Result<()> {
    let settings = folder.settings()?;
    let offering = Offering::new(&folder.measured()?, &settings.devices)?;
    let _lock = folder.lock()?;
    let wallet = context.wallet_name(arguments.wallet.as_deref()).map_err(|_| {
        Complaint::usage("which key is the provider's?").hint("name one with --wallet")
    })?;
    let owner = context.unlock(&wallet)?;
    let sponsor = arguments.sponsor.as_deref().map(|name| context.unlock(name)).transpose()?;
    let stop = on_signals()?;
    if arguments.until_stdin_ends {
        node::end_with_stdin()?;
    }
    node::log(DEFAULT_LOG);
    let chain = Arc::new(NodeChain::open(context.rpc.clone(), owner, sponsor)?);
    let config = config(folder, &settings, &offering)?;
    let policy = config.policy.clone();
    let agent = Agent::start(config, Arc::clone(&chain) as Arc<dyn Chain>, presence(&settings));
    let agent = Arc::new(agent.map_err(starting)?);
    agent.wish(kept_wish(folder));
    agent.announce(arguments.stake).map_err(announcing)?;
    let offering = offering.in_sequence(agent.sequence());
    let desk = Desk {
        agent: Arc::downgrade(&agent),
        account: chain.account(),
        folder: folder.clone(),
        hours: policy.hours,
        idle_only: policy.idle_only,
        offering: offering.clone(),
    };
    let listener = listen(&folder.socket())?;
    spawn("provider-socket", move || serve(&listener, |wanted| desk.answer(&wanted)))?;
    let book = Book::open(folder)?;
    let (book_chain, book_stop) = (Arc::clone(&chain), Arc::clone(&stop));
    let book = spawn("provider-book", move || book.keep(&*book_chain, &book_stop))?;
    ready(context, &agent, chain.account(), offering.count())?;
    while !stop.load(Ordering::SeqCst) {
        thread::sleep(LOOK_EVERY);
    }
    context.output.note("Stopping; open leases go on when it is started again.");
    let _ = std::fs::remove_file(folder.socket());
    drop(agent);
    if book.join().is_err() {
        error!("the thread of earnings has panicked");
    }
    Ok(())
}

fn ready(context: &Context, agent: &Agent, account: Address, devices: usize) -> Result<()> {
    let relay = agent.contact().relay.as_str().to_owned();
    let own = match devices {
        1 => "its device".to_owned(),
        devices => format!("its {devices} devices"),
    };
    let account = account.to_string();
    let data = json!({ "ready": true, "account": account, "relay": relay, "devices": devices });
    context.output.show_line(&data, |_| match relay.as_str() {
        "" => format!("Ready: {account} offers {own}, to clients in this network."),
        relay => format!("Ready: {account} offers {own}, through {relay}."),
    })
}

fn config(folder: &Folder, settings: &Settings, offering: &Offering) -> Result<Config> {
    let secrets = folder.secrets()?;
    let launch = Launch {
        program: std::env::current_exe()?,
        arguments: vec![crate::arguments::EXECUTOR.into()],
        threads: None,
        device: None,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    let (link, state) = (settings.link(*secrets.session)?, folder.state());
    opengpu_client::wallet::create_folder(&state)?;
    let mut config = Config::new(state, link, *secrets.sealing, launch, settings.policy()?);
    config.previous_sealing = secrets.previous.iter().map(|seed| **seed).collect();
    config.devices = offering.groups();
    config.quota = Quota::of(settings.quota_gib.saturating_mul(1 << 30));
    config.hold = settings.hold_gib.saturating_mul(1 << 30);
    Ok(config)
}

fn presence(settings: &Settings) -> Box<dyn Presence> {
    #[cfg(target_os = "linux")]
    if settings.idle_only {
        return Box::new(opengpu_agent::presence::Attended::default());
    }
    let _ = settings;
    Box::new(Unattended)
}

/// What can be seen of an owner here.
pub(crate) fn sight() -> Sight {
    #[cfg(target_os = "linux")]
    return opengpu_agent::presence::Attended::default().sight();
    #[cfg(not(target_os = "linux"))]
    Sight::Nothing
}

/// Set by the first signal; the second one ends the process at once.
fn on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let (again, first) = (Arc::clone(&stop), Arc::clone(&stop));
        flag::register_conditional_shutdown(signal, 1, again).context("watching for signals")?;
        flag::register(signal, first).context("watching for signals")?;
    }
    Ok(stop)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn starting(error: StartError) -> anyhow::Error {
    match error {
        StartError::Offers(_) => {
            Complaint::new(Exit::Failed, format!("the provider cannot be announced: {error}"))
                .hint("see `devices`, `kinds` and `rate` in provider.toml")
                .into()
        }
        error => error.into(),
    }
}

fn announcing(error: AnnounceError) -> Complaint {
    let told = format!("the provider cannot be announced: {error}");
    let complaint = Complaint::new(Exit::Failed, told);
    match error {
        AnnounceError::Chain(_) | AnnounceError::Refused(_) => complaint.hint(
            "an account without tokens needs `--sponsor NAME`, or on a local network \
             `opengpu dev faucet ADDRESS AMOUNT`",
        ),
        AnnounceError::Relay => complaint.hint("see `relay` in provider.toml"),
    }
}

/// What the owner wished last: a pause outlives a restart.
fn kept_wish(folder: &Folder) -> Wish {
    let text = std::fs::read_to_string(folder.path().join(WISH)).unwrap_or_default();
    let all = [Wish::Work, Wish::Drain, Wish::Pause];
    all.into_iter().find(|wish| word(*wish) == text.trim()).unwrap_or_default()
}

fn keep_wish(folder: &Folder, wish: Wish) -> Result<()> {
    folder.replace(WISH, &format!("{}\n", word(wish)))
}

/// Who answers the owner.
struct Desk {
    agent: Weak<Agent>,
    account: Address,
    folder: Folder,
    hours: opengpu_agent::hours::Hours,
    idle_only: bool,
    offering: Offering,
}

impl Desk {
    /// Does what is wanted and answers; nothing once the agent has ended.
    fn answer(&self, wanted: &Wanted) -> Option<Value> {
        let agent = self.agent.upgrade()?;
        let answer = match wanted {
            Wanted::Auctions { task, offer } => {
                serde_json::to_value(auctions::seen(&agent, task.as_deref(), *offer))
            }
            Wanted::Bid { task, rate, offer } => {
                serde_json::to_value(bid::place(&agent, task, rate, *offer))
            }
            wanted => serde_json::to_value(self.report(&agent, wanted)),
        };
        answer.ok()
    }

    /// Where it stands once it was told the wish.
    fn report(&self, agent: &Agent, wanted: &Wanted) -> Report {
        let mut status = agent.status();
        if let Some(wish) = wanted.wish() {
            if let Err(error) = keep_wish(&self.folder, wish) {
                error!(error = format!("{error:#}"), "the wish is not kept");
            }
            agent.wish(wish);
            status.wish = wish;
        }
        let relay = agent.contact().relay.as_str().to_owned();
        let sight = self.idle_only.then(sight);
        let (open, reachable) = (self.hours.contains(now()), agent.is_reachable());
        let around = Around { open, reachable, idle_only: self.idle_only, sight, now: now() };
        Report::new(self.account, relay, (&status, &self.offering), around)
    }
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Where the folder of a provider is unless another one is named.
pub(crate) fn usual(context: &Context) -> PathBuf {
    context.home.join("provider")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_outlives_a_restart() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        assert_eq!(kept_wish(&folder), Wish::Work);
        keep_wish(&folder, Wish::Pause).unwrap();
        assert_eq!(kept_wish(&folder), Wish::Pause);
        keep_wish(&folder, Wish::Work).unwrap();
        assert_eq!(kept_wish(&folder), Wish::Work);
    }
}
