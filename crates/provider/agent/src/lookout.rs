//! Looks at the chain and at the owner, and tells the desk.
//!
//! Each new block is followed by a look at everything that is open; blocks that come faster than that
//! share one look. Only auctions are learnt from events; whoever begins looks back, so that one is not
//! missed because everybody was away when it began.

use crate::agent::Earned;
use crate::chain::{Chain, ChainError};
use crate::core::Input;
use crate::desk::Inbox;
use crate::presence::Presence;
use opengpu_types::{Entry, Event, Height, Key, Millis, Task, TaskId, TaskPhase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::debug;

/// How long it waits for a block before it looks at the owner again.
const PATIENCE: Duration = Duration::from_millis(250);
/// Blocks that it looks back when it begins.
const BACK: u64 = 128;
/// Least time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The chain's time, carried on by our own clock between blocks.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<Mutex<(Millis, Instant)>>);

impl Clock {
    pub(crate) fn new(time: Millis) -> Self {
        Self(Arc::new(Mutex::new((time, Instant::now()))))
    }

    pub(crate) fn now(&self) -> Millis {
        let (time, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        time.plus(Millis(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    /// A block has this time; it never goes back.
    fn set(&self, time: Millis) {
        let time = time.max(self.now());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (time, Instant::now());
    }
}

pub(crate) struct Lookout {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) clock: Clock,
    /// Tasks that are to be looked at.
    pub(crate) interest: Arc<Mutex<BTreeSet<TaskId>>>,
    pub(crate) inbox: Inbox,
    pub(crate) presence: Box<dyn Presence>,
    /// How long the owner must do nothing to be away.
    pub(crate) away: Duration,
    pub(crate) earned: Arc<Mutex<Earned>>,
    pub(crate) stop: Arc<AtomicBool>,
    /// The newest block when it began.
    pub(crate) began: Height,
}

impl Lookout {
    /// Looks until it is stopped.
    pub(crate) fn watch(mut self) {
        let (mut height, mut there, mut looked) = (None, false, None::<Instant>);
        while !self.stop.load(Ordering::SeqCst) {
            let is_there = self.presence.idle().is_some_and(|idle| idle < self.away);
            if is_there != there {
                there = is_there;
                self.inbox.tell(if there { Input::OwnerBack } else { Input::OwnerAway });
            }
            let turned = self.turn(&mut height).and_then(|()| {
                if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                    self.look()?;
                    looked = Some(Instant::now());
                }
                Ok(())
            });
            if let Err(error) = turned {
                debug!(%error, "cannot look");
                std::thread::sleep(PATIENCE);
            }
        }
    }

    /// Takes the next block, if there is one.
    fn turn(&mut self, height: &mut Option<Height>) -> Result<(), ChainError> {
        let after = match *height {
            Some(height) => height,
            None => {
                let tip = self.chain.tip()?.height;
                self.began = tip;
                Height(tip.0.saturating_sub(BACK))
            }
        };
        *height = Some(after);
        let Some(block) = self.chain.next(after, PATIENCE)? else { return Ok(()) };
        *height = Some(block.height);
        self.clock.set(block.time);
        let is_new = block.height > self.began;
        for event in &block.events {
            match event {
                Event::BiddingOpened { task: id, .. } => {
                    let bidding = |task: &Task| matches!(task.phase, TaskPhase::Bidding { .. });
                    if let Some(task) = self.task(*id)?.filter(bidding) {
                        let (task, salt) = (Box::new(task), rand::random());
                        self.inbox.tell(Input::Bidding { id: *id, task, salt });
                    }
                }
                Event::LeaseClosed { provider, paid, .. }
                    if is_new && *provider == self.chain.account() =>
                {
                    let mut earned = self.earned.lock().unwrap_or_else(PoisonError::into_inner);
                    earned.leases = earned.leases.saturating_add(1);
                    earned.paid = earned.paid.plus(*paid).unwrap_or(earned.paid);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells everything that is open.
    fn look(&self) -> Result<(), ChainError> {
        let mut wanted = self.interest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let provider = match self.chain.entry(&Key::Provider(self.chain.account()))? {
            Some(Entry::Provider(provider)) => Some(Box::new(provider.into_inner())),
            _ => None,
        };
        let leases = provider.iter().flat_map(|provider| &provider.leases);
        wanted.extend(leases.map(|lease| lease.task));
        let mut tasks = BTreeMap::new();
        for id in wanted {
            tasks.insert(id, self.task(id)?);
        }
        self.inbox.tell(Input::Seen { provider, tasks });
        Ok(())
    }

    fn task(&self, id: TaskId) -> Result<Option<Task>, ChainError> {
        Ok(match self.chain.entry(&Key::Task(id))? {
            Some(Entry::Task(task)) => Some(task.into_inner()),
            _ => None,
        })
    }
}
