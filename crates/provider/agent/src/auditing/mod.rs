//! The threads around the core of audits: what the chain shows comes in, what is decided goes out.
//!
//! ```text
//!   lookout, fetches, benches, sender ──letters──► clerk: core.apply ──effects──► docket, fetches, benches, sender
//! ```
//!
//! One bench repeats what this provider was drawn for, no longer than its phase lasts; the other one looks into
//! what is disputed, and waits for nobody's program but that one.
//!
//! As at the desk of leases, one thread applies, what is to be durable is on disk before the next effect,
//! and everything that may block runs elsewhere. The two share nothing but the chain and the records: a
//! lease does not wait for an audit, nor an audit for a lease.

mod bench;
mod cases;
mod fetch;
pub(crate) mod matter;
mod papers;
mod watch;

pub(crate) use watch::Watch;

use crate::audit::{Audits, Effect, Input, Seen, Word, words};
use crate::chain::Chain;
use crate::core::Answer;
use crate::delivery::Depot;
use crate::desk::{LONGEST_WAIT, answer, spawn};
use crate::docket::Docket;
use crate::lookout::Clock;
use crate::record::Records;
use crate::run::Controls;
use bench::{Bench, Chore};
use cases::Cases;
use fetch::Fetcher;
use matter::Matter;
use opengpu_exec::Launch;
use opengpu_link::Endpoint;
use opengpu_types::{
    Address, Height, LeaseId, MarketOperation, MarketParameters, Millis, SegmentIndex,
};
use papers::Papers;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::{debug, error, info, warn};

/// What comes to the clerk.
#[derive(Clone, Debug)]
enum Letter {
    /// This is on chain.
    Seen(BTreeMap<LeaseId, Option<(Seen, Matter)>>),
    /// The state before a segment was posted in the block of this height.
    Posted { lease: LeaseId, index: SegmentIndex, height: Height },
    /// Something that the core is told as it is.
    Core(Input),
}

/// Where letters are put.
#[derive(Clone, Debug)]
struct Tray(Sender<Letter>);

impl Tray {
    /// Tells the clerk; one that is gone does not care.
    fn tell(&self, letter: Letter) {
        let _ = self.0.send(letter);
    }
}

/// Where operations go on their way to the chain.
#[derive(Clone, Debug)]
struct Outbox(Sender<(LeaseId, MarketOperation)>);

impl Outbox {
    fn send(&self, lease: LeaseId, operation: MarketOperation) {
        let _ = self.0.send((lease, operation));
    }
}

/// Sends operations one after the other, until the clerk is gone.
fn send_all(chain: &dyn Chain, sending: &Receiver<(LeaseId, MarketOperation)>, tray: &Tray) {
    for (lease, operation) in sending {
        let answer = answer(chain, operation);
        tray.tell(Letter::Core(Input::Submitted { lease, answer }));
    }
}

/// Leases whose audits are to be looked at.
type Wanted = Arc<Mutex<BTreeSet<LeaseId>>>;

/// All that audits take of an agent.
pub(crate) struct Setting {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) market: MarketParameters,
    pub(crate) clock: Clock,
    pub(crate) records: Records,
    pub(crate) depot: Depot,
    pub(crate) launch: Launch,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) runtime: Handle,
    /// Docket and cases are here.
    pub(crate) folder: PathBuf,
    pub(crate) stop: Arc<AtomicBool>,
}

/// What was started; nothing where a network does not audit.
#[derive(Default)]
pub(crate) struct Started {
    pub(crate) office: Option<Office>,
    /// For the lookout.
    pub(crate) watch: Option<Watch>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

/// Audits while they run.
pub(crate) struct Office {
    tray: Tray,
    controls: [Controls; 2],
}

impl Office {
    /// Ends what runs; what was kept is gone on with by the next agent.
    pub(crate) fn stop(&self) {
        self.controls.iter().for_each(Controls::stop);
        self.tray.tell(Letter::Core(Input::Ticked));
    }
}

impl Setting {
    /// Starts the threads.
    pub(crate) fn start(self) -> io::Result<Started> {
        let (docket, cases) = (Docket::open(&self.folder)?, Cases::open(&self.folder)?);
        let (tray, letters) = mpsc::channel();
        let ((bench, chores), (looks, looked)) = (mpsc::channel(), mpsc::channel());
        let (outbox, sending) = mpsc::channel();
        let (tray, outbox) = (Tray(tray), Outbox(outbox));
        let (wanted, account) = (Wanted::default(), self.chain.account());
        let worker = || Bench {
            account,
            launch: self.launch.clone(),
            depot: self.depot.clone(),
            records: self.records.clone(),
            cases: cases.clone(),
            tray: tray.clone(),
            outbox: outbox.clone(),
            controls: Controls::default(),
            current: None,
        };
        let (repeater, looker) = (worker(), worker());
        let controls = [repeater.controls.clone(), looker.controls.clone()];
        let fetcher = Fetcher {
            chain: Arc::clone(&self.chain),
            endpoint: self.endpoint,
            depot: self.depot,
            cases: cases.clone(),
            runtime: self.runtime,
            tray: tray.clone(),
        };
        let clerk = Clerk {
            account,
            core: Audits::new(account),
            clock: self.clock,
            docket,
            cases,
            records: self.records,
            fetcher,
            bench,
            looks,
            outbox,
            tray: tray.clone(),
            wanted: Arc::clone(&wanted),
            stop: self.stop,
            matters: BTreeMap::new(),
            until: BTreeMap::new(),
            posted: BTreeMap::new(),
        };
        let (chain, answers) = (self.chain, tray.clone());
        let threads = vec![
            spawn("agent-audits", move || clerk.work(&letters))?,
            spawn("agent-bench", move || repeater.work(&chores))?,
            spawn("agent-look", move || looker.work(&looked))?,
            spawn("agent-word", move || send_all(&*chain, &sending, &answers))?,
        ];
        let watch = Some(Watch { market: self.market, wanted, tray: tray.clone() });
        Ok(Started { office: Some(Office { tray, controls }), watch, threads })
    }
}

/// Whoever keeps the docket.
struct Clerk {
    account: Address,
    core: Audits,
    clock: Clock,
    docket: Docket,
    cases: Cases,
    records: Records,
    fetcher: Fetcher,
    bench: Sender<Chore>,
    looks: Sender<Chore>,
    outbox: Outbox,
    tray: Tray,
    wanted: Wanted,
    stop: Arc<AtomicBool>,
    matters: BTreeMap<LeaseId, Matter>,
    /// When the phase of an audit ends.
    until: BTreeMap<LeaseId, Millis>,
    /// Where states were posted.
    posted: BTreeMap<(LeaseId, SegmentIndex), Height>,
}

impl Clerk {
    fn work(mut self, letters: &Receiver<Letter>) {
        match self.docket.restore() {
            Ok(kept) => {
                let leases = kept.keys().copied().collect();
                if let Err(error) = self.cases.retain(&leases) {
                    warn!(%error, "old cases are not removed");
                }
                self.apply(Input::Restored { kept });
            }
            Err(error) => error!(%error, "the docket cannot be read"),
        }
        let mut wake = None;
        while !self.stop.load(Ordering::SeqCst) {
            let wait = wake.map_or(LONGEST_WAIT, |at: Millis| {
                Duration::from_millis(at.since(self.clock.now()).0).min(LONGEST_WAIT)
            });
            let letter = match letters.recv_timeout(wait) {
                Ok(letter) => letter,
                Err(RecvTimeoutError::Timeout) => Letter::Core(Input::Ticked),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(input) = self.read(letter) {
                wake = self.apply(input);
            }
        }
    }

    /// What the core is told of a letter, if anything.
    fn read(&mut self, letter: Letter) -> Option<Input> {
        match letter {
            Letter::Core(input) => Some(input),
            Letter::Posted { lease, index, height } => {
                self.posted.insert((lease, index), height);
                None
            }
            Letter::Seen(audits) => {
                let mut seen = BTreeMap::new();
                for (lease, found) in audits {
                    seen.insert(lease, found.as_ref().map(|(seen, _)| seen.clone()));
                    let Some((found, matter)) = found else { continue };
                    let deadline = found.audit.deadline();
                    self.until.extend(deadline.map(|until| (lease, until)));
                    self.matters.insert(lease, matter);
                }
                Some(Input::Seen { audits: seen })
            }
        }
    }

    /// Applies an input and does what follows; says when to tell of the time.
    fn apply(&mut self, input: Input) -> Option<Millis> {
        let (mut wake, mut unkept) = (None, BTreeSet::new());
        for effect in self.core.apply(self.clock.now(), input) {
            debug!(?effect);
            match effect {
                Effect::WakeAt(at) => wake = Some(at),
                Effect::Keep { lease, kept } => {
                    if let Err(error) = self.docket.keep(lease, &kept) {
                        error!(%lease, %error, "the disk failed");
                        unkept.insert(lease);
                    }
                }
                // What could not be kept is not sent either: a later turn tries again.
                Effect::Submit { lease, .. } if unkept.contains(&lease) => {
                    let answer = Answer::Unkept;
                    self.tray.tell(Letter::Core(Input::Submitted { lease, answer }));
                }
                Effect::Submit { lease, word } => self.say(lease, &word),
                Effect::Fetch { lease, index, posted } => self.fetch(lease, index, posted),
                Effect::Repeat { lease, index } => {
                    let patience = self.left(lease);
                    let chore = |matter| Chore::Repeat { matter, index, patience };
                    self.give(&self.bench, lease, chore);
                }
                Effect::Look { lease, index, ends } => {
                    self.give(&self.looks, lease, |matter| Chore::Look { matter, index, ends });
                }
                Effect::Forget { lease } => self.forget(lease),
            }
        }
        // What the lookout saw of a lease that is no case is not needed.
        let leases = self.core.leases();
        self.matters.retain(|lease, _| leases.contains(lease));
        self.until.retain(|lease, _| leases.contains(lease));
        self.posted.retain(|(lease, _), _| leases.contains(lease));
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = leases;
        wake
    }

    /// Says something on chain.
    fn say(&self, lease: LeaseId, word: &Word) {
        info!(%lease, word = word.name(), "said in an audit");
        if let Word::Show { index, unit } = *word {
            return self.give(&self.looks, lease, |matter| Chore::Show { matter, index, unit });
        }
        let (account, records, cases) = (self.account, &self.records, &self.cases);
        let operation = self.matters.get(&lease).and_then(|matter| {
            words::operation(lease, word, &Papers { account, matter, records, cases })
        });
        match operation {
            Some(operation) => self.outbox.send(lease, operation),
            None => {
                warn!(%lease, word = word.name(), "what belongs to it is not there");
                let answer = Answer::Unavailable;
                self.tray.tell(Letter::Core(Input::Submitted { lease, answer }));
            }
        }
    }

    fn fetch(&self, lease: LeaseId, index: SegmentIndex, posted: bool) {
        let height = self.posted.get(&(lease, index)).copied();
        let matter = self.matters.get(&lease).filter(|_| !posted || height.is_some());
        let Some(matter) = matter else {
            debug!(%lease, segment = %index, "where its state was posted is not known yet");
            return self.tray.tell(Letter::Core(Input::Unserved { lease, index }));
        };
        let patience = self.left(lease);
        self.fetcher.begin(matter.clone(), index, height.filter(|_| posted), patience);
    }

    /// How long the phase of an audit still lasts.
    fn left(&self, lease: LeaseId) -> Duration {
        let left = self.until.get(&lease).map_or(Millis(0), |until| until.since(self.clock.now()));
        Duration::from_millis(left.0)
    }

    fn give(&self, bench: &Sender<Chore>, lease: LeaseId, chore: impl FnOnce(Matter) -> Chore) {
        if let Some(matter) = self.matters.get(&lease) {
            let _ = bench.send(chore(matter.clone()));
        }
    }

    fn forget(&self, lease: LeaseId) {
        for bench in [&self.bench, &self.looks] {
            let _ = bench.send(Chore::Forget { lease });
        }
        let forgotten: io::Result<()> =
            self.docket.forget(lease).and_then(|()| self.cases.forget(lease));
        if let Err(error) = forgotten {
            warn!(%lease, %error, "what was kept of an audit is not removed");
        }
    }
}
