//! Trials with their threads: what the lookout sees comes in, devices compute, words go to the chain.
//!
//! One thread applies and speaks; each device computes in an executor of its own, all at once.

use super::{Effect, Input, Trials};
use crate::agent::Status;
use crate::chain::{Chain, ChainError};
use crate::core::{Devices, Wish};
use crate::desk::{LONGEST_WAIT, answer, spawn};
use crate::lookout::Clock;
use crate::offering::Group;
use opengpu_crypto::merkle;
use opengpu_exec::{Launch, trial as device};
use opengpu_types::{
    Address, Digest, Entry, Event, Key, List, MarketOperation, MarketParameters, Millis, Provider,
    ProviderStatus, Seed, Trial, TrialPhase,
};
use opengpu_verify::trial::{self, Device};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{debug, info, warn};

/// What comes to the office.
enum Letter {
    Seen(Option<Trial>),
    Computed { seed: Seed, made: Option<Made> },
}

/// What devices have computed: the leaves of each, and their roots.
struct Made {
    leaves: Vec<Vec<Digest>>,
    roots: Vec<Digest>,
}

/// The trial for which devices compute.
type Current = Arc<Mutex<Option<Seed>>>;

/// The lookout's eye on trials.
pub(crate) struct Watch {
    tray: Sender<Letter>,
}

impl Watch {
    /// Whether an event is about a trial of this account.
    pub(crate) fn hear(event: &Event, account: Address) -> bool {
        matches!(
            event,
            Event::TrialOpened { provider, .. } | Event::TrialClosed { provider, .. }
                if *provider == account
        )
    }

    /// Looks at the open trial of a provider.
    pub(crate) fn look(&self, chain: &dyn Chain) -> Result<(), ChainError> {
        let trial = match chain.entry(&Key::Trial(chain.account()))? {
            Some(Entry::Trial(trial)) => Some(trial.into_inner()),
            _ => None,
        };
        let _ = self.tray.send(Letter::Seen(trial));
        Ok(())
    }
}

/// All that trials take of an agent.
pub(crate) struct Setting {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) market: MarketParameters,
    pub(crate) clock: Clock,
    pub(crate) launch: Launch,
    pub(crate) groups: Vec<Group>,
    pub(crate) status: Arc<Mutex<Status>>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// What was started; nothing where nobody is tried.
#[derive(Default)]
pub(crate) struct Started {
    pub(crate) watch: Option<Watch>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

impl Setting {
    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<Started> {
        if !self.market.trials.are_on() {
            return Ok(Started::default());
        }
        let (tray, letters) = channel();
        let office = Office {
            setting: self,
            core: Trials::default(),
            tray: tray.clone(),
            current: Current::default(),
            made: None,
            computing: None,
        };
        let threads = vec![spawn("agent-trials", move || office.work(&letters))?];
        Ok(Started { watch: Some(Watch { tray }), threads })
    }
}

/// Whoever carries trials out.
struct Office {
    setting: Setting,
    core: Trials,
    tray: Sender<Letter>,
    current: Current,
    made: Option<Made>,
    computing: Option<JoinHandle<()>>,
}

impl Office {
    fn work(mut self, letters: &Receiver<Letter>) {
        while !self.setting.stop.load(Ordering::SeqCst) {
            let input = match letters.recv_timeout(LONGEST_WAIT) {
                Ok(Letter::Seen(trial)) => Input::Seen { trial, unproven: self.is_unproven() },
                Ok(Letter::Computed { seed, made }) => {
                    let root = made.as_ref().map(|made| trial::root(&made.roots));
                    self.made = made;
                    Input::Computed { seed, root }
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.apply(input);
        }
        self.let_go();
    }

    /// Whether nothing is leased to it because it did not pass, and its owner wants it to work.
    fn is_unproven(&self) -> bool {
        let status = self.setting.status.lock().unwrap_or_else(PoisonError::into_inner);
        let unproven = |it: &Provider| matches!(it.status, ProviderStatus::Unproven { .. });
        status.wish == Wish::Work && status.provider.as_ref().is_some_and(unproven)
    }

    fn apply(&mut self, input: Input) {
        for effect in self.core.apply(self.setting.clock.now(), input) {
            match effect {
                Effect::Compute(trial) => self.compute(trial),
                Effect::Commit(root) => self.say(MarketOperation::CommitTrial { root }),
                Effect::Open(trial) => self.open(&trial),
                Effect::Request => self.say(MarketOperation::RequestTrial),
                Effect::Forget => self.let_go(),
            }
        }
    }

    /// Says something on chain, and hears what became of it.
    fn say(&mut self, operation: MarketOperation) {
        info!(word = operation.name(), "said in a trial");
        let answer = answer(&*self.setting.chain, operation);
        let effects = self.core.apply(self.setting.clock.now(), Input::Submitted(answer));
        debug!(?effects, "nothing follows before another look");
    }

    /// Ends what is computed, and forgets what was.
    fn let_go(&mut self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.made = None;
        if let Some(thread) = self.computing.take() {
            let _ = thread.join();
        }
    }

    /// Has all devices of a trial compute at once, beside everything else.
    fn compute(&mut self, trial: Trial) {
        self.let_go();
        let seed = trial.seed;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(seed);
        let left = trial.until.since(self.setting.clock.now());
        // Of one that is to be opened it is known already that it was in time.
        let left = if trial.phase == TrialPhase::Running { left } else { LONGEST };
        let devices = trial::devices(&seed, &trial.tried, self.setting.market.trials.work);
        let launches = self.launches(&devices);
        info!(devices = devices.len(), milliseconds = left.0, "a trial of its devices has begun");
        let (tray, current) = (self.tray.clone(), Arc::clone(&self.current));
        let stop = Arc::clone(&self.setting.stop);
        let work = move || {
            let halted = || {
                let current = current.lock().unwrap_or_else(PoisonError::into_inner);
                stop.load(Ordering::SeqCst) || *current != Some(seed)
            };
            let patience = Duration::from_millis(left.0);
            let made = launches
                .and_then(|launches| made(launches.iter().zip(&devices), patience, &halted));
            let _ = tray.send(Letter::Computed { seed, made });
        };
        match spawn("agent-trial", work) {
            Ok(thread) => self.computing = Some(thread),
            Err(error) => warn!(%error, "no thread for a trial"),
        }
    }

    /// How the executor of each device is started: those that no lease has, and none twice while there are
    /// others. None if there is no such offer here.
    fn launches(&self, devices: &[Device]) -> Option<Vec<Launch>> {
        let mut taken = BTreeMap::<u8, Devices>::new();
        let status = self.setting.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (offer, devices) in status.leases.iter().filter_map(|lease| lease.devices) {
            let own = taken.entry(offer).or_default();
            *own = devices.iter().fold(*own, Devices::with);
        }
        let launch_of = |device: &Device| {
            let ids = &self.setting.groups.get(usize::from(device.offer))?.ids;
            let own = taken.entry(device.offer).or_default();
            let count = u8::try_from(ids.len()).unwrap_or(u8::MAX);
            let free = (0..count).find(|number| !own.has(*number));
            let number = free.or_else(|| device.number.checked_rem(count))?;
            *own = own.with(number);
            let id = ids.get(usize::from(number))?.clone();
            Some(self.setting.launch.on(&id.into_iter().collect::<Vec<_>>()))
        };
        devices.iter().map(launch_of).collect()
    }

    /// Opens what was drawn.
    fn open(&mut self, trial: &Trial) {
        let opened = self.made.as_ref().and_then(|made| made.open(trial, &self.setting.market));
        match opened {
            Some(operation) => self.say(operation),
            None => warn!("what was drawn of a trial cannot be opened"),
        }
    }
}

/// Longer than any trial.
const LONGEST: Millis = Millis(3_600_000);

/// What devices compute at once; none if one of them fails.
fn made<'a>(
    devices: impl Iterator<Item = (&'a Launch, &'a Device)>,
    patience: Duration,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Made> {
    let leaves: Option<Vec<_>> = thread::scope(|scope| {
        let compute = |(launch, device): (&'a Launch, &'a Device)| {
            scope.spawn(move || device::compute(launch, device, patience, stop))
        };
        let all: Vec<_> = devices.map(compute).collect();
        let ends = all.into_iter().map(|thread| match thread.join() {
            Ok(Ok(leaves)) => Some(leaves),
            Ok(Err(error)) => {
                warn!(%error, "a device did not pass its trial");
                None
            }
            Err(_) => None,
        });
        ends.collect::<Vec<_>>().into_iter().collect()
    });
    let leaves = leaves?;
    let roots = leaves.iter().map(|leaves| merkle::root(leaves)).collect();
    Some(Made { leaves, roots })
}

impl Made {
    /// A block for each lane that was drawn.
    fn open(&self, trial: &Trial, market: &MarketParameters) -> Option<MarketOperation> {
        let TrialPhase::Opening { draw, .. } = trial.phase else { return None };
        let devices = trial::devices(&trial.seed, &trial.tried, market.trials.work);
        let open = |drawn: trial::Drawn| {
            let place = usize::try_from(drawn.device).ok()?;
            trial::open(devices.get(place)?, drawn, self.leaves.get(place)?, &self.roots)
        };
        let blocks: Option<Vec<_>> = trial::drawn(&draw, &devices).into_iter().map(open).collect();
        let (rounds, blocks) = (trial::most_rounds(&devices), List::new(blocks?).ok()?.into());
        Some(MarketOperation::OpenTrial { rounds, blocks })
    }
}
